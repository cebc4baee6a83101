// SPDX-License-Identifier: Apache-2.0
// A machine as a JSON file: one object with the names of Machine's facts. Facts that are missing
// are those of the machine that is passed in; whatever else is not as it must be is an error that
// names the fact.
#include "driver/driver.h"

#include <string.h>

typedef enum { FACT_NAME, FACT_INT, FACT_BYTES, FACT_FLAG, FACT_REAL } FactKind;
typedef struct {
    const char *name;
    FactKind kind;
    size_t offset;
    double low, high;
} Fact;

#define FACT(name, kind, low, high) {#name, kind, offsetof(Machine, name), low, high}
static const Fact facts[] = {
    FACT(name, FACT_NAME, 0, 0),
    FACT(vector_bytes, FACT_INT, 16, 64),
    FACT(vector_registers, FACT_INT, 4, 64),
    FACT(has_masks, FACT_FLAG, 0, 0),
    FACT(rows_unpacked, FACT_INT, 1, 64),
    FACT(rows_packed, FACT_INT, 1, 64),
    FACT(l1_bytes, FACT_BYTES, 64, 1e15),
    FACT(l2_bytes, FACT_BYTES, 64, 1e15),
    FACT(l3_bytes, FACT_BYTES, 64, 1e15),
    FACT(flops_per_second, FACT_REAL, 1, 1e18),
    FACT(splats_per_second, FACT_REAL, 1, 1e18),
    FACT(l1_bytes_per_second, FACT_REAL, 1, 1e18),
    FACT(l2_bytes_per_second, FACT_REAL, 1, 1e18),
    FACT(l3_bytes_per_second, FACT_REAL, 1, 1e18),
    FACT(memory_bytes_per_second, FACT_REAL, 1, 1e18),
    FACT(l2_write_cost, FACT_REAL, 1, 100),
    FACT(l3_write_cost, FACT_REAL, 1, 100),
    FACT(memory_write_cost, FACT_REAL, 1, 100),
    FACT(scattered_exposed, FACT_REAL, 0, 1),
    FACT(one_set_exposed, FACT_REAL, 0, 1),
    FACT(one_set_far_exposed, FACT_REAL, 0, 1),
    FACT(threads, FACT_INT, 1, 1024),
    FACT(task_seconds, FACT_REAL, 1e-12, 1),
    FACT(launch_seconds, FACT_REAL, 1e-12, 1),
};
#undef FACT
enum { N_FACTS = sizeof facts / sizeof facts[0] };

static void *place_of(const Fact *fact, Machine *machine) {
    return (char *)machine + fact->offset;
}

json_t *machine_to_json(const Machine *machine) {
    json_t *object = json_object();
    Machine copy = *machine;
    for (int i = 0; i < N_FACTS; i++) {
        const void *place = place_of(&facts[i], &copy);
        json_t *value = NULL;
        switch (facts[i].kind) {
        case FACT_NAME:
            value = json_string(*(const char *const *)place);
            break;
        case FACT_INT:
            value = json_integer(*(const int *)place);
            break;
        case FACT_BYTES:
            value = json_integer(*(const int64_t *)place);
            break;
        case FACT_FLAG:
            value = json_boolean(*(const bool *)place);
            break;
        case FACT_REAL:
            value = json_real(*(const double *)place);
            break;
        }
        json_object_set_new(object, facts[i].name, value);
    }
    return object;
}

// false: the value is of another kind or out of bounds.
static bool read_fact(Arena *arena, const Fact *fact, const json_t *value, Machine *machine) {
    void *place = place_of(fact, machine);
    if (fact->kind == FACT_NAME) {
        if (!json_is_string(value) || !json_string_length(value))
            return false;
        *(const char **)place = arena_printf(arena, "%s", json_string_value(value));
        return true;
    }
    if (fact->kind == FACT_FLAG) {
        *(bool *)place = json_is_true(value);
        return json_is_boolean(value);
    }
    double number = json_number_value(value);
    bool whole = fact->kind != FACT_REAL;
    if (!json_is_number(value) || (whole && !json_is_integer(value)) || number < fact->low ||
        number > fact->high)
        return false;
    if (fact->kind == FACT_INT)
        *(int *)place = (int)json_integer_value(value);
    else if (fact->kind == FACT_BYTES)
        *(int64_t *)place = json_integer_value(value);
    else
        *(double *)place = number;
    return true;
}

static const char *what_it_must_be(Arena *arena, const Fact *fact) {
    switch (fact->kind) {
    case FACT_NAME:
        return arena_printf(arena, "'%s' must be a text", fact->name);
    case FACT_FLAG:
        return arena_printf(arena, "'%s' must be true or false", fact->name);
    case FACT_REAL:
        return arena_printf(arena, "'%s' must be a number from %g to %g", fact->name, fact->low,
                            fact->high);
    default:
        return arena_printf(arena, "'%s' must be a whole number from %.0f to %.0f", fact->name,
                            fact->low, fact->high);
    }
}

// What one fact alone does not show. NULL: nothing is wrong.
static const char *check_together(const Machine *machine) {
    if (machine->vector_bytes & (machine->vector_bytes - 1))
        return "'vector_bytes' must be 16, 32 or 64";
    if (machine->l2_bytes < machine->l1_bytes)
        return "'l2_bytes' must not be less than 'l1_bytes'";
    if (machine->l3_bytes < machine->l2_bytes)
        return "'l3_bytes' must not be less than 'l2_bytes'";
    return NULL;
}

static const char *read_object(Arena *arena, json_t *object, Machine *machine) {
    const char *name;
    json_t *value;
    if (!json_is_object(object))
        return "a machine is an object {\"vector_bytes\": 64, ...}";
    json_object_foreach(object, name, value) {
        int i = 0;
        while (i < N_FACTS && strcmp(name, facts[i].name) != 0)
            i++;
        if (i == N_FACTS)
            return arena_printf(arena, "'%s' is no fact of a machine (see attc machine)", name);
        if (!read_fact(arena, &facts[i], value, machine))
            return what_it_must_be(arena, &facts[i]);
    }
    return check_together(machine);
}

// Takes the reference. NULL: all is well.
static const char *finish(Arena *arena, json_t *object, const json_error_t *error,
                          Machine *machine) {
    if (!object)
        return error->line > 0 ? arena_printf(arena, "line %d: %s", error->line, error->text)
                               : arena_printf(arena, "%s", error->text);
    Machine read = *machine;
    const char *why = read_object(arena, object, &read);
    json_decref(object);
    if (!why)
        *machine = read;
    return why;
}

const char *machine_from_file(Arena *arena, const char *path, Machine *machine) {
    json_error_t error;
    json_t *object = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    return finish(arena, object, &error, machine);
}

const char *machine_from_text(Arena *arena, const char *text, Machine *machine) {
    json_error_t error;
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    return finish(arena, object, &error, machine);
}
