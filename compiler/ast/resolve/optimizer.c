// SPDX-License-Identifier: Apache-2.0
// Optimizers: what their parameters and results stand for (language.md 8.5).
//
//     optimizer momentum(W[i], dW[i], m[i], learning_rate[], decay[] = 0.9):
//         m_1 = decay * m + dW                 W: the tensor    dW: its gradient    m: a state
//         return W - learning_rate * m_1, m_1  learning_rate: told by the program   decay: a
//         setting
//
// Everything else is that of a def.
#include "ast/resolve/resolve.h"

#include <string.h>

enum { N_LEADING = 2 }; // parameters before states and numbers: tensor and gradient

static bool is_number(const Tensor *param) {
    return param->result.count == 0;
}

static bool is_told(const Tensor *param) {
    return !strcmp(param->name.name, "step") || !strcmp(param->name.name, "learning_rate");
}

// ---- parameters ---------------------------------------------------------------------------------

// Brackets, no mark, f32.
static bool check_form(Scope *scope, const Tensor *param) {
    Diags *diags = scope->resolver->diags;
    Name name = param->name.name;
    Diag *diag = NULL;
    if (!param->ok)
        return false; // told of
    if (!param->has_dims) {
        diag = diag_error(diags, param->name.span,
                          "'%s' has no brackets, which tell what a parameter of an optimizer is",
                          name);
        diag_hint(diag, "write '%s[...]', or '%s[]' for a number", name, name);
    } else if (param->is_param) {
        diag = diag_error(diags, param->name.span,
                          "an optimizer is called with trained tensors, and declares none");
        diag_hint(diag, "leave out 'param'");
    } else if (param->elem != ELEM_F32) {
        diag = diag_error(diags, param->name.span, "an optimizer computes with f32, '%s' is %s",
                          name, elem_name(param->elem));
        diag_hint(diag, "leave out ': %s'", elem_name(param->elem));
    }
    return !diag;
}

static void check_number(Scope *scope, const Tensor *param) {
    Diags *diags = scope->resolver->diags;
    Name name = param->name.name;
    if (is_told(param) && param->init == INIT_VALUE) {
        Diag *diag = diag_error(diags, param->init_args[0]->span,
                                "'%s' has no default: it is told at every step", name);
        diag_hint(diag, "write '%s[]'", name);
    } else if (!is_told(param) && param->init != INIT_VALUE) {
        Diag *diag = diag_error(diags, param->name.span, "'%s', a number, has no default", name);
        diag_hint(diag, "write '%s[] = 0.9'; 'step' and 'learning_rate' alone are told", name);
    }
}

static void check_state(Scope *scope, const Tensor *param, const Tensor *tensor) {
    Resolver *r = scope->resolver;
    if (param->init == INIT_VALUE) {
        Diag *diag = diag_error(r->diags, param->init_args[0]->span,
                                "'%s' has dims: only numbers have defaults", param->name.name);
        diag_hint(diag, "states begin at 0; a number is '%s[]'", param->name.name);
        return;
    }
    if (dimlist_within(&param->result, &tensor->result))
        return;
    Diag *diag =
        diag_error(r->diags, param->span, "a state is over dims of '%s', '%s' is over %s",
                   tensor->name.name, param->name.name, dimlist_text(r->arena, &param->result));
    diag_note(diag, tensor->span, "the tensor is over %s", dimlist_text(r->arena, &tensor->result));
}

static void check_leading(Scope *scope, const Def *def) {
    Resolver *r = scope->resolver;
    const Tensor *tensor = &def->params.at[0], *gradient = &def->params.at[1];
    uint32_t rank = tensor->result.count;
    if (rank < 1 || rank > 2) {
        Diag *diag =
            diag_error(r->diags, tensor->span,
                       "an optimizer sees a tensor as a row or as a matrix, '%s' has %u dims",
                       tensor->name.name, rank);
        diag_hint(diag, "'%s[i]' and '%s[r, c]' stand for tensors of any dims", tensor->name.name,
                  tensor->name.name);
    } else if (!dimlist_same(&tensor->result, &gradient->result)) {
        Diag *diag = diag_error(r->diags, gradient->span,
                                "the second parameter is the gradient, over the dims of '%s'",
                                tensor->name.name);
        diag_note(diag, tensor->span, "the tensor is over %s",
                  dimlist_text(r->arena, &tensor->result));
        diag_hint(diag, "write '%s%s'", gradient->name.name,
                  dimlist_text(r->arena, &tensor->result));
    }
    for (uint32_t i = 0; i < N_LEADING; i++)
        if (def->params.at[i].init == INIT_VALUE)
            check_state(scope, &def->params.at[i], tensor);
}

// false: there are mistakes, and results are not compared with them.
static bool check_parameters(Scope *scope, const Def *def) {
    Diags *diags = scope->resolver->diags;
    uint32_t errors = diags_errors(diags);
    if (def->params.count < N_LEADING) {
        Diag *diag =
            diag_error(diags, def->name.span, "an optimizer begins with a tensor and its gradient");
        diag_hint(diag, "write 'optimizer %s(W[i], dW[i], ...):'", def->name.name);
        return false;
    }
    bool fine = true;
    for (uint32_t i = 0; i < def->params.count; i++)
        fine = check_form(scope, &def->params.at[i]) && fine;
    if (!fine)
        return false;
    check_leading(scope, def);
    if (diags_errors(diags) > errors)
        return false;
    for (uint32_t i = N_LEADING; i < def->params.count; i++) {
        if (is_number(&def->params.at[i]))
            check_number(scope, &def->params.at[i]);
        else
            check_state(scope, &def->params.at[i], &def->params.at[0]);
    }
    return diags_errors(diags) == errors;
}

// ---- results ------------------------------------------------------------------------------------

// The tensor, then the states.
static const Tensor *next_returned(const Def *def, uint32_t *at) {
    uint32_t i = *at;
    while (i < def->params.count && (i == 1 || is_number(&def->params.at[i])))
        i++;
    *at = i + 1;
    return i < def->params.count ? &def->params.at[i] : NULL;
}

static const char *returned_text(Arena *arena, const Def *def) {
    Text text = {.arena = arena};
    uint32_t at = 0, count = 0;
    for (const Tensor *param; (param = next_returned(def, &at)); count++)
        text_printf(&text, "%s%s", count ? ", " : "", param->name.name);
    return text.at;
}

static void check_result(Scope *scope, const Def *def, uint32_t which, const Expr *result,
                         const Tensor *param) {
    Resolver *r = scope->resolver;
    const NameList *dims = &def->result_dims.at[which];
    if (!dimlist_equal(dims, &param->result)) {
        Diag *diag = diag_error(r->diags, result->span,
                                "the new values of '%s' are over its dims, these over %s",
                                param->name.name, dimlist_text(r->arena, dims));
        diag_note(diag, param->span, "'%s' is here", param->name.name);
        diag_hint(diag, "the order of results is: %s", returned_text(r->arena, def));
    } else if (def->result_elems.at[which] != ELEM_F32) {
        Diag *diag = diag_error(r->diags, result->span, "the new values of '%s' are %s, not f32",
                                param->name.name, elem_name(def->result_elems.at[which]));
        diag_hint(diag, "write 'f32(...)'");
    }
}

static void check_results(Scope *scope, const Def *def) {
    Resolver *r = scope->resolver;
    const Stmt *last = def->body.at[def->body.count - 1];
    uint32_t at = 0, which = 0, have = def->result_dims.count;
    if (!have || last->kind != STMT_RETURN)
        return; // told of
    for (const Tensor *param; (param = next_returned(def, &at)); which++)
        if (which < have)
            check_result(scope, def, which, last->results.at[which], param);
    if (which == have)
        return;
    Diag *diag = diag_error(r->diags, last->span,
                            "an optimizer returns the tensor and its states, %u value%s, not %u",
                            which, which == 1 ? "" : "s", have);
    diag_hint(diag, "the order of results is: %s", returned_text(r->arena, def));
}

// ---- the whole ----------------------------------------------------------------------------------

static void check_trained(Scope *scope, const Def *def) {
    const Symbol *trained = NULL;
    for (uint32_t i = 0; i < scope->symbols.count && !trained; i++) {
        const Symbol *symbol = scope->symbols.at[i];
        if (symbol->kind == SYMBOL_GLOBAL || symbol->kind == SYMBOL_TRAINED)
            trained = symbol;
    }
    if (!trained && !def->owns_params)
        return;
    Diag *diag = diag_error(scope->resolver->diags, def->name.span,
                            "an optimizer has no trained tensors of its own");
    if (trained)
        diag_note(diag, trained->name.span, "'%s' is one", trained->name.name);
    diag_hint(diag, "a state, a parameter with dims, begins at 0 and is kept from step to step");
}

void resolve_optimizer(Scope *scope) {
    const Def *def = scope->def;
    check_trained(scope, def);
    if (check_parameters(scope, def))
        check_results(scope, def);
}

void report_called_optimizer(Scope *scope, const Expr *call, const Def *optimizer) {
    Diag *diag = diag_error(scope->resolver->diags, call->name.span,
                            "'%s' is an optimizer, which is not called", optimizer->name.name);
    if (!optimizer->from_prelude)
        diag_note(diag, optimizer->name.span, "'%s' is here", optimizer->name.name);
    diag_hint(diag, "training takes it: --optimizer %s", optimizer->name.name);
}

OptimizerFacts def_optimizer_facts(Arena *arena, const Def *optimizer) {
    OptimizerFacts facts = {.rank = optimizer->params.at[0].result.count};
    for (uint32_t i = N_LEADING; i < optimizer->params.count; i++) {
        const Tensor *param = &optimizer->params.at[i];
        facts.n_states += !is_number(param);
        if (!is_number(param) || is_told(param))
            continue;
        double sign = 1;
        const Expr *value = param->init_args[0];
        for (; value->kind == EXPR_UNARY; value = value->args.at[0])
            sign = -sign;
        vec_push(arena, &facts.settings,
                 (OptimizerSetting){param->name.name, sign * value->number});
    }
    return facts;
}
