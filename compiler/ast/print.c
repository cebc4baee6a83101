// SPDX-License-Identifier: Apache-2.0
// Prints a program as source text that parses back to the same program: one item a line, dims
// first, no more parentheses than the precedence of operators asks for. Definitions of the prelude
// are left out, since they are always there.
#include "ast/ast.h"

#include <math.h>
#include <string.h>

enum { LINE_WIDTH = 100, INDENT = 4 };

// How tightly an expression holds together, as in the grammar.
typedef enum { ANY, OR, AND, NOT, COMPARISON, SUM, PRODUCT, NEGATION, POWER, PRIMARY } Binding;

static const Binding oper_binding[N_OPER] = {
    [OPER_NEG] = NEGATION,     [OPER_NOT] = NOT,       [OPER_ADD] = SUM,
    [OPER_SUB] = SUM,          [OPER_MUL] = PRODUCT,   [OPER_DIV] = PRODUCT,
    [OPER_FLOORDIV] = PRODUCT, [OPER_MOD] = PRODUCT,   [OPER_POW] = POWER,
    [OPER_EQ] = COMPARISON,    [OPER_NE] = COMPARISON, [OPER_LT] = COMPARISON,
    [OPER_LE] = COMPARISON,    [OPER_GT] = COMPARISON, [OPER_GE] = COMPARISON,
    [OPER_AND] = AND,          [OPER_OR] = OR,
};

static void print_expr(const Expr *expr, Binding outer, Text *out);

static void print_dims(const IdentList *dims, Text *out) {
    text_add(out, "[");
    for (uint32_t i = 0; i < dims->count; i++)
        text_printf(out, "%s%s", i ? ", " : "", dims->at[i].name);
    text_add(out, "]");
}

// Names and positions in the order in which they were written.
static void print_places(const Expr *ref, Text *out) {
    uint32_t name = 0, position = 0;
    text_add(out, "[");
    while (name < ref->dims.count || position < ref->args.count) {
        uint32_t place = name + position;
        text_add(out, place ? ", " : "");
        if (position < ref->args.count && ref->places.at[position] == place)
            print_expr(ref->args.at[position++], ANY, out);
        else
            text_add(out, ref->dims.at[name++].name);
    }
    text_add(out, "]");
}

static void print_exprs(const ExprList *list, Text *out) {
    for (uint32_t i = 0; i < list->count; i++) {
        if (i)
            text_add(out, ", ");
        print_expr(list->at[i], ANY, out);
    }
}

// 2 is an integer and 2.0 is not; the text says which.
static void print_number(const Expr *expr, Text *out) {
    if (!expr->is_integer && expr->number == M_PI) {
        text_add(out, "pi");
    } else if (expr->is_integer) {
        text_printf(out, "%.0f", expr->number);
    } else {
        size_t begin = out->length;
        text_double(out, expr->number);
        if (!strpbrk(out->at + begin, ".en"))
            text_add(out, ".0");
    }
}

static void print_arrow(const Expr *expr, Text *out) {
    if (!expr->has_arrow)
        return;
    text_add(out, " -> ");
    print_dims(&expr->dims, out);
}

static void print_regroup(const Expr *call, Text *out) {
    for (uint32_t i = 0; i < call->from.count; i++)
        text_printf(out, "%s%s", i ? " " : ", ", call->from.at[i].name);
    for (uint32_t i = 0; i < call->into.count; i++)
        text_printf(out, " %s%s", i ? "" : "-> ", call->into.at[i].name);
}

static void print_call(const Expr *call, Text *out) {
    text_printf(out, "%s(", call->name.name);
    print_exprs(&call->args, out);
    for (uint32_t i = 0; i < call->keys.count; i++) {
        const KeyArg *arg = &call->keys.at[i];
        text_printf(out, "%s%s=", i || call->args.count ? ", " : "", arg->key.name);
        print_expr(arg->value, ANY, out);
    }
    print_regroup(call, out);
    print_arrow(call, out);
    text_add(out, ")");
    if (call->label.name)
        text_printf(out, " as %s", call->label.name);
}

static void print_binary(const Expr *expr, Text *out) {
    Binding own = oper_binding[expr->oper];
    Binding left = own, right = own + 1;
    if (own == COMPARISON)
        left = own + 1; // comparisons do not chain
    if (own == POWER)
        left = PRIMARY, right = NEGATION; // a ** b ** c, a ** -b
    print_expr(expr->args.at[0], left, out);
    text_printf(out, " %s ", oper_text(expr->oper));
    print_expr(expr->args.at[1], right, out);
}

static Binding expr_binding(const Expr *expr) {
    if (expr->kind == EXPR_UNARY || expr->kind == EXPR_BINARY)
        return oper_binding[expr->oper];
    return expr->kind == EXPR_NUMBER && signbit(expr->number) ? NEGATION : PRIMARY;
}

static void print_bare(const Expr *expr, Text *out) {
    switch (expr->kind) {
    case EXPR_NUMBER:
        print_number(expr, out);
        break;
    case EXPR_NAME:
        text_add(out, expr->name.name);
        break;
    case EXPR_REF:
        text_add(out, expr->name.name);
        print_places(expr, out);
        break;
    case EXPR_UNARY:
        text_printf(out, "%s%s", oper_text(expr->oper), expr->oper == OPER_NOT ? " " : "");
        print_expr(expr->args.at[0], oper_binding[expr->oper], out);
        break;
    case EXPR_BINARY:
        print_binary(expr, out);
        break;
    case EXPR_CALL:
        print_call(expr, out);
        break;
    case EXPR_TUPLE:
        text_add(out, "(");
        print_exprs(&expr->args, out);
        text_add(out, expr->args.count == 1 ? ",)" : ")");
        break;
    case EXPR_ARRAY:
        text_add(out, "[");
        print_exprs(&expr->args, out);
        text_add(out, "]");
        print_arrow(expr, out);
        break;
    case EXPR_RESULT:
        print_expr(expr->call, ANY, out);
        break;
    case EXPR_ERROR:
    case EXPR_FOREIGN:
        text_add(out, "<error>");
        break;
    }
}

static void print_expr(const Expr *expr, Binding outer, Text *out) {
    bool parens = expr_binding(expr) < outer;
    if (parens)
        text_add(out, "(");
    print_bare(expr, out);
    if (parens)
        text_add(out, ")");
}

// ---- tensors and statements

static void print_tensor(const Tensor *tensor, Text *out) {
    text_add(out, tensor->name.name);
    if (tensor->has_dims)
        print_dims(&tensor->dims, out);
    if (tensor->has_elem)
        text_printf(out, ": %s", elem_name(tensor->elem));
}

static void print_init_call(const char *name, const Tensor *tensor, Text *out) {
    text_printf(out, " ~ %s(%s", name, tensor->init == INIT_UNIFORM ? "" : "std=");
    print_expr(tensor->init_args[0], ANY, out);
    if (tensor->init == INIT_UNIFORM) {
        text_add(out, ", ");
        print_expr(tensor->init_args[1], ANY, out);
    }
    text_add(out, ")");
}

static void print_declaration(const Tensor *tensor, Text *out) {
    text_add(out, "param ");
    print_tensor(tensor, out);
    switch (tensor->init) {
    case INIT_NONE:
        break;
    case INIT_VALUE:
        text_add(out, " = ");
        print_expr(tensor->init_args[0], ANY, out);
        break;
    case INIT_NORMAL:
        print_init_call("normal", tensor, out);
        break;
    case INIT_UNIFORM:
        print_init_call("uniform", tensor, out);
        break;
    case INIT_GLOROT:
        text_add(out, " ~ glorot");
        break;
    case INIT_TRUNCATED_NORMAL:
        print_init_call("truncated_normal", tensor, out);
        break;
    }
    text_add(out, "\n");
}

static void print_stmts(const StmtList *list, int indent, Text *out);

static void print_stmt(const Stmt *stmt, int indent, Text *out) {
    switch (stmt->kind) {
    case STMT_ASSIGN:
        print_tensor(&stmt->target, out);
        text_add(out, " = ");
        print_expr(stmt->value, ANY, out);
        text_add(out, "\n");
        break;
    case STMT_PARAM:
        print_declaration(&stmt->target, out);
        break;
    case STMT_FOR:
    case STMT_SCAN:
        text_printf(out, "%s %s in %s%s:\n", stmt->kind == STMT_FOR ? "for" : "scan",
                    stmt->loop_var.name, stmt->loop_dim.name,
                    stmt->reversed                           ? " reversed"
                    : stmt->kind == STMT_FOR && stmt->shared ? " shared"
                                                             : "");
        print_stmts(&stmt->body, indent + INDENT, out);
        break;
    case STMT_RETURN:
        text_add(out, "return ");
        print_exprs(&stmt->results, out);
        text_add(out, "\n");
        break;
    }
}

// How many statements are one line of several names.
static uint32_t n_targets(const Stmt *stmt) {
    bool several = stmt->kind == STMT_ASSIGN && stmt->value->kind == EXPR_RESULT;
    return several ? stmt->value->n_results : 1;
}

static void print_stmts(const StmtList *list, int indent, Text *out) {
    for (uint32_t i = 0; i < list->count; i++) {
        uint32_t last = i + n_targets(list->at[i]) - 1;
        for (text_printf(out, "%*s", indent, ""); i < last; i++) {
            print_tensor(&list->at[i]->target, out);
            text_add(out, ", ");
        }
        print_stmt(list->at[i], indent, out);
    }
}

// ---- items

static void print_dim(const DimDecl *dim, Text *out) {
    text_printf(out, "dim %s", dim->name.name);
    if (dim->like.name)
        text_printf(out, " like %s", dim->like.name);
    if (dim->extent) {
        text_add(out, " = ");
        print_expr(dim->extent, ANY, out);
    }
    text_add(out, "\n");
}

static void print_params(const TensorList *params, const char *separator, Text *out) {
    for (uint32_t i = 0; i < params->count; i++) {
        if (i)
            text_add(out, separator);
        if (params->at[i].is_param)
            text_add(out, "param ");
        print_tensor(&params->at[i], out);
        if (params->at[i].init == INIT_VALUE) {
            text_add(out, " = ");
            print_expr(params->at[i].init_args[0], ANY, out);
        }
    }
}

// The parameters go on one line, or on one line each.
static void print_def(const Def *def, Text *out) {
    size_t begin = out->length;
    const char *word = def->is_optimizer ? "optimizer" : "def";
    text_printf(out, "%s %s(", word, def->name.name);
    print_params(&def->params, ", ", out);
    text_add(out, "):\n");
    if (out->length - begin > LINE_WIDTH + 1) {
        out->length = begin;
        text_printf(out, "%s %s(\n%*s", word, def->name.name, 2 * INDENT, "");
        print_params(&def->params, ",\n        ", out);
        text_add(out, "):\n");
    }
    print_stmts(&def->body, INDENT, out);
}

static void print_gap(Text *out, size_t begin) {
    if (out->length > begin)
        text_add(out, "\n");
}

void ast_print(const Program *program, Text *out) {
    size_t begin = out->length;
    for (uint32_t i = 0; i < program->dims.count; i++)
        print_dim(program->dims.at[i], out);
    if (program->params.count)
        print_gap(out, begin);
    for (uint32_t i = 0; i < program->params.count; i++)
        print_declaration(program->params.at[i], out);
    for (uint32_t i = 0; i < program->defs.count; i++) {
        if (program->defs.at[i]->from_prelude)
            continue;
        print_gap(out, begin);
        print_def(program->defs.at[i], out);
    }
}
