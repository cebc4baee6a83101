// SPDX-License-Identifier: Apache-2.0
// What the cost model counted of a kernel as one line of JSON, as the database keeps it:
//
//     {"waited": 0.5, "outside": [96, 5e-06], "cycles": 1e+06, "stages": [[3e+06, 1e+05, 0, ..],
//     ..]}
//
// A stage is its cycles, then its bytes from L2, L3 and memory, then the bytes that are waited for.
// Stages without traffic take their cycles, whichever they are: they are summed.
#include "tune/tune.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

enum { LEVELS = N_FROM - FROM_L2, NUMBERS_OF_STAGE = 1 + 2 * LEVELS, STAGES_MOST = 10000 };
static const double number_most = 1e18;

// ---- writing ------------------------------------------------------------------------------------

static bool has_traffic(const StageCost *stage) {
    for (int level = FROM_L2; level < N_FROM; level++)
        if (stage->bytes[level] > 0)
            return true;
    return false;
}

static void write_stage(Text *text, const StageCost *stage) {
    text_printf(text, "[%.6g", stage->cycles);
    for (int level = FROM_L2; level < N_FROM; level++)
        text_printf(text, ", %.6g", stage->bytes[level]);
    for (int level = FROM_L2; level < N_FROM; level++)
        text_printf(text, ", %.6g", stage->exposed[level]);
    text_add(text, "]");
}

char *tune_counts_to_text(Arena *arena, const TileCost *counted) {
    Text text = {.arena = arena};
    double cycles = counted->cycles;
    for (uint32_t i = 0; i < counted->stages.count; i++)
        cycles += has_traffic(&counted->stages.at[i]) ? 0 : counted->stages.at[i].cycles;
    text_printf(&text,
                "{\"waited\": %.6g, \"outside\": [%.6g, %.6g], \"cycles\": %.6g, \"stages\": [",
                counted->waited, counted->outside_cycles, counted->outside_seconds, cycles);
    for (uint32_t i = 0, n = 0; i < counted->stages.count; i++)
        if (has_traffic(&counted->stages.at[i])) {
            text_add(&text, n++ ? ", " : "");
            write_stage(&text, &counted->stages.at[i]);
        }
    text_add(&text, "]}");
    return text.at;
}

// ---- reading ------------------------------------------------------------------------------------

static bool take_number(const json_t *value, double *out) {
    *out = json_number_value(value);
    return json_is_number(value) && isfinite(*out) && *out >= 0 && *out <= number_most;
}

static bool take_numbers(const json_t *list, size_t count, double *out) {
    bool ok = json_is_array(list) && json_array_size(list) == count;
    for (size_t i = 0; i < count && ok; i++)
        ok = take_number(json_array_get(list, i), &out[i]);
    return ok;
}

static bool take_stage(const json_t *list, StageCost *out) {
    double numbers[NUMBERS_OF_STAGE];
    *out = (StageCost){0};
    if (!take_numbers(list, NUMBERS_OF_STAGE, numbers))
        return false;
    out->cycles = numbers[0];
    memcpy(out->bytes + FROM_L2, numbers + 1, LEVELS * sizeof *numbers);
    memcpy(out->exposed + FROM_L2, numbers + 1 + LEVELS, LEVELS * sizeof *numbers);
    return true;
}

static bool take_stages(Arena *arena, const json_t *list, TileCost *out) {
    bool ok = json_is_array(list) && json_array_size(list) <= STAGES_MOST;
    for (size_t i = 0; ok && i < json_array_size(list); i++) {
        StageCost stage;
        ok = take_stage(json_array_get(list, i), &stage);
        vec_push(arena, &out->stages, stage);
    }
    return ok;
}

static const char *take_counts(Arena *arena, const json_t *object, TileCost *out) {
    double outside[2];
    if (!take_number(json_object_get(object, "waited"), &out->waited) ||
        !take_number(json_object_get(object, "cycles"), &out->cycles))
        return "expected numbers \"waited\" and \"cycles\"";
    if (!take_numbers(json_object_get(object, "outside"), 2, outside))
        return "expected two numbers \"outside\"";
    out->outside_cycles = outside[0];
    out->outside_seconds = outside[1];
    if (!take_stages(arena, json_object_get(object, "stages"), out))
        return "expected lists of seven numbers \"stages\"";
    return NULL;
}

bool tune_counts_from_text(Arena *arena, const char *text, TileCost *out, const char **why) {
    json_error_t error;
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    *out = (TileCost){0};
    *why = object ? take_counts(arena, object, out) : arena_printf(arena, "%s", error.text);
    json_decref(object);
    return !*why;
}
