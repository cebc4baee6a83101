// SPDX-License-Identifier: Apache-2.0
// Resolution of a program: dims and their extents, top-level params, then every def on its own,
// after those that it calls. The first mistake stops nothing: what depends on it is poisoned.
#include "ast/resolve/resolve.h"

Def *program_find_def(const Program *program, Name name) {
    Def *found = NULL;
    for (uint32_t i = 0; i < program->defs.count; i++) {
        Def *def = program->defs.at[i];
        if (def->name.name == name && !def->from_prelude)
            return def; // the user's own go first
        if (def->name.name == name && !found)
            found = def;
    }
    return found;
}

Def *program_find_callee(const Program *program, const Def *caller, Name name) {
    for (uint32_t i = 0; caller && caller->from_prelude && i < program->defs.count; i++)
        if (program->defs.at[i]->from_prelude && program->defs.at[i]->name.name == name)
            return program->defs.at[i];
    return program_find_def(program, name);
}

// ---- declarations of tensors --------------------------------------------------------------------

// Not made of dims and loop numbers: a def can have several uses with values of their own, and
// graph_build looks at each.
static bool is_constant(const Expr *expr) {
    for (uint32_t i = 0; i < expr->args.count; i++)
        if (!is_constant(expr->args.at[i]))
            return false;
    return expr->kind != EXPR_NAME;
}

// `param W[d, e] = zeros`, zeros(d, e), zeros[d, e], torch.zeros(d, e): what is one number here.
static bool report_value(Scope *scope, const Expr *value) {
    Name name = value->name.name;
    if (!name || scope_find(scope, name) || scope_knows_dim(scope, name))
        return false;
    bool same = name_is_same(name),
         drawn = words_have("normal truncated_normal uniform glorot", name);
    if (!same && !drawn)
        return false;
    Resolver *r = scope->resolver;
    Diag *diag =
        diag_error(r->diags, value->span, "an initial value is one number for all elements");
    if (same)
        diag_hint(diag, "write '= %d'", name[0] == 'o');
    else
        diag_hint(diag, "numbers that are drawn stand behind '~': '~ %s'",
                  span_text(r->session->sources, value->span, r->arena));
    return true;
}

static void resolve_initialiser(Scope *scope, Tensor *tensor) {
    static const char *const what[][2] = {
        [INIT_VALUE] = {"an initial value", ""},
        [INIT_NORMAL] = {"a standard deviation", ""},
        [INIT_UNIFORM] = {"a bound", "a bound"},
        [INIT_TRUNCATED_NORMAL] = {"a standard deviation", ""},
        [INIT_GLOROT] = {"", ""},
    };
    Resolver *r = scope->resolver;
    double numbers[2] = {0};
    bool known = true;
    for (int i = 0; i < 2 && tensor->init_args[i]; i++) {
        Expr *arg = tensor->init_args[i];
        if (tensor->init == INIT_VALUE && report_value(scope, arg))
            return;
        resolve_number(scope, arg, what[tensor->init][i]);
        known = known && (!scope->def || is_constant(arg)) &&
                expr_evaluate(r->session, r->program, arg, NULL, 0, &numbers[i]);
    }
    Span at;
    const char *problem = known ? tensor_init_problem(r->arena, tensor, numbers, &at) : NULL;
    if (problem)
        diag_error(r->diags, at, "%s", problem);
}

// A trained tensor needs its dims, since nothing else says them, and is a float.
static bool check_trained(Scope *scope, const Tensor *tensor) {
    Diags *diags = scope->resolver->diags;
    if (!tensor->has_dims && scope_incomplete(scope))
        return false;
    if (!tensor->has_dims) {
        Diag *diag = diag_error(diags, tensor->name.span,
                                "the dims of trained tensor '%s' are missing", tensor->name.name);
        diag_hint(diag, "write '%s[...]', or '%s[]' for a number", tensor->name.name,
                  tensor->name.name);
        return false;
    }
    if (elem_is_float(tensor->elem))
        return true;
    Diag *diag = diag_error(diags, tensor->name.span, "a trained tensor is of floats, '%s' is %s",
                            tensor->name.name, elem_name(tensor->elem));
    diag_hint(diag, "leave out ': %s'", elem_name(tensor->elem));
    return true;
}

// Reports a name that this scope declares already.
static bool check_new_name(Scope *scope, Ident name, bool hides_globals) {
    const Symbol *first = scope_find(scope, name.name);
    if (!first || (hides_globals && first->kind == SYMBOL_GLOBAL))
        return true;
    if (scope_incomplete(scope))
        return false;
    Diag *diag = diag_error(scope->resolver->diags, name.span, "'%s' is declared twice", name.name);
    diag_note(diag, first->name.span, "first here");
    return false;
}

static void declare_tensor(Scope *scope, SymbolKind kind, Tensor *tensor) {
    if (!tensor->has_elem)
        tensor->elem = ELEM_F32;
    bool fresh = check_new_name(scope, tensor->name, kind != SYMBOL_GLOBAL);
    bool fine = !tensor->garbled && scope_check_brackets(scope, &tensor->dims, NULL);
    if (kind != SYMBOL_ARGUMENT && !tensor->garbled)
        fine = check_trained(scope, tensor) && fine;
    if (!fresh)
        return;
    Symbol *symbol = scope_add(scope, kind, tensor->name);
    symbol->elem = tensor->elem;
    symbol->ok = fine && tensor->has_dims;
    symbol->doubtful = !fine;
    if (tensor->has_dims) {
        symbol->brackets = &tensor->dims;
        symbol->dims = dimlist_of(scope->resolver->arena, &tensor->dims);
    }
    tensor->ok = symbol->ok;
    tensor->result = symbol->dims;
}

static void declare_arguments(Scope *scope) {
    TensorList *params = &scope->def->params;
    uint32_t first = scope->symbols.count;
    for (uint32_t i = 0; i < params->count; i++)
        declare_tensor(scope, SYMBOL_ARGUMENT, &params->at[i]);
    scope_infer_arguments(scope);
    for (uint32_t i = first; i < scope->symbols.count; i++) {
        const Symbol *symbol = scope->symbols.at[i];
        if (symbol->kind != SYMBOL_ARGUMENT)
            continue;
        for (uint32_t k = 0; k < params->count; k++) {
            Tensor *tensor = &params->at[k];
            if (tensor->name.span.begin != symbol->name.span.begin ||
                tensor->name.name != symbol->name.name)
                continue;
            tensor->result = symbol->dims;
            tensor->ok = symbol->ok;
        }
        scope_add_dims(scope, &symbol->dims);
    }
}

// ---- statements ---------------------------------------------------------------------------------

static void resolve_body(Scope *scope, const StmtList *body);

// The first dim of the tensor that a loop runs over, or its dim.
static Name meant_dim(Scope *scope, const Stmt *stmt) {
    const Symbol *symbol = scope_find(scope, stmt->loop_dim.name);
    bool tensor = symbol && symbol->kind != SYMBOL_LOOP && symbol->kind != SYMBOL_STEP;
    return tensor && symbol->dims.count ? symbol->dims.at[0] : stmt->loop_dim.name;
}

// A `for` needs a known extent.
static const char *loop_word(const Scope *scope, const Stmt *stmt, Name dim) {
    const Resolver *r = scope->resolver;
    bool known = program_extent(r->session, r->program, dim) >= 0;
    return stmt->kind == STMT_SCAN || !known ? "scan" : "for";
}

// Of `for x in X`.
static void hint_positions(Scope *scope, const Stmt *stmt, Diag *diag) {
    Arena *arena = scope->resolver->arena;
    Name tensor = stmt->loop_dim.name, dim = meant_dim(scope, stmt), at = stmt->loop_var.name;
    NameList one = dimlist_replaced(arena, &scope_find(scope, tensor)->dims, dim, at);
    diag_hint(diag, "'%s %s in %s:' runs over positions, '%s%s' is what '%s' has there",
              loop_word(scope, stmt, dim), at, dim, tensor, dimlist_text(arena, &one), tensor);
}

// Of `for i in range(n)`, `enumerate(X)`.
static void hint_loop(Scope *scope, const Stmt *stmt, Diag *diag) {
    Name dim = meant_dim(scope, stmt);
    const char *word = loop_word(scope, stmt, dim);
    if (scope_knows_dim(scope, dim))
        diag_hint(diag, "write '%s %s in %s:'", word, stmt->loop_var.name, dim);
    else
        diag_hint(diag, "'dim %s = 6' at the top of the file, then 'for %s in %s:'", dim,
                  stmt->loop_var.name, dim);
}

static void check_loop_dim(Scope *scope, const Stmt *stmt) {
    Resolver *r = scope->resolver;
    Name dim = stmt->loop_dim.name;
    if (stmt->foreign)
        hint_loop(scope, stmt, stmt->foreign);
    if (stmt->garbled || scope_knows_dim(scope, dim) || !scope_is_news(scope, dim))
        return;
    Diag *diag = diag_error(r->diags, stmt->loop_dim.span, "no dim is named '%s' here", dim);
    Near near = near_to(dim);
    for (uint32_t i = 0; i < r->program->dims.count; i++)
        near_offer(&near, r->program->dims.at[i]->name.name);
    if (stmt->kind == STMT_SCAN)
        scope_offer_dims(scope, &near);
    if (near.best)
        diag_hint(diag, "did you mean '%s'?", near.best);
    else if (meant_dim(scope, stmt) != dim)
        hint_positions(scope, stmt, diag);
    else if (stmt->kind == STMT_SCAN)
        diag_hint(diag, "the dims of '%s' are %s", scope->def->name.name,
                  dimlist_text(r->arena, &scope->def->dims));
    else
        diag_hint(diag, "'dim %s = 6' at the top of the file says how often to repeat",
                  name_unprimed(r->session->names, dim));
}

static bool check_variable(Scope *scope, const Stmt *loop, const char *what) {
    Ident variable = loop->loop_var;
    if (!namelist_has(&scope->def->dims, variable.name))
        return check_new_name(scope, variable, true);
    if (loop->foreign) // as what Y[t] of a scan is read, where a `for` stands
        return false;
    Diag *diag =
        diag_error(scope->resolver->diags, variable.span, "'%s' is a dim here", variable.name);
    diag_hint(diag, "give the %s another name", what);
    return false;
}

// What is assigned in a body that is not looked at is not unknown after it.
static void lose_body(Scope *scope, const StmtList *body) {
    for (uint32_t i = 0; i < body->count; i++) {
        const Stmt *stmt = body->at[i];
        if (stmt->kind == STMT_ASSIGN && !scope_find(scope, stmt->target.name.name))
            scope_is_news(scope, stmt->target.name.name);
        lose_body(scope, &stmt->body);
    }
}

static void resolve_scan(Scope *scope, Stmt *stmt) {
    check_loop_dim(scope, stmt);
    if (!check_variable(scope, stmt, "position")) {
        lose_body(scope, &stmt->body); // what the variable means in brackets is not known
        return;
    }
    scope->depth++;
    Symbol *var = scope_add(scope, SYMBOL_STEP, stmt->loop_var);
    var->ok = var->used = true;
    var->elem = ELEM_I64;
    scan_open(scope, stmt);
    resolve_body(scope, &stmt->body);
    scan_close(scope);
    scope_end_loop(scope);
}

static void resolve_for(Scope *scope, Stmt *stmt) {
    check_loop_dim(scope, stmt);
    if (!check_variable(scope, stmt, "number")) {
        lose_body(scope, &stmt->body); // what the variable means in brackets is not known
        return;
    }
    scope->depth++;
    Symbol *var = scope_add(scope, SYMBOL_LOOP, stmt->loop_var);
    var->ok = var->used = true;
    resolve_body(scope, &stmt->body);
    scope_end_loop(scope);
}

static Name result_name(Scope *scope, const Expr *result, uint32_t number) {
    Session *session = scope->resolver->session;
    if (expr_is_tensor(result) && result->name_kind == NAME_TENSOR)
        return result->name.name;
    if (number == 0)
        return names_find(session->names, "result");
    return names_find(session->names, arena_printf(session->arena, "result_%u", number));
}

// return (X, Y)
static void report_tuple(Scope *scope, const Expr *tuple) {
    Resolver *r = scope->resolver;
    Text text = {.arena = r->arena};
    for (uint32_t i = 0; i < tuple->args.count; i++) {
        const Expr *part = tuple->args.at[i];
        const char *own = span_text(r->session->sources, part->span, r->arena);
        text_printf(&text, "%s%s", i ? ", " : "", own);
    }
    Diag *diag = diag_error(r->diags, tuple->span, "results stand without parentheses");
    diag_hint(diag, "write 'return %s'", text.at);
}

static void resolve_return(Scope *scope, Stmt *stmt) {
    Resolver *r = scope->resolver;
    if (stmt->results.count == 1 && stmt->results.at[0]->kind == EXPR_TUPLE && !stmt->garbled) {
        if (!stmt->foreign)
            report_tuple(scope, stmt->results.at[0]);
        stmt->results = stmt->results.at[0]->args;
    }
    Def *def = scope->def;
    if (scope->depth) {
        const char *loop = scope_in_scan(scope) ? "scan" : "loop";
        Diag *diag = diag_error(r->diags, stmt->span, "'return' inside a %s", loop);
        diag_hint(diag, "put it after the %s, which carries its tensors out", loop);
    }
    if (stmt->foreign)
        foreign_hint_statement(scope, stmt);
    bool fine = true;
    for (uint32_t i = 0; i < stmt->results.count; i++) {
        Expr *result = stmt->results.at[i];
        if (stmt->garbled)
            expr_poison(result);
        else if (result->kind == EXPR_REF)
            resolve_reference(scope, result, true);
        else
            resolve_expr(scope, result, NULL);
        resolve_warn_numbers(scope, result);
        fine = result->ok && fine;
        Name name = result_name(scope, result, i);
        if (namelist_has(&def->result_names, name))
            diag_error(r->diags, result->span, "two results are named '%s'", name);
        vec_push(r->arena, &def->result_names, name);
    }
    for (uint32_t i = 0; fine && i < stmt->results.count; i++) {
        vec_push(r->arena, &def->result_dims, stmt->results.at[i]->result);
        vec_push(r->arena, &def->result_elems, stmt->results.at[i]->elem);
    }
}

static void resolve_stmt(Scope *scope, Stmt *stmt) {
    switch (stmt->kind) {
    case STMT_ASSIGN:
        resolve_assign(scope, stmt);
        break;
    case STMT_PARAM:
        declare_tensor(scope, SYMBOL_TRAINED, &stmt->target);
        resolve_initialiser(scope, &stmt->target);
        scope->def->owns_params = true;
        break;
    case STMT_FOR:
        resolve_for(scope, stmt);
        break;
    case STMT_SCAN:
        resolve_scan(scope, stmt);
        break;
    case STMT_RETURN:
        resolve_return(scope, stmt);
        break;
    }
}

// Nothing after a return is looked at: it is one mistake.
static void resolve_body(Scope *scope, const StmtList *body) {
    for (uint32_t i = 0; i < body->count; i++) {
        resolve_stmt(scope, body->at[i]);
        if (body->at[i]->kind != STMT_RETURN || i + 1 == body->count)
            continue;
        if (scope_incomplete(scope))
            return;
        Diag *diag = diag_error(scope->resolver->diags, body->at[i + 1]->span,
                                "nothing after 'return' takes part");
        diag_note(diag, body->at[i]->span, "'return' is here");
        return;
    }
}

// ---- defs ---------------------------------------------------------------------------------------

static void check_returns(Scope *scope) {
    const Def *def = scope->def;
    if (def->incomplete || def->result_names.count)
        return;
    Diag *diag =
        diag_error(scope->resolver->diags, def->name.span, "'%s' returns nothing", def->name.name);
    const Stmt *last = def->body.count ? def->body.at[def->body.count - 1] : NULL;
    if (last && last->kind == STMT_ASSIGN && last->target.ok)
        diag_hint(diag, "end it with 'return %s%s'", last->target.name.name,
                  dimlist_text(scope->resolver->arena, &last->target.result));
    else
        diag_hint(diag, "end it with 'return ...'");
}

static void check_def_name(Resolver *r, const Def *def) {
    if (builtin_find(def->name.name) != BUILTIN_NONE) {
        Diag *diag =
            diag_error(r->diags, def->name.span, "'%s' is a built-in function", def->name.name);
        diag_hint(diag, "give the def another name");
    }
    const Def *first = program_find_def(r->program, def->name.name);
    if (first == def || first->from_prelude != def->from_prelude)
        return;
    Diag *diag = diag_error(r->diags, def->name.span, "%s '%s' is declared twice",
                            def->is_optimizer ? "optimizer" : "def", def->name.name);
    diag_note(diag, first->name.span, "first here");
}

void resolve_def(Resolver *r, Def *def) {
    uint32_t errors_before = diags_errors(r->diags);
    Scope scope = {.resolver = r, .def = def};
    declare_arguments(&scope);
    collect_def_dims(r->arena, def, &def->dims);
    resolve_body(&scope, &def->body);
    resolve_paths(r, def);
    check_returns(&scope);
    if (def->is_optimizer && !def->incomplete && !def->garbled)
        resolve_optimizer(&scope);
    def->ok = diags_errors(r->diags) == errors_before && !def->incomplete && !def->garbled;
    if (def->ok)
        scope_warn_unused(&scope);
}

// ---- the program --------------------------------------------------------------------------------

static void resolve_globals(Resolver *r) {
    Scope scope = {.resolver = r};
    r->globals = map_new(r->arena);
    for (uint32_t i = 0; i < r->program->params.count; i++) {
        Tensor *tensor = r->program->params.at[i];
        declare_tensor(&scope, SYMBOL_GLOBAL, tensor);
        map_put(r->globals, (uintptr_t)tensor->name.name, tensor);
        resolve_initialiser(&scope, tensor);
    }
}

static void warn_unused_globals(Resolver *r) {
    for (uint32_t i = 0; i < r->program->params.count; i++) {
        Ident name = r->program->params.at[i]->name;
        if (namelist_has(&r->used_params, name.name) || name.name[0] == '_')
            continue;
        Diag *diag = diag_warning(r->diags, "unused", name.span,
                                  "trained tensor '%s' never takes part", name.name);
        diag_hint(diag, "use it, remove it, or call it '_%s'", name.name);
    }
}

bool ast_resolve(Session *session, Program *program) {
    uint32_t errors_before = diags_errors(session->diags);
    Resolver r = {
        .session = session,
        .arena = session->arena,
        .diags = session->diags,
        .program = program,
        .garbled = errors_before > 0,
    };
    scan_mark_steps(&r);
    collect_program_dims(r.arena, program, &r.named);
    resolve_dims(&r);
    resolve_globals(&r);
    for (uint32_t i = 0; i < program->defs.count; i++)
        check_def_name(&r, program->defs.at[i]);
    resolve_defs(&r);
    resolve_warn_given(&r);
    bool fine = diags_errors(session->diags) == errors_before;
    if (fine && !r.garbled)
        warn_unused_globals(&r);
    return fine;
}
