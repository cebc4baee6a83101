// SPDX-License-Identifier: Apache-2.0
// Tokens to nodes. The layout has made every bracket match and put INDENT and DEDENT around the
// lines under a `def`, a `for` and any line that ends with a colon, so that each rule can lose its
// line to `error` without touching the next. Meaning is given by compiler/ast/resolve*.c.
%define api.pure full
%define api.location.type {Span}
%define api.token.prefix {TOK_}
%define parse.error custom
%define parse.lac full
%expect 0
%param {Parser *parser}

%code requires {
#include "ast/syntax.h"
}

%code {
#include <string.h>

#define YYLLOC_DEFAULT(current, rhs, n)                                                            \
    ((current) = (n) ? span_join(YYRHSLOC(rhs, 1), YYRHSLOC(rhs, n)) : span_after(YYRHSLOC(rhs, 0)))

static int yylex(YYSTYPE *value, Span *span, Parser *parser);
static void yyerror(Span *span, Parser *parser, const char *message);

#define ARENA (parser->arena)
#define PUSH(list, item) vec_push(ARENA, &(list), item)
}

%union {
    const Token *token;
    Ident ident;
    IdentList idents;
    Expr *expr;
    ExprList exprs;
    ArgList args;
    KeyArg key;
    Tensor tensor;
    TensorList tensors;
    Stmt *stmt;
    StmtList stmts;
    bool flag;
}

%token <token> NUMBER "number" STRING "string"
%token <ident> NAME "name" IN "'in'" SHARED "'shared'" LIKE "'like'" AS "'as'" DIM "'dim'"
%token PARAM "'param'" DEF "'def'" IMPORT "'import'" FOR "'for'" RETURN "'return'"
%token AND "'and'" OR "'or'" NOT "'not'"
%token LPAREN "'('" RPAREN "')'" LBRACKET "'['" RBRACKET "']'"
%token COMMA "','" COLON "':'" ASSIGN "'='" TILDE "'~'" ARROW "'->'"
%token PLUS "'+'" MINUS "'-'" STAR "'*'" SLASH "'/'" FLOORDIV "'//'" PERCENT "'%'" POW "'**'"
%token EQ "'=='" NE "'!='" LT "'<'" LE "'<='" GT "'>'" GE "'>='"
%token NEWLINE "the end of the line" INDENT "an indented block" DEDENT "the end of the block"
%token YYEOF 0 "the end of the file"

%left OR
%left AND
%precedence NOT
%nonassoc EQ NE LT LE GT GE
%left PLUS MINUS
%left STAR SLASH FLOORDIV PERCENT
%precedence NEGATE
%right POW

%type <ident> name key_name
%type <idents> dims dim_list
%type <expr> expr primary call
%type <exprs> exprs
%type <args> args arg_list
%type <key> key
%type <tensor> tensor declaration
%type <tensors> parameters parameter_list declarations
%type <stmts> block lines line simple
%type <flag> shared comma

%%

file: items;

items:
  %empty
| items item;

item:
  item_line NEWLINE                 { parser->stray_items = false; yyerrok; }
| item_line NEWLINE block           { yyerrok; }
| error NEWLINE                     { parser->program->incomplete = true; yyerrok; }
| error NEWLINE block               { parser->program->incomplete = true; yyerrok; }
| def                               { parser->stray_items = false; yyerrok; };

item_line:
  DIM dim_items
| DIM error                         { parser->program->incomplete = true; }
| PARAM declarations                { syntax_add_globals(parser, $2); }
| PARAM error                       { parser->program->incomplete = true; }
| IMPORT STRING                     { syntax_add_import(parser, @2, $2->text); }
| IMPORT error                      { parser->program->incomplete = true; };

dim_items:
  dim_item
| dim_items COMMA dim_item;

dim_item:
  name                              { syntax_add_dim(parser, $1, NULL, (Ident){0}); }
| name ASSIGN expr                  { syntax_add_dim(parser, $1, $3, (Ident){0}); }
| name ASSIGN error                 { syntax_add_dim(parser, $1, expr_error(ARENA, @3), (Ident){0}); }
| name LIKE name                    { syntax_add_dim(parser, $1, NULL, $3); };

def:
  DEF name LPAREN parameters RPAREN colon NEWLINE block
                                    { syntax_add_def(parser, @1, $2, $4, $8); }
| DEF name error NEWLINE block      {
    parser->lost = true;
    syntax_add_def(parser, @1, $2, (TensorList){0}, $5);
  }
| DEF error NEWLINE block           { parser->program->incomplete = true; parser->lost = false; };

colon: COLON | error;

parameters:
  %empty                            { $$ = (TensorList){0}; }
| parameter_list comma;

parameter_list:
  tensor                            { $$ = (TensorList){0}; PUSH($$, $1); }
| PARAM tensor                      { $$ = (TensorList){0}; $2.is_param = true; PUSH($$, $2); }
| error                             { $$ = (TensorList){0}; parser->lost = true; }
| parameter_list COMMA tensor       { $$ = $1; PUSH($$, $3); }
| parameter_list COMMA PARAM tensor { $$ = $1; $4.is_param = true; PUSH($$, $4); }
| parameter_list COMMA error        { $$ = $1; parser->lost = true; }
| parameter_list error              { $$ = $1; parser->lost = true; }
| parameter_list tensor             { $$ = $1; PUSH($$, $2); syntax_missing_comma(parser, @2); }
| parameter_list PARAM tensor
  { $$ = $1; $3.is_param = true; PUSH($$, $3); syntax_missing_comma(parser, @2); };

tensor:
  name                              { $$ = syntax_tensor(@$, $1); }
| name LBRACKET dims RBRACKET       { $$ = syntax_tensor_dims(@$, $1, $3); }
| name LBRACKET error RBRACKET      { $$ = syntax_tensor(@$, $1); }
| tensor COLON NAME                 { $$ = syntax_tensor_elem(parser, $1, $3); };

dims:
  %empty                            { $$ = (IdentList){0}; }
| dim_list comma;

dim_list:
  name                              { $$ = (IdentList){0}; PUSH($$, $1); }
| dim_list COMMA name               { $$ = $1; PUSH($$, $3); }
| dim_list name                     { $$ = $1; PUSH($$, $2); syntax_missing_comma(parser, @2); };

comma:
  %empty                            { $$ = false; }
| COMMA                             { $$ = true; };

name: NAME | IN | SHARED | LIKE | AS;

block: INDENT lines DEDENT          { $$ = $2; };

lines:
  line
| lines line                        { $$ = syntax_append(ARENA, $1, $2); };

line:
  simple NEWLINE                    { yyerrok; }
| simple NEWLINE block              { $$ = syntax_append(ARENA, $1, $3); yyerrok; }
| FOR name IN name shared colon NEWLINE block
                                    { $$ = syntax_for(parser, @1, $2, $4, $5, $8); yyerrok; }
| FOR error NEWLINE block           { $$ = (StmtList){0}; parser->lost = true; yyerrok; };

simple:
  tensor ASSIGN expr                { $$ = syntax_assign(parser, @$, $1, $3); }
| tensor ASSIGN error               { $$ = syntax_assign(parser, @$, $1, expr_error(ARENA, @3)); }
| tensor error                      { $$ = syntax_assign(parser, @$, $1, expr_error(ARENA, @2)); }
| PARAM declarations                { $$ = syntax_params(parser, $2); }
| PARAM error                       { $$ = (StmtList){0}; parser->lost = true; }
| RETURN exprs                      { $$ = syntax_return(parser, @$, $2); }
| RETURN error                      { $$ = syntax_return(parser, @$, expr_list(ARENA, expr_error(ARENA, @2))); }
| error                             { $$ = (StmtList){0}; parser->lost = true; };

shared:
  %empty                            { $$ = false; }
| SHARED                            { $$ = true; };

declarations:
  declaration                       { $$ = (TensorList){0}; PUSH($$, $1); }
| declarations COMMA declaration    { $$ = $1; PUSH($$, $3); };

declaration:
  tensor
| tensor ASSIGN expr                { $$ = syntax_init_value($1, $3); }
| tensor TILDE name                 { $$ = syntax_init(parser, $1, @3, $3, (ArgList){0}); }
| tensor TILDE name LPAREN args RPAREN { $$ = syntax_init(parser, $1, span_join(@3, @6), $3, $5); }
| tensor ASSIGN error
| tensor TILDE error;

expr:
  primary
| MINUS expr %prec NEGATE           { $$ = syntax_operation(parser, @$, OPER_NEG, $2, NULL); }
| NOT expr                          { $$ = syntax_operation(parser, @$, OPER_NOT, $2, NULL); }
| expr PLUS expr                    { $$ = syntax_operation(parser, @$, OPER_ADD, $1, $3); }
| expr MINUS expr                   { $$ = syntax_operation(parser, @$, OPER_SUB, $1, $3); }
| expr STAR expr                    { $$ = syntax_operation(parser, @$, OPER_MUL, $1, $3); }
| expr SLASH expr                   { $$ = syntax_operation(parser, @$, OPER_DIV, $1, $3); }
| expr FLOORDIV expr                { $$ = syntax_operation(parser, @$, OPER_FLOORDIV, $1, $3); }
| expr PERCENT expr                 { $$ = syntax_operation(parser, @$, OPER_MOD, $1, $3); }
| expr POW expr                     { $$ = syntax_operation(parser, @$, OPER_POW, $1, $3); }
| expr EQ expr                      { $$ = syntax_operation(parser, @$, OPER_EQ, $1, $3); }
| expr NE expr                      { $$ = syntax_operation(parser, @$, OPER_NE, $1, $3); }
| expr LT expr                      { $$ = syntax_operation(parser, @$, OPER_LT, $1, $3); }
| expr LE expr                      { $$ = syntax_operation(parser, @$, OPER_LE, $1, $3); }
| expr GT expr                      { $$ = syntax_operation(parser, @$, OPER_GT, $1, $3); }
| expr GE expr                      { $$ = syntax_operation(parser, @$, OPER_GE, $1, $3); }
| expr AND expr                     { $$ = syntax_operation(parser, @$, OPER_AND, $1, $3); }
| expr OR expr                      { $$ = syntax_operation(parser, @$, OPER_OR, $1, $3); };

primary:
  NUMBER                            { $$ = expr_number(ARENA, @1, $1->number, $1->is_integer); }
| name                              { $$ = expr_name(ARENA, $1); }
| name LBRACKET dims RBRACKET       { $$ = expr_ref(ARENA, @$, $1, $3); }
| name LBRACKET error RBRACKET      { $$ = expr_error(ARENA, @$); }
| call
| call AS name                      { $$ = syntax_label($1, @$, $3); }
| LPAREN exprs comma RPAREN         { $$ = syntax_parens(parser, @$, $2, $3); };

call:
  name LPAREN args RPAREN           { $$ = syntax_call(parser, @$, $1, $3); }
| name LPAREN arg_list ARROW LBRACKET dims RBRACKET RPAREN
                                    { $$ = syntax_call_to(parser, @$, $1, $3, $6); }
| name LPAREN arg_list ARROW LBRACKET error RBRACKET RPAREN
                                    { $$ = expr_error(ARENA, @$); };

args:
  %empty                            { $$ = (ArgList){0}; }
| arg_list comma;

arg_list:
  expr                              { $$ = (ArgList){0}; PUSH($$.args, $1); }
| key                               { $$ = (ArgList){0}; PUSH($$.keys, $1); }
| arg_list COMMA expr               { $$ = $1; PUSH($$.args, $3); }
| arg_list COMMA key                { $$ = $1; PUSH($$.keys, $3); };

key: key_name ASSIGN expr           { $$ = (KeyArg){.key = $1, .value = $3}; };
key_name: name | DIM;

exprs:
  expr                              { $$ = expr_list(ARENA, $1); }
| exprs COMMA expr                  { $$ = $1; PUSH($$, $3); };

%%

static int yylex(YYSTYPE *value, Span *span, Parser *parser) {
    const Token *token = &parser->tokens.at[parser->next];
    parser->current = token;
    if (parser->next + 1 < parser->tokens.count) parser->next++;
    *span = token->span;
    if (token->kind == TOK_NUMBER || token->kind == TOK_STRING) value->token = token;
    else value->ident = (Ident){.name = token->text, .span = token->span};
    return token->kind;
}

// Only for what bison itself gives up on; syntax errors go to yyreport_syntax_error.
static void yyerror(Span *span, Parser *parser, const char *message) {
    syntax_error(parser, *span, "%s", message);
}

// ---- telling what was expected -----------------------------------------------------------------

// Sets of symbols, by kind.
typedef struct {
    bool has[YYNTOKENS];
    int count;
} Expected;

static Expected expected_symbols(const yypcontext_t *context) {
    yysymbol_kind_t list[YYNTOKENS];
    Expected expected = {0};
    expected.count = yypcontext_expected_tokens(context, list, YYNTOKENS);
    for (int i = 0; i < expected.count; i++) expected.has[list[i]] = true;
    return expected;
}

static void expected_drop(Expected *expected, const yysymbol_kind_t *kinds, size_t n) {
    for (size_t i = 0; i < n; i++) expected->has[kinds[i]] = false;
}
#define DROP(expected, ...)                                                                        \
    do {                                                                                           \
        static const yysymbol_kind_t kinds[] = {__VA_ARGS__};                                      \
        expected_drop((expected), kinds, sizeof kinds / sizeof kinds[0]);                          \
    } while (0)

static void add_choice(Text *text, const char *what, int left) {
    if (text->length) text_add(text, left ? ", " : " or ");
    text_add(text, what);
}

// Replaces the many tokens that an expression, a name or an operator may be by one word each.
static const char *expected_text(Arena *arena, Expected e) {
    const char *group = NULL;
    if (e.has[YYSYMBOL_DEF]) return "'dim', 'param', 'def' or 'import'";
    if (e.has[YYSYMBOL_RETURN]) return "a statement";
    if (e.has[YYSYMBOL_NUMBER]) {
        group = "an expression";
        DROP(&e, YYSYMBOL_NUMBER, YYSYMBOL_LPAREN, YYSYMBOL_MINUS, YYSYMBOL_NOT);
    } else if (e.has[YYSYMBOL_PLUS]) {
        bool ends_line = e.has[YYSYMBOL_NEWLINE] && !e.has[YYSYMBOL_COMMA];
        group = ends_line ? "an operator" : NULL;
        DROP(&e, YYSYMBOL_PLUS, YYSYMBOL_MINUS, YYSYMBOL_STAR, YYSYMBOL_SLASH, YYSYMBOL_FLOORDIV,
             YYSYMBOL_PERCENT, YYSYMBOL_POW, YYSYMBOL_EQ, YYSYMBOL_NE, YYSYMBOL_LT, YYSYMBOL_LE,
             YYSYMBOL_GT, YYSYMBOL_GE, YYSYMBOL_AND, YYSYMBOL_OR, YYSYMBOL_LPAREN,
             YYSYMBOL_LBRACKET, YYSYMBOL_ARROW, YYSYMBOL_ASSIGN, YYSYMBOL_AS);
    } else if (e.has[YYSYMBOL_NAME]) {
        group = "a name";
    }
    DROP(&e, YYSYMBOL_NAME, YYSYMBOL_IN, YYSYMBOL_SHARED, YYSYMBOL_LIKE, YYSYMBOL_AS, YYSYMBOL_DIM);
    int left = group != NULL;
    for (int i = 0; i < YYNTOKENS; i++) left += e.has[i];
    Text text = {.arena = arena};
    if (group) add_choice(&text, group, --left);
    for (int i = 0; i < YYNTOKENS; i++)
        if (e.has[i]) add_choice(&text, yysymbol_name((yysymbol_kind_t)i), --left);
    return text.at ? text.at : "something else";
}

static const char *found_text(const Parser *parser, yysymbol_kind_t kind) {
    if (kind == YYSYMBOL_NEWLINE || kind == YYSYMBOL_INDENT || kind == YYSYMBOL_DEDENT ||
        kind == YYSYMBOL_YYEOF)
        return yysymbol_name(kind);
    Span span = parser->current->span;
    uint32_t length = span.end - span.begin;
    const char *cut = length > 40 ? "..." : "";
    const char *text = arena_strndup(parser->arena, parser->source->text + span.begin,
                                     length > 40 ? 40 : length);
    if (kind == YYSYMBOL_STRING) return arena_printf(parser->arena, "the string %s%s", text, cut);
    return arena_printf(parser->arena, "'%s%s'", text, cut);
}

// The keyword that the first word of the line may have been meant to be.
static const char *near_keyword(const Parser *parser, const Expected *expected) {
    const Token *token = parser->current;
    bool starts_item = expected->has[YYSYMBOL_DEF];
    if (!starts_item && token > parser->tokens.at) token--;
    if (!token->first || token->kind != TOK_NAME) return NULL;
    static const char *const keywords[] = {"def", "dim", "param", "import", "return", "for"};
    for (size_t i = 0; i < sizeof keywords / sizeof keywords[0]; i++) {
        uint32_t limit = strlen(keywords[i]) > 3 ? 2 : 1;
        if (name_distance(token->text, keywords[i]) <= limit) return keywords[i];
    }
    return NULL;
}

static bool is_comparison(yysymbol_kind_t kind) {
    return kind == YYSYMBOL_EQ || kind == YYSYMBOL_NE || kind == YYSYMBOL_LT ||
           kind == YYSYMBOL_LE || kind == YYSYMBOL_GT || kind == YYSYMBOL_GE;
}

static bool is_word(yysymbol_kind_t kind) {
    return kind == YYSYMBOL_DIM || kind == YYSYMBOL_PARAM || kind == YYSYMBOL_DEF ||
           kind == YYSYMBOL_IMPORT || kind == YYSYMBOL_FOR || kind == YYSYMBOL_RETURN ||
           kind == YYSYMBOL_AND || kind == YYSYMBOL_OR || kind == YYSYMBOL_NOT;
}

static void add_hint(const Parser *parser, Diag *diag, const Expected *e, yysymbol_kind_t found) {
    bool operand = found == YYSYMBOL_NAME || found == YYSYMBOL_NUMBER;
    const char *keyword = near_keyword(parser, e);
    if (keyword) diag_hint(diag, "did you mean '%s'?", keyword);
    else if (e->has[YYSYMBOL_DEF] && operand) diag_hint(diag, "statements belong in a def");
    else if (found == YYSYMBOL_NEWLINE && e->has[YYSYMBOL_COLON] && !e->has[YYSYMBOL_ASSIGN])
        diag_hint(diag, "add ':'");
    else if (found == YYSYMBOL_ASSIGN && e->has[YYSYMBOL_EQ]) diag_hint(diag, "'==' compares");
    else if (is_comparison(found) && e->has[YYSYMBOL_AND])
        diag_hint(diag, "comparisons are joined by 'and'");
    else if (found == YYSYMBOL_LPAREN && e->has[YYSYMBOL_ASSIGN])
        diag_hint(diag, "give the result a name: Y = ...");
    else if (operand && e->has[YYSYMBOL_COMMA]) diag_hint(diag, "add ','");
    else if (found == YYSYMBOL_NUMBER && e->has[YYSYMBOL_RBRACKET])
        diag_hint(diag, "dims are named; give the extent with 'dim name = %.17g'",
                  parser->current->number);
    else if (is_word(found) && e->has[YYSYMBOL_NAME]) diag_hint(diag, "this word is a keyword");
    else if (found == YYSYMBOL_INDENT || (e->count == 1 && e->has[YYSYMBOL_NEWLINE]))
        diag_hint(diag, "one statement a line; a body is indented under its line");
}

static int yyreport_syntax_error(const yypcontext_t *context, Parser *parser) {
    if (parser->current->quiet) return 0;
    Expected expected = expected_symbols(context);
    if (expected.has[YYSYMBOL_DEF]) { // lines that are no items are told of once
        if (parser->stray_items) return 0;
        parser->stray_items = true;
    }
    yysymbol_kind_t found = yypcontext_token(context);
    const char *what = expected_text(parser->arena, expected);
    if (found == YYSYMBOL_NEWLINE && expected.has[YYSYMBOL_COLON] && !expected.has[YYSYMBOL_ASSIGN])
        what = "':'";
    Diag *diag = syntax_error(parser, *yypcontext_location(context), "expected %s, found %s", what,
                              found_text(parser, found));
    add_hint(parser, diag, &expected, found);
    return 0;
}

void parse_tokens(Parser *parser) {
    yyparse(parser);
}
