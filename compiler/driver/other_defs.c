// SPDX-License-Identifier: Apache-2.0
// A name that the entry lacks may be one of another def: a helper that is written last is the
// entry.
#include "driver/driver.h"

static bool has_argument(const Def *def, Name name) {
    for (uint32_t i = 0; i < def->params.count; i++)
        if (def->params.at[i].name.name == name)
            return true;
    return false;
}

static bool has_result(const Def *def, Name name) {
    for (uint32_t i = 0; i < def->result_names.count; i++)
        if (def->result_names.at[i] == name)
            return true;
    return false;
}

bool driver_hint_entry(Options *options, const Compilation *compiled, Name lacking, bool result,
                       Diag *diag) {
    const Program *program = compiled->program;
    const Def *entry = program_find_def(program, compiled->built->entry);
    Text defs = {.arena = options->session->arena};
    uint32_t count = 0;
    for (uint32_t i = 0; i < program->defs.count; i++) {
        const Def *def = program->defs.at[i];
        bool has = result ? has_result(def, lacking) : has_argument(def, lacking);
        if (def != entry && !def->is_optimizer && def->span.file == entry->span.file && has)
            text_list(&defs, count++, def->name.name);
    }
    const char *what = result ? "a result" : "an argument";
    if (count && options->entry.entry)
        diag_hint(diag, "%s is %s of %s, not of the def that --entry names", lacking, what,
                  defs.at);
    else if (count)
        diag_hint(diag,
                  "%s is %s of %s: the entry is the last def of the file, unless --entry names one",
                  lacking, what, defs.at);
    return count > 0;
}
