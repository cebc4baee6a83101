// SPDX-License-Identifier: Apache-2.0
// Extents of dims: defaults as whole-number expressions of other dims, `like` classes, -D
// overrides.
//
//     dim d = 768, h = 12         -D h=8
//     dim d_k = d / h             96; a remainder is an error that shows where d and h were set
//     dim m like n                one extent for the class; -D of any member sets it for all
//     n', n''                     are like n, undeclared
//
// Extents are known (from 1 up) or -1: read from the tensors at run time.
#include "ast/resolve/resolve.h"

#include <string.h>

// ---- what the other levels ask ------------------------------------------------------------------

static uint64_t name_key(Name name) {
    return hash_u64(0, (uintptr_t)name);
}

DimDecl *program_find_dim(const Program *program, Name name) {
    return program->dims_by_name ? map_get(program->dims_by_name, name_key(name)) : NULL;
}

void program_add_dim(Resolver *r, DimDecl *decl) {
    vec_push(r->arena, &r->program->dims, decl);
    map_put(r->program->dims_by_name, name_key(decl->name.name), decl);
}

static void index_dims(Resolver *r) {
    Program *program = r->program;
    program->dims_by_name = map_new(r->arena);
    for (uint32_t i = 0; i < program->dims.count; i++)
        if (!program_find_dim(program, program->dims.at[i]->name.name))
            map_put(program->dims_by_name, name_key(program->dims.at[i]->name.name),
                    program->dims.at[i]);
}

Name program_like_root(const Program *program, Name dim) {
    dim = name_unprimed(program->names, dim);
    const DimDecl *decl = program_find_dim(program, dim);
    return decl && decl->like_root ? decl->like_root : dim;
}

bool program_dims_alike(const Program *program, Name a, Name b) {
    return program_like_root(program, a) == program_like_root(program, b);
}

const DimExtent *program_given(const Program *program, const DimExtents *given, Name dim) {
    const DimExtent *found = NULL;
    Name root = program_like_root(program, dim);
    for (uint32_t i = 0; i < given->count; i++) {
        const DimExtent *item = &given->at[i];
        if (item->dim == dim)
            return item;
        bool member = program_like_root(program, item->dim) == root;
        if (item->dim == root || (member && !found))
            found = item;
    }
    return found;
}

static const DimExtent *find_override(const Session *session, const Program *program, Name dim) {
    return program_given(program, &session->overrides, dim);
}

bool program_made_dynamic(const Session *session, const Program *program, Name dim) {
    for (uint32_t i = 0; i < session->dynamic.count; i++)
        if (program_dims_alike(program, session->dynamic.at[i], dim))
            return true;
    return false;
}

int64_t program_extent(const Session *session, const Program *program, Name dim) {
    if (program_made_dynamic(session, program, dim))
        return -1;
    const DimExtent *override = find_override(session, program, dim);
    if (override)
        return override->extent > 0 ? override->extent : -1;
    const DimDecl *decl = program_find_dim(program, program_like_root(program, dim));
    return decl ? decl->value : -1;
}

bool program_extent_given(const Session *session, const Program *program, Name dim) {
    const DimDecl *decl = program_find_dim(program, program_like_root(program, dim));
    return find_override(session, program, dim) || (decl && decl->given);
}

bool program_extent_wrong(const Program *program, Name dim) {
    const DimDecl *decl = program_find_dim(program, program_like_root(program, dim));
    return decl && decl->wrong;
}

const DimDecl *program_extent_origin(const Session *session, const Program *program, Name dim) {
    if (program_made_dynamic(session, program, dim) || find_override(session, program, dim))
        return NULL;
    const DimDecl *decl = program_find_dim(program, program_like_root(program, dim));
    return decl && decl->extent ? decl : NULL;
}

// ---- checking the declarations ------------------------------------------------------------------

// A dim whose extent is asked for, after those that it is made of.
typedef struct {
    DimDecl *decl;
    VEC(DimDecl *) parts; // declarations that decide the dims in its extent
    uint32_t n_seen;      // of its parts
} OpenDim;

// A list takes the place of recursion, so that chains of extents may be as long as a file.
typedef struct {
    Resolver *resolver;
    VEC(OpenDim) open; // each is made of the next
    bool given;        // what is evaluated takes an extent from -D
} Extents;

typedef enum { VALUE_WRONG, VALUE_DYNAMIC, VALUE_KNOWN } ValueKind;
typedef struct {
    ValueKind kind;
    int64_t number;
} DimValue;

static DimValue value_known(int64_t number) {
    return (DimValue){VALUE_KNOWN, number};
}

static DimValue value_wrong(void) {
    return (DimValue){VALUE_WRONG, 0};
}

void resolve_note_extent(Resolver *r, Diag *diag, Name dim) {
    const DimDecl *origin = program_extent_origin(r->session, r->program, dim);
    long long extent = (long long)program_extent(r->session, r->program, dim);
    if (origin)
        diag_note(diag, origin->name.span, "'%s' is %lld from here", dim, extent);
    else
        diag_note(diag, (Span){0}, "'%s' is %lld from -D", dim, extent);
}

// Says at every dim of an expression what it is and where that was set.
static void note_extents(Resolver *r, Diag *diag, const Expr *expr, NameList *told) {
    for (uint32_t i = 0; i < expr->args.count; i++)
        note_extents(r, diag, expr->args.at[i], told);
    if (expr->kind != EXPR_NAME || namelist_has(told, expr->name.name))
        return;
    vec_push(r->arena, told, expr->name.name);
    resolve_note_extent(r, diag, expr->name.name);
}

static DimValue value_error(Extents *extents, const Expr *expr, const char *message) {
    Diag *diag = diag_error(extents->resolver->diags, expr->span, "%s", message);
    NameList told = {0};
    note_extents(extents->resolver, diag, expr, &told);
    return value_wrong();
}

static DimValue report_cycle(Extents *extents, const DimDecl *decl, Span at) {
    Resolver *r = extents->resolver;
    uint32_t from = 0;
    while (extents->open.at[from].decl != decl)
        from++;
    NameList path = {0};
    for (uint32_t i = from; i < extents->open.count; i++)
        vec_push(r->arena, &path, extents->open.at[i].decl->name.name);
    diag_error(r->diags, at, "the extent of '%s' depends on itself: %s", decl->name.name,
               cycle_text(r->arena, &path));
    return value_wrong();
}

// The declaration that says how large a dim without -D and --dynamic is; NULL without one.
static DimDecl *deciding_decl(const Resolver *r, Name dim) {
    return program_find_dim(r->program, program_like_root(r->program, dim));
}

static DimValue extent_of_decl(const DimDecl *decl) {
    if (decl->wrong)
        return value_wrong();
    return decl->value > 0 ? value_known(decl->value) : (DimValue){VALUE_DYNAMIC, -1};
}

static DimValue extent_of_name(Extents *extents, const Expr *expr) {
    Resolver *r = extents->resolver;
    Name dim = name_unprimed(r->session->names, expr->name.name);
    const DimExtent *override = find_override(r->session, r->program, dim);
    if (program_made_dynamic(r->session, r->program, dim))
        return (DimValue){VALUE_DYNAMIC, -1};
    extents->given = extents->given || program_extent_given(r->session, r->program, dim);
    if (override)
        dimlist_add(r->arena, &r->counted, dim);
    if (override) // 0 is an extent of run time
        return override->extent > 0 ? value_known(override->extent) : (DimValue){VALUE_DYNAMIC, -1};
    const DimDecl *decl = deciding_decl(r, dim);
    if (decl && decl->visit == VISIT_OPEN)
        return report_cycle(extents, decl, expr->span);
    if (decl)
        return extent_of_decl(decl);
    if (namelist_has(&r->named, dim))
        return (DimValue){VALUE_DYNAMIC, -1};
    Diag *diag = diag_error(r->diags, expr->span, "no dim is named '%s'", dim);
    Near near = near_to(dim);
    near_offer_list(&near, &r->named);
    if (near.best)
        diag_hint(diag, "did you mean '%s'?", near.best);
    return value_wrong();
}

static DimValue value_remainder(Extents *extents, const Expr *expr, int64_t a, int64_t b) {
    Resolver *r = extents->resolver;
    Diag *diag = diag_error(r->diags, expr->span, "%lld is not divisible by %lld", (long long)a,
                            (long long)b);
    NameList told = {0};
    note_extents(r, diag, expr, &told);
    int64_t below = b, above = b;
    if (a <= 1 << 24 && b > 0 && b < a) { // small enough to search
        while (a % below)
            below--;
        while (a % above)
            above++;
        diag_hint(diag, "the nearest divisors of %lld are %lld and %lld; use // to round down",
                  (long long)a, (long long)below, (long long)above);
    }
    return value_wrong();
}

static DimValue apply_binary(Extents *extents, const Expr *expr, int64_t a, int64_t b) {
    int64_t out = 0;
    bool fits = true;
    bool divides = expr->oper == OPER_DIV || expr->oper == OPER_FLOORDIV || expr->oper == OPER_MOD;
    if (divides && b == 0)
        return value_error(extents, expr, "division by zero in an extent");
    if (expr->oper == OPER_POW && b < 0)
        return value_error(extents, expr, "a negative power in an extent");
    if (divides && a == INT64_MIN && b == -1)
        return value_error(extents, expr, "an extent does not fit in 63 bits");
    switch (expr->oper) {
    case OPER_ADD:
        fits = add_i64(a, b, &out);
        break;
    case OPER_SUB:
        fits = !__builtin_sub_overflow(a, b, &out);
        break;
    case OPER_MUL:
        fits = mul_i64(a, b, &out);
        break;
    case OPER_POW:
        fits = power_i64(a, b, &out);
        break;
    case OPER_FLOORDIV:
        out = floor_div_i64(a, b);
        break;
    case OPER_MOD:
        out = a - b * floor_div_i64(a, b);
        break;
    case OPER_DIV:
        if (a % b)
            return value_remainder(extents, expr, a, b);
        out = a / b;
        break;
    default:
        return value_error(extents, expr, "an extent is a number, not a comparison");
    }
    if (!fits)
        return value_error(extents, expr, "an extent does not fit in 63 bits");
    return value_known(out);
}

static DimValue extent_of_expr(Extents *extents, Expr *expr);

// min(a, b, ...) and max
static bool is_choice(const Expr *expr) {
    return expr->kind == EXPR_CALL && expr->args.count > 1 && !expr->keys.count &&
           (!strcmp(expr->name.name, "min") || !strcmp(expr->name.name, "max"));
}

static DimValue extent_of_choice(Extents *extents, Expr *expr) {
    bool least = !strcmp(expr->name.name, "min");
    DimValue best = {VALUE_KNOWN, least ? INT64_MAX : INT64_MIN};
    expr->builtin = least ? BUILTIN_MIN : BUILTIN_MAX;
    for (uint32_t i = 0; i < expr->args.count; i++) {
        DimValue next = extent_of_expr(extents, expr->args.at[i]);
        if (best.kind == VALUE_WRONG || next.kind == VALUE_WRONG)
            best = value_wrong();
        else if (best.kind == VALUE_DYNAMIC || next.kind == VALUE_DYNAMIC)
            best = (DimValue){VALUE_DYNAMIC, -1};
        else if (least ? next.number < best.number : next.number > best.number)
            best = next;
    }
    return best;
}

static DimValue extent_of_expr(Extents *extents, Expr *expr) {
    if (expr->kind == EXPR_NUMBER && expr->is_integer) {
        if (expr->number >= 0x1p63)
            return value_error(extents, expr, "an extent does not fit in 63 bits");
        return value_known((int64_t)expr->number);
    }
    if (expr->kind == EXPR_NUMBER)
        return value_error(extents, expr, "an extent is a whole number");
    if (expr->kind == EXPR_NAME)
        return extent_of_name(extents, expr);
    if (is_choice(expr))
        return extent_of_choice(extents, expr);
    bool arithmetic =
        expr->kind == EXPR_BINARY || (expr->kind == EXPR_UNARY && expr->oper == OPER_NEG);
    if (!arithmetic) {
        diag_error(extents->resolver->diags, expr->span,
                   "an extent is made of numbers, dims, + - * / // %% ** and min and max only");
        return value_wrong();
    }
    DimValue a = extent_of_expr(extents, expr->args.at[0]);
    DimValue b = expr->kind == EXPR_BINARY ? extent_of_expr(extents, expr->args.at[1]) : a;
    if (a.kind == VALUE_WRONG || b.kind == VALUE_WRONG)
        return value_wrong();
    if (a.kind == VALUE_DYNAMIC || b.kind == VALUE_DYNAMIC)
        return (DimValue){VALUE_DYNAMIC, -1};
    if (expr->kind == EXPR_UNARY)
        return value_known(-a.number);
    return apply_binary(extents, expr, a.number, b.number);
}

// Requires: the extents that it is made of, but for cycles. Ensures: its `given`.
static DimValue evaluate_decl(Extents *extents, DimDecl *decl) {
    Resolver *r = extents->resolver;
    if (!decl->extent)
        return (DimValue){VALUE_DYNAMIC, -1};
    extents->given = false;
    DimValue value = extent_of_expr(extents, decl->extent);
    decl->given = extents->given;
    if (value.kind != VALUE_KNOWN || (value.number >= 1 && value.number <= EXTENT_MAX))
        return value;
    if (value.number == 0 && decl->given)
        return (DimValue){VALUE_DYNAMIC, -1};
    Diag *diag = diag_error(
        r->diags, decl->extent->span, "the extent of '%s' is %lld; extents are from %d to %lld",
        decl->name.name, (long long)value.number, decl->given ? 0 : 1, (long long)EXTENT_MAX);
    NameList told = {0};
    note_extents(r, diag, decl->extent, &told);
    return value_wrong();
}

// ---- in the order of what they are made of ------------------------------------------------------

static bool is_given(const Resolver *r, Name dim) {
    return find_override(r->session, r->program, dim) ||
           program_made_dynamic(r->session, r->program, dim);
}

static void collect_parts(const Resolver *r, const Expr *expr, OpenDim *open) {
    for (uint32_t i = 0; i < expr->args.count; i++)
        collect_parts(r, expr->args.at[i], open);
    if (expr->kind != EXPR_NAME || is_given(r, expr->name.name))
        return;
    DimDecl *decl = deciding_decl(r, expr->name.name);
    if (decl)
        vec_push(r->arena, &open->parts, decl);
}

static void open_decl(Extents *extents, DimDecl *decl) {
    OpenDim open = {.decl = decl};
    if (decl->extent)
        collect_parts(extents->resolver, decl->extent, &open);
    decl->visit = VISIT_OPEN;
    vec_push(extents->resolver->arena, &extents->open, open);
}

static void evaluate_after_parts(Extents *extents, DimDecl *decl) {
    open_decl(extents, decl);
    while (extents->open.count) {
        OpenDim *last = &extents->open.at[extents->open.count - 1];
        if (last->n_seen < last->parts.count) {
            DimDecl *part = last->parts.at[last->n_seen++];
            if (part->visit == VISIT_NEW)
                open_decl(extents, part);
            continue;
        }
        DimValue value = evaluate_decl(extents, last->decl);
        last->decl->value = value.kind == VALUE_KNOWN ? value.number : -1;
        last->decl->wrong = value.kind == VALUE_WRONG;
        last->decl->visit = VISIT_DONE;
        extents->open.count--;
    }
}

// ---- like ---------------------------------------------------------------------------------------

static DimDecl *like_next(const Resolver *r, const DimDecl *decl) {
    return decl->like.name ? program_find_dim(r->program, decl->like.name) : NULL;
}

static void report_like_cycle(Resolver *r, const DimDecl *decl) {
    diag_error(r->diags, decl->like.span, "'%s' is declared like itself", decl->name.name);
}

// Of the declarations in a cycle, the one that comes first in the text.
static const DimDecl *first_in_cycle(const Resolver *r, const DimDecl *member) {
    const DimDecl *first = member;
    for (const DimDecl *at = like_next(r, member); at != member; at = like_next(r, at))
        if (at->name.span.begin < first->name.span.begin)
            first = at;
    return first;
}

// Follows the chain from a declaration to a dim that is like no other, and gives all on the way
// that root. A chain that comes back to where it was is told once.
static void resolve_like(Resolver *r, DimDecl *decl) {
    Name root = decl->name.name;
    const DimDecl *at = decl;
    uint32_t steps = 0;
    for (; at && at->like.name && !at->like_root && steps <= r->program->dims.count; steps++) {
        root = at->like.name;
        at = like_next(r, at);
    }
    if (at && at->like_root)
        root = at->like_root;
    else if (at && at->like.name)
        report_like_cycle(r, first_in_cycle(r, at));
    for (DimDecl *next = decl; next && !next->like_root; next = like_next(r, next))
        next->like_root = root;
}

// A program's own declaration takes the place of the prelude's, which comes after it.
static void check_declared_once(Resolver *r) {
    for (uint32_t i = 0; i < r->program->dims.count; i++) {
        const DimDecl *decl = r->program->dims.at[i];
        const DimDecl *first = program_find_dim(r->program, decl->name.name);
        const Source *source = sources_get(r->session->sources, decl->name.span.file);
        if (first == decl || (source && !strcmp(source->path, "<prelude>")))
            continue;
        Diag *diag =
            diag_error(r->diags, decl->name.span, "dim '%s' is declared twice", decl->name.name);
        diag_note(diag, first->name.span, "first declared here");
    }
}

// ---- -D -----------------------------------------------------------------------------------------

static const char *given_text(Resolver *r, const char *option, const DimExtent *given) {
    return arena_printf(r->arena, "%s%s=%lld", option, given->dim, (long long)given->extent);
}

static bool is_map_dim(const Session *session, Name dim) {
    for (uint32_t i = 0; i < session->map_dims.count; i++)
        if (session->map_dims.at[i] == dim)
            return true;
    return false;
}

static void check_dim_exists(Resolver *r, Name dim, const char *given) {
    if (namelist_has(&r->named, dim) || namelist_has(&r->counted, dim) ||
        is_map_dim(r->session, dim) || r->garbled)
        return;
    Diag *diag = diag_warning(r->diags, "unused", (Span){0},
                              "%s changes nothing: no dim is named '%s'", given, dim);
    Near near = near_to(dim);
    near_offer_list(&near, &r->named);
    if (near.best)
        diag_hint(diag, "did you mean '%s'?", near.best);
}

void resolve_warn_given(Resolver *r) {
    for (uint32_t i = 0; i < r->session->dynamic.count; i++) {
        Name dim = r->session->dynamic.at[i];
        check_dim_exists(r, dim, arena_printf(r->arena, "--dynamic=%s", dim));
    }
    for (uint32_t i = 0; i < r->session->overrides.count; i++) {
        const DimExtent *override = &r->session->overrides.at[i];
        check_dim_exists(r, override->dim, given_text(r, "-D ", override));
    }
}

static void check_bounds(Resolver *r, const char *option, const DimExtents *all) {
    for (uint32_t i = 0; i < all->count; i++)
        if (all->at[i].extent < 0 || all->at[i].extent > EXTENT_MAX)
            diag_error(r->diags, (Span){0}, "%s: extents are from 0 to %lld",
                       given_text(r, option, &all->at[i]), (long long)EXTENT_MAX);
}

static void check_given(Resolver *r, const char *option, const DimExtents *all) {
    check_bounds(r, option, all);
    for (uint32_t i = 0; i < all->count; i++) {
        const DimExtent *item = &all->at[i];
        const char *given = given_text(r, option, item);
        const DimExtent *other =
            program_given(r->program, all, program_like_root(r->program, item->dim));
        if (other->extent == item->extent)
            continue;
        const DimDecl *decl = program_find_dim(r->program, item->dim);
        Diag *diag = diag_error(r->diags, (Span){0}, "%s and %s disagree", given,
                                given_text(r, option, other));
        diag_note(diag, decl->like.span, "'%s' and '%s' have one extent", item->dim, other->dim);
    }
}

// Requires: resolver->named. Ensures: value and like_root of every declaration.
void resolve_dims(Resolver *r) {
    index_dims(r);
    check_declared_once(r);
    for (uint32_t i = 0; i < r->program->dims.count; i++)
        resolve_like(r, r->program->dims.at[i]);
    check_given(r, "-D ", &r->session->overrides);
    check_given(r, "--dynamic=", &r->session->planned);
    check_bounds(r, "--dynamic=", &r->session->sizes);
    Extents extents = {.resolver = r};
    for (uint32_t i = 0; i < r->program->dims.count; i++) {
        DimDecl *decl = r->program->dims.at[i];
        Name dim = decl->name.name;
        if (!decl->like.name && !is_given(r, dim) && decl->visit == VISIT_NEW)
            evaluate_after_parts(&extents, decl);
    }
    for (uint32_t i = 0; i < r->program->dims.count; i++) {
        DimDecl *decl = r->program->dims.at[i];
        int64_t extent = program_extent(r->session, r->program, decl->name.name);
        decl->value = extent > 0 ? extent : -1;
    }
}
