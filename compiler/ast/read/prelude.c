// SPDX-License-Identifier: Apache-2.0
// The prelude: prelude.attn as text, and the defs it adds to every program.
#include "ast/ast.h"

#include <string.h>

static const char *prelude_text(void) {
    return
#include "prelude.inc" // prelude.attn, each line as a C string
        ;
}

void ast_add_prelude(Session *session, Program *program) {
    const char *text = prelude_text();
    uint32_t first = program->defs.count;
    ast_parse(session, program, sources_add(session->sources, "<prelude>", text, strlen(text)));
    for (uint32_t i = first; i < program->defs.count; i++)
        program->defs.at[i]->from_prelude = true;
}
