// SPDX-License-Identifier: Apache-2.0
// The trained tensors of an entry from a safetensors file, by their names. What else the file has,
// such as the states of an optimizer, is passed over.
#include "driver/driver.h"

#include <string.h>

#include "train/model/model.h"

static bool is_given(const Options *options, Name name) {
    for (uint32_t i = 0; i < options->inputs.count; i++)
        if (options->inputs.at[i].name == name)
            return true;
    return false;
}

// What a file lacks.
typedef struct {
    uint32_t trained, missing; // tensors
    Text names;                // of the first that are missing
} Lack;

// The first tensors of the file that nothing asks for: what is missing may have another name there.
static const char *others_in(const AttTensorFile *file, const Graph *graph, Arena *arena) {
    Text names = {.arena = arena};
    uint32_t count = 0;
    char shown[ATT_SHOWN_ROOM];
    for (int64_t i = 0; i < file->n_tensors; i++)
        if (!att_is_state_name(file->tensors[i].name) &&
            !graph_find_input(graph, names_find(graph->session->names, file->tensors[i].name)))
            text_list(&names, count++, att_shown(file->tensors[i].name, shown));
    return names.at ? arena_printf(arena, "; it has besides: %s", names.at) : "";
}

static bool report_lack(Options *options, const Graph *graph, const AttTensorFile *file,
                        const Lack *lack) {
    if (!lack->trained)
        problem(options,
                "--weights %s: %s has no trained tensors: mark them param, or say with "
                "--data what is data",
                options->weights, graph->entry);
    else if (lack->missing)
        problem(options, "%s: lacks %u of the %u trained tensors of %s: %s%s", options->weights,
                lack->missing, lack->trained, graph->entry, lack->names.at,
                others_in(file, graph, options->session->arena));
    return lack->trained && !lack->missing;
}

// Where the file has those that it lacks by their own names.
static AttTensorPath find_path(const Options *options, const Graph *graph,
                               const AttTensorFile *file) {
    VEC(const char *) names = {0};
    for (uint32_t i = 0; i < graph->inputs.count; i++)
        if (graph->inputs.at[i]->role == ROLE_PARAM &&
            !is_given(options, graph->inputs.at[i]->name))
            vec_push(options->session->arena, &names, graph->inputs.at[i]->name);
    return att_safetensors_path(file, names.at, names.count);
}

static bool take_all(Options *options, AttContext *context, const Graph *graph,
                     const AttTensorFile *file, AttTensorData *inputs, bool *taken) {
    Lack lack = {.names = {.arena = options->session->arena}};
    AttTensorPath path = find_path(options, graph, file);
    bool fine = true;
    for (uint32_t i = 0; i < graph->inputs.count; i++) {
        const Value *input = graph->inputs.at[i];
        const AttNamedTensor *found = att_safetensors_find_under(file, path, input->name);
        if (input->role != ROLE_PARAM)
            continue;
        lack.trained++;
        if (is_given(options, input->name))
            continue;
        if (!found) {
            text_list(&lack.names, lack.missing++, input->name);
            continue;
        }
        taken[i] = !att_safetensors_floats(context, options->weights, found, (AttElem)input->elem,
                                           &inputs[i]);
        if (!taken[i])
            problem(options, "%s", att_message(context));
        fine &= taken[i];
    }
    return report_lack(options, graph, file, &lack) && fine;
}

bool weights_read(Options *options, AttContext *context, const Graph *graph, AttTensorData *inputs,
                  bool *taken) {
    AttTensorFile file;
    bool fine = !att_safetensors_open(context, options->weights, &file);
    if (fine)
        fine = take_all(options, context, graph, &file, inputs, taken);
    else
        problem(options, "%s", att_message(context));
    att_safetensors_close(&file);
    return fine;
}
