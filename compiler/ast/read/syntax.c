// SPDX-License-Identifier: Apache-2.0
// What the grammar's actions do beyond calling a constructor.
#include "ast/read/syntax.h"
#include "parse.h"

#include <string.h>

// ---- errors

void syntax_missing_comma(Parser *parser, Span next) {
    if (parser->current->quiet || mistakes_since_comma(parser, next))
        return;
    uint32_t length = next.end - next.begin;
    const char *text = parser->source->text + next.begin;
    Diag *diag = syntax_error(parser, next, "expected ',' before '%.*s%s'",
                              length > 40 ? 40 : (int)length, text, length > 40 ? "..." : "");
    diag_hint(diag, "add ','");
}

// ---- expressions

Expr *syntax_lost_expr(Parser *parser, Span span) {
    parser->garbled = true;
    return expr_error(parser->arena, span);
}

Expr *syntax_primed(Parser *parser, Span span, Ident name) {
    Diag *diag =
        syntax_error(parser, name.span, "only dims have primes, '%s' is a tensor", name.name);
    diag_hint(diag, "call it '%s_prime', or anything else",
              name_unprimed(parser->session->names, name.name));
    return syntax_lost_expr(parser, span);
}

// Cuts a tree that later passes could not walk by recursion. What grows around a cut is not
// reported again.
static Expr *cut_deep(Parser *parser, Expr *expr) {
    if (expr->depth <= AST_MAX_DEPTH)
        return expr;
    Span last = parser->deep;
    bool around = expr->span.begin <= last.begin && last.end <= expr->span.end && last.file;
    if (!around)
        diag_hint(
            syntax_error(parser, expr->span, "expression nested more than %d deep", AST_MAX_DEPTH),
            "give parts of it names of their own");
    parser->deep = expr->span;
    return syntax_lost_expr(parser, expr->span);
}

Expr *syntax_operation(Parser *parser, Span span, Oper oper, Expr *a, Expr *b) {
    Expr *expr =
        b ? expr_binary(parser->arena, span, oper, a, b) : expr_unary(parser->arena, span, oper, a);
    return cut_deep(parser, expr);
}

Expr *syntax_ref(Parser *parser, Span span, Ident name, ExprList items) {
    for (uint32_t i = 0; i < items.count; i++)
        if (items.at[i]->kind == EXPR_FOREIGN)
            return foreign_items(parser, span, expr_name(parser->arena, name), items);
    return cut_deep(parser, expr_ref(parser->arena, span, name, items));
}

Expr *syntax_call(Parser *parser, Span span, Ident name, ArgList args) {
    Expr *call = expr_call(parser->arena, span, name);
    expr_set_args(call, args.args, args.keys);
    return cut_deep(parser, call);
}

Expr *syntax_call_to(Parser *parser, Span span, Ident name, ArgList args, IdentList dims) {
    Expr *call = syntax_call(parser, span, name, args);
    call->has_arrow = true;
    call->dims = dims;
    return call;
}

Expr *syntax_array(Parser *parser, Span span, ExprList items) {
    return cut_deep(parser, expr_array(parser->arena, span, items));
}

static bool has_number(const Expr *expr) {
    bool found = expr->kind == EXPR_NUMBER || expr->kind == EXPR_ARRAY;
    for (uint32_t i = 0; i < expr->args.count && !found; i++)
        found = has_number(expr->args.at[i]);
    return found;
}

// Is it an item of other brackets?
static bool is_row(const Parser *parser, Span opener) {
    const Token *token = parser->current;
    while (token > parser->tokens.at && token->span.begin > opener.begin)
        token--;
    return token > parser->tokens.at &&
           (token[-1].kind == TOK_LBRACKET || token[-1].kind == TOK_DIM_COMMA);
}

Expr *syntax_list(Parser *parser, Span span, Span opener, ExprList items) {
    bool numbers = !items.count || is_row(parser, opener);
    for (uint32_t i = 0; i < items.count && !numbers; i++)
        numbers = has_number(items.at[i]);
    if (numbers)
        return syntax_array(parser, span, items);
    foreign_tell_list(parser, opener);
    return foreign_list(parser, span, items);
}

Expr *syntax_array_to(Expr *array, IdentList dims) {
    array->has_arrow = array->kind == EXPR_ARRAY;
    array->dims = dims;
    return array;
}

Expr *syntax_regroup(Parser *parser, Span span, Ident name, ArgList args, IdentList from,
                     IdentList into) {
    Expr *call = syntax_call(parser, span, name, args);
    call->from = from;
    call->into = into;
    return call;
}

Expr *syntax_label(Expr *call, Span span, Ident label) {
    call->label = label;
    call->span = span;
    return call;
}

Expr *syntax_parens(Parser *parser, Span span, ExprList items, bool comma) {
    if (items.count > 1 || comma)
        return cut_deep(parser, expr_tuple(parser->arena, span, items));
    items.at[0]->span = span;
    return items.at[0];
}

// ---- tensors

Tensor syntax_tensor(Span span, Ident name) {
    return (Tensor){.name = name, .span = span};
}

Tensor syntax_tensor_dims(Span span, Ident name, IdentList dims) {
    return (Tensor){.name = name, .span = span, .has_dims = true, .dims = dims};
}

// `x: Tensor`, `x: float32`, `n: int`
static const char *type_hint(const Parser *parser, const Tensor *tensor, const char *type) {
    static const char *const tensors[] = {"Tensor", "ndarray", "Array", "ArrayLike"};
    const char *name = tensor->name.name;
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++)
        if (!strcmp(tensors[i], type))
            return arena_printf(parser->arena,
                                "leave it out: brackets tell the dims, as in "
                                "'%s[n, d]', and '%s' has those of its use",
                                name, name);
    Elem elem;
    if (elem_from_foreign(type, &elem)) {
        bool number = !tensor->has_dims && (!strcmp(type, "int") || !strcmp(type, "float"));
        uint32_t begin = tensor->span.begin, end = tensor->span.end;
        const char *text = parser->source->text + begin;
        return arena_printf(parser->arena, "write '%.*s%s: %s'", (int)(end - begin), text,
                            number ? "[]" : "", elem_name(elem));
    }
    Text all = {.arena = parser->scratch};
    for (Elem e = 0; e < N_ELEM; e++)
        text_printf(&all, "%s%s", e ? ", " : "", elem_name(e));
    return arena_printf(parser->arena, "there are %s", all.at);
}

// x: torch.float32
Tensor syntax_tensor_foreign(Parser *parser, Tensor tensor, Ident module, Ident type) {
    if (!parser->current->quiet) {
        Diag *diag = syntax_error(parser, module.span, "there is no module '%s'", module.name);
        diag_hint(diag, "%s", type_hint(parser, &tensor, type.name));
    }
    tensor.span = span_join(tensor.span, type.span);
    tensor.has_elem = tensor.has_elem || elem_from_foreign(type.name, &tensor.elem);
    return tensor;
}

Tensor syntax_tensor_elem(Parser *parser, Tensor tensor, Ident elem) {
    Tensor plain = tensor;
    tensor.span = span_join(tensor.span, elem.span);
    if (tensor.has_elem) {
        syntax_error(parser, elem.span, "'%s' has two element types", tensor.name.name);
        return tensor;
    }
    tensor.has_elem = elem_from_name(elem.name, &tensor.elem);
    if (tensor.has_elem || parser->current->quiet)
        return tensor;
    Diag *diag = syntax_error(parser, elem.span, "unknown element type '%s'", elem.name);
    diag_hint(diag, "%s", type_hint(parser, &plain, elem.name));
    return tensor;
}

Tensor syntax_tensor_typed(Parser *parser, Tensor tensor, Ident type, IdentList dims, Span span) {
    Tensor stated = tensor;
    stated.span = span;
    stated.has_dims = true;
    stated.dims = tensor.has_dims ? tensor.dims : dims;
    stated.has_elem = tensor.has_elem || elem_from_name(type.name, &stated.elem);
    Text text = {.arena = parser->scratch};
    for (uint32_t i = 0; i < stated.dims.count; i++)
        text_printf(&text, "%s%s", i ? ", " : "", stated.dims.at[i].name);
    Diag *diag = syntax_error(parser, type.span, "the dims of a tensor stand behind its name");
    diag_hint(diag, "write '%s[%s]%s%s'", tensor.name.name, text.at ? text.at : "",
              stated.has_elem ? ": " : "", stated.has_elem ? elem_name(stated.elem) : "");
    return stated;
}

Tensor syntax_init_value(Tensor tensor, Expr *value) {
    tensor.init = INIT_VALUE;
    tensor.init_args[0] = value;
    tensor.span = span_join(tensor.span, value->span);
    return tensor;
}

typedef struct {
    const char *name, *usage;
    InitKind kind;
    uint32_t n_args;
    const char *key; // takes this one keyword argument instead
} InitForm;

static const InitForm init_forms[] = {
    {"normal", "normal(std=0.02)", INIT_NORMAL, 0, "std"},
    {"truncated_normal", "truncated_normal(std=0.02)", INIT_TRUNCATED_NORMAL, 0, "std"},
    {"uniform", "uniform(-0.1, 0.1)", INIT_UNIFORM, 2, NULL},
    {"glorot", "glorot", INIT_GLOROT, 0, NULL},
};
enum { N_INIT_FORMS = sizeof init_forms / sizeof init_forms[0] };

static const InitForm *find_init_form(Parser *parser, Ident name) {
    const InitForm *near = NULL;
    for (uint32_t i = 0; i < N_INIT_FORMS; i++) {
        if (!strcmp(init_forms[i].name, name.name))
            return &init_forms[i];
        if (name_distance(init_forms[i].name, name.name) <= 2)
            near = &init_forms[i];
    }
    Diag *diag = syntax_error(parser, name.span, "unknown initialiser '%s'", name.name);
    if (near)
        diag_hint(diag, "did you mean '%s'?", near->name);
    else if (words_have("zeros zero ones one", name.name))
        diag_hint(diag, "a number is written '= %d'", name.name[0] == 'o');
    else
        diag_hint(diag, "there are normal, truncated_normal, uniform and glorot");
    return NULL;
}

Tensor syntax_init(Parser *parser, Tensor tensor, Span span, Ident name, ArgList args) {
    tensor.span = span_join(tensor.span, span);
    const InitForm *form = find_init_form(parser, name);
    if (!form)
        return tensor;
    bool fits = args.args.count == form->n_args && args.keys.count == (form->key != NULL);
    if (fits && form->key)
        fits = !strcmp(args.keys.at[0].key.name, form->key);
    if (!fits) {
        Diag *diag = syntax_error(parser, span, "wrong arguments of initialiser '%s'", form->name);
        diag_hint(diag, "write it as in '~ %s'", form->usage);
        return tensor;
    }
    tensor.init = form->kind;
    if (form->key)
        tensor.init_args[0] = args.keys.at[0].value;
    for (uint32_t i = 0; i < form->n_args; i++)
        tensor.init_args[i] = args.args.at[i];
    return tensor;
}

// ---- statements

StmtList syntax_append(Arena *arena, StmtList a, StmtList b) {
    if (a.count == 0)
        return b;
    for (uint32_t i = 0; i < b.count; i++)
        vec_push(arena, &a, b.at[i]);
    return a;
}

static Stmt *stmt_new(Parser *parser, StmtKind kind, Span span) {
    Stmt *stmt = arena_new_of(parser->arena, Stmt);
    stmt->kind = kind;
    stmt->span = span;
    return stmt;
}

static StmtList stmt_list(Parser *parser, Stmt *only) {
    StmtList list = {0};
    vec_push(parser->arena, &list, only);
    return list;
}

// Marks a statement with a mistake in it: what it says is not judged.
static void mark_stmt(Parser *parser, Stmt *stmt) {
    Span line = mistakes_line(parser, stmt->span);
    bool text = mistakes_in(parser, line), layout = mistakes_of_layout_in(parser, line);
    bool joined = (text || layout) && mistakes_join_statements(parser, line);
    stmt->garbled = text || joined;
    stmt->foreign = foreign_told(parser) ? parser->foreign : NULL;
    parser->garbled |= stmt->garbled;
    parser->lost |= joined;
}

static Stmt *assign(Parser *parser, Span span, Tensor target, Expr *value) {
    Stmt *stmt = stmt_new(parser, STMT_ASSIGN, span);
    stmt->target = target;
    stmt->target.garbled = mistakes_in(parser, target.span);
    stmt->value = value;
    return stmt;
}

StmtList syntax_assign(Parser *parser, Span span, Tensor target, Expr *value) {
    Stmt *stmt = assign(parser, span, target, value);
    mark_stmt(parser, stmt);
    return stmt_list(parser, stmt);
}

StmtList syntax_assign_several(Parser *parser, Span span, TensorList targets, Expr *call) {
    StmtList list = {0};
    Span names = {span.file, span.begin, call->span.begin};
    parser->lost |= mistakes_in(parser, names);
    for (uint32_t i = 0; i < targets.count; i++) {
        Expr *value =
            call->kind == EXPR_ERROR ? call : expr_result(parser->arena, call, i, targets.count);
        Stmt *stmt = assign(parser, span, targets.at[i], value);
        if (i == 0) {
            mark_stmt(parser, stmt);
        } else { // of one line, which is looked at once
            stmt->garbled = list.at[0]->garbled;
            stmt->foreign = list.at[0]->foreign;
        }
        vec_push(parser->arena, &list, stmt);
    }
    return list;
}

// A mistake between two declarations may be of each of them.
static void mark_garbled(Parser *parser, Span all, TensorList *tensors) {
    uint32_t between = mistakes_count(parser, all);
    for (uint32_t i = 0; i < tensors->count; i++)
        between -= mistakes_count(parser, tensors->at[i].span);
    for (uint32_t i = 0; i < tensors->count; i++) {
        Tensor *tensor = &tensors->at[i];
        tensor->garbled = between || mistakes_in(parser, tensor->span);
        parser->garbled |= tensor->garbled;
    }
}

StmtList syntax_params(Parser *parser, Span span, TensorList params) {
    StmtList list = {0};
    Span line = mistakes_line(parser, span);
    mark_garbled(parser, line, &params);
    parser->lost |= mistakes_in(parser, line);
    for (uint32_t i = 0; i < params.count; i++) {
        Stmt *stmt = stmt_new(parser, STMT_PARAM, params.at[i].span);
        stmt->target = params.at[i];
        stmt->target.is_param = true;
        vec_push(parser->arena, &list, stmt);
    }
    return list;
}

StmtList syntax_return(Parser *parser, Span span, ExprList results) {
    Stmt *stmt = stmt_new(parser, STMT_RETURN, span);
    stmt->results = results;
    mark_stmt(parser, stmt);
    return stmt_list(parser, stmt);
}

StmtList syntax_for(Parser *parser, Span span, Ident var, Ident dim, bool shared, StmtList body) {
    Stmt *stmt = stmt_new(parser, STMT_FOR, span);
    stmt->loop_var = var;
    stmt->loop_dim = dim;
    stmt->shared = shared;
    stmt->body = body;
    return stmt_list(parser, stmt);
}

StmtList syntax_scan(Parser *parser, Span span, Ident var, Ident dim, bool reversed,
                     StmtList body) {
    Stmt *stmt = stmt_new(parser, STMT_SCAN, span);
    stmt->loop_var = var;
    stmt->loop_dim = dim;
    stmt->shared = true;
    stmt->reversed = reversed;
    stmt->body = body;
    return stmt_list(parser, stmt);
}

// ---- statements in the manner of other languages

StmtList syntax_update(Parser *parser, Span span, Tensor target, const Token *token, Expr *value) {
    uint32_t length = token->span.end - token->span.begin;
    const char *text = parser->source->text + token->span.begin;
    if (text[0] != ':') {
        value = expr_foreign(parser->arena, value->span, FOREIGN_UPDATE,
                             expr_list(parser->arena, value));
        value->name.name = names_intern(parser->session->names, text, length - 1);
    }
    return syntax_assign(parser, span, target, value);
}

// Numbers, names and what is computed from them: the extent of a dim.
static bool is_extent(const Expr *expr) {
    bool fine = expr->kind == EXPR_NUMBER || expr->kind == EXPR_NAME || expr->kind == EXPR_BINARY;
    for (uint32_t i = 0; i < expr->args.count; i++)
        fine = fine && is_extent(expr->args.at[i]);
    return fine;
}

static const char *extent_text(const Parser *parser, const Expr *expr, bool alone) {
    Span at = expr->span;
    const char *format = alone || expr->kind != EXPR_BINARY ? "%.*s" : "(%.*s)";
    return arena_printf(parser->arena, format, (int)(at.end - at.begin),
                        parser->source->text + at.begin);
}

static bool is_number(const Expr *expr, double number) {
    return expr->kind == EXPR_NUMBER && expr->number == number;
}

// What to write for `range(layers)`, `range(4)`, `range(2, 2 * layers)`.
static const char *range_hint(const Parser *parser, const char *word, Ident var, Ident function,
                              const ExprList *args) {
    uint32_t n = args->count;
    if (n < 1 || (n > 1 && strcmp(function.name, "range") != 0) || n > 2)
        return NULL;
    const Expr *from = n == 2 && !is_number(args->at[0], 0) ? args->at[0] : NULL;
    const Expr *to = args->at[n - 1];
    if (!is_extent(to) || (from && !is_extent(from)))
        return NULL;
    const char *count = extent_text(parser, to, true);
    const char *start = from ? extent_text(parser, from, false) : NULL;
    if (from && from->kind == EXPR_NUMBER && to->kind == EXPR_NUMBER)
        count = arena_printf(parser->arena, "%.0f", to->number - from->number);
    else if (from)
        count = arena_printf(parser->arena, "%s - %s", count, start);
    return foreign_steps_hint(parser, word, var.name, count, start);
}

// Is it a name alone that is run over, `range(layers)`, `enumerate(X)`?
static bool is_over_name(Ident function, const ExprList *args) {
    bool ranges = strcmp(function.name, "range") == 0 && args->count == 2;
    return (args->count == 1 || (ranges && is_number(args->at[0], 0))) &&
           args->at[args->count - 1]->kind == EXPR_NAME;
}

// The dim that `in range(layers)`, or whatever runs over a dim, says. NULL: it says none. *told:
// the error that a hint is added to once it is known what the name stands for, or NULL.
static const Ident *range_dim(Parser *parser, const char *word, Ident var, const Range *range,
                              const ArgList *args, Diag **told) {
    const Expr *last = args->args.count ? args->args.at[args->args.count - 1] : NULL;
    bool named = is_over_name(range->function, &args->args);
    const char *hint =
        range->told && !named ? range_hint(parser, word, var, range->function, &args->args) : NULL;
    if (hint)
        diag_hint(range->told, "%s", hint);
    *told = named ? range->told : NULL;
    return last && last->kind == EXPR_NAME ? &last->name : NULL;
}

// `for i in range(layers)`, or of whatever runs over a dim, is the loop that it says.
StmtList syntax_for_over(Parser *parser, Span span, Ident var, Range range, ArgList args,
                         StmtList body) {
    Diag *told;
    const Ident *dim = range_dim(parser, "for", var, &range, &args, &told);
    parser->garbled = true;
    StmtList list = syntax_for(parser, span, var, dim ? *dim : range.function, false, body);
    list.at[0]->garbled = true;
    list.at[0]->foreign = told;
    return list;
}

// What a body says of positions of nothing that is known is lost.
StmtList syntax_scan_over(Parser *parser, Span span, Ident var, Range range, ArgList args,
                          StmtList body) {
    Diag *told;
    const Ident *dim = range_dim(parser, "scan", var, &range, &args, &told);
    parser->garbled = true;
    parser->lost |= !dim;
    if (!dim)
        return (StmtList){0};
    StmtList list = syntax_scan(parser, span, var, *dim, false, body);
    list.at[0]->garbled = true;
    list.at[0]->foreign = told;
    return list;
}

// ---- items

void syntax_add_import(Parser *parser, Span span, const char *path) {
    vec_push(parser->scratch, &parser->imports, (Import){.span = span, .path = path});
}

void syntax_add_globals(Parser *parser, Span span, TensorList params) {
    mark_garbled(parser, mistakes_line(parser, span), &params);
    parser->garbled = false; // it is of no def
    for (uint32_t i = 0; i < params.count; i++) {
        Tensor *tensor = arena_copy(parser->arena, &params.at[i], sizeof *tensor);
        tensor->is_param = true;
        vec_push(parser->arena, &parser->program->params, tensor);
    }
}

void syntax_add_dim(Parser *parser, Ident name, Expr *extent, Ident like) {
    DimDecl *dim = arena_new_of(parser->arena, DimDecl);
    dim->name = name;
    dim->extent = extent;
    dim->like = like;
    vec_push(parser->arena, &parser->program->dims, dim);
}

static void add_def(Parser *parser, Span span, Ident name, TensorList params, StmtList body) {
    Def *def = arena_new_of(parser->arena, Def);
    Span all = span_join(span, parser->current->span);
    def->name = name;
    def->span = span;
    def->params = params;
    def->body = body;
    def->is_optimizer = parser->in_optimizer;
    def->incomplete = parser->lost;
    def->garbled = parser->garbled || mistakes_of_layout_in(parser, all);
    parser->lost = parser->garbled = parser->told_if = false;
    vec_push(parser->arena, &parser->program->defs, def);
}

void syntax_add_def(Parser *parser, Span span, Ident name, Span head, TensorList params,
                    StmtList body) {
    Span line = mistakes_line(parser, head);
    line.begin = head.end + (line.end > head.end); // but a colon may be missing there
    mark_garbled(parser, head, &params);
    parser->lost |= mistakes_in(parser, head) || mistakes_in(parser, line);
    add_def(parser, span, name, params, body);
}

void syntax_add_broken_def(Parser *parser, Span span, Ident name, StmtList body) {
    parser->lost = true;
    add_def(parser, span, name, (TensorList){0}, body);
}

void syntax_lose_item(Parser *parser, Span span) {
    mistakes_lose_names(parser, span);
    parser->program->incomplete = true;
    parser->lost = parser->garbled = parser->told_if = false;
}
