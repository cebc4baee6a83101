// SPDX-License-Identifier: Apache-2.0
// Tokens to nodes. Meaning is given by compiler/ast/resolve.
//
// blocks.c has made every bracket match, and a comma between dims is a token of its own. A line
// ends with NEWLINE, or with INDENT if lines belong to it: those under a `def`, a `for` or any line
// that ends with a colon, up to a DEDENT. So a line can be lost to `error` without touching its
// neighbours: in every rule `error` is followed by the token that ends it (a rule that ended in
// `error` would be reduced too soon), and a line is reduced by its last token, before the next line
// is looked at.
%define api.pure full
%define api.location.type {Span}
%define api.token.prefix {TOK_}
%define parse.error custom
%define parse.lac full
%expect 0
%param {Parser *parser}

%code requires {
#include "ast/read/syntax.h"
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
    Range range;
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

%token <token> NUMBER "number" STRING "a string"
%token <ident> NAME "name" PRIMED "primed name"
%token <ident> FROM "the dim of a split"
%token INTO "'->' of dims"
%token <ident> IN "'in'" SHARED "'shared'" REVERSED "'reversed'" LIKE "'like'" AS "'as'" DIM "'dim'"
%token PARAM "'param'" DEF "'def'" OPTIMIZER "'optimizer'" IMPORT "'import'" FOR "'for'"
%token SCAN "'scan'" RETURN "'return'"
%token AND "'and'" OR "'or'" NOT "'not'"
%token LPAREN "'('" RPAREN "')'" LBRACKET "'['" RBRACKET "']'"
%token COMMA "','" DIM_COMMA "',' of dims" COLON "':'" ASSIGN "'='"
%token DEFAULT "'=' of a parameter" TILDE "'~'" ARROW "'->'"
%token PLUS "'+'" MINUS "'-'" STAR "'*'" SLASH "'/'" FLOORDIV "'//'" PERCENT "'%'" POW "'**'"
%token EQ "'=='" NE "'!='" LT "'<'" LE "'<='" GT "'>'" GE "'>='"
// What only other languages have: it is told of by the actions, never expected. See foreign.c.
%token <token> QUOTED "quoted text" UPDATE "assignment operator"
%token AT "'@'" QUESTION "'?'" DOT "'.'" ELLIPSIS "'...'" IF "'if'" ELSE "'else'"
%token NEWLINE "the end of the line" INDENT "the end of the line and a block"
%token DEDENT "the end of the block"
%token YYEOF 0 "the end of the file"

%precedence OPEN // a slice without an end, before a name
%precedence NAME PRIMED IN SHARED REVERSED LIKE
%precedence CHOICE
%precedence IF QUESTION
%left OR
%left AND
%precedence NOT
%nonassoc EQ NE LT LE GT GE
%left PLUS MINUS
%left STAR SLASH FLOORDIV PERCENT AT
%precedence NEGATE
%right POW
// The arrow behind an array is its own, not that of the call around it.
%precedence ARRAY
%precedence ARROW

%type <range> range
%type <ident> name dim_name plain_name plain_dim key_name
%type <idents> dims dim_list from into
%type <expr> expr default primary call member method choice place slice array
%type <exprs> exprs places place_list
%type <args> args arg_list
%type <key> key
%type <tensor> tensor parameter declaration
%type <tensors> targets parameters parameter_list declarations
%type <stmts> block lines line line_end
%type <flag> comma

%%

file: items;

items:
  %empty
| items item;

item:
  DIM dim_items NEWLINE
| PARAM declarations NEWLINE        { syntax_add_globals(parser, @$, $2); }
| IMPORT STRING NEWLINE             { syntax_add_import(parser, @2, $2->text); }
| def
| error NEWLINE                     { yyerrok; syntax_lose_item(parser, @$); }
| error block                       { yyerrok; syntax_lose_item(parser, @$); };

dim_items:
  dim_item
| dim_items COMMA dim_item;

dim_item:
  name                              { syntax_add_dim(parser, $1, NULL, (Ident){0}); }
| name ASSIGN expr                  { syntax_add_dim(parser, $1, $3, (Ident){0}); }
| name LIKE name                    { syntax_add_dim(parser, $1, NULL, $3); };

def:
  head name parameters COLON block  { syntax_add_def(parser, @1, $2, @3, $3, $5); }
| head name parameters error block  { yyerrok; syntax_add_def(parser, @1, $2, @3, $3, $5); }
| head name error block             { yyerrok; syntax_add_broken_def(parser, @1, $2, $4); }
| head error block                  { yyerrok; syntax_lose_item(parser, @$); };

head:
  DEF                               { parser->in_optimizer = false; }
| OPTIMIZER                         { parser->in_optimizer = true; };

parameters:
  LPAREN RPAREN                     { $$ = (TensorList){0}; }
| LPAREN parameter_list comma RPAREN { $$ = $2; }
| LPAREN error RPAREN               { $$ = (TensorList){0}; parser->lost = true; }
| LPAREN parameter_list error RPAREN { $$ = $2; parser->lost = true; }
| LPAREN parameter_list COMMA error RPAREN { $$ = $2; parser->lost = true; };

parameter_list:
  parameter                         { $$ = (TensorList){0}; PUSH($$, $1); }
| parameter_list COMMA parameter    { $$ = $1; PUSH($$, $3); }
| parameter_list parameter          { $$ = $1; PUSH($$, $2); syntax_missing_comma(parser, @2); }
| error COMMA parameter             { $$ = (TensorList){0}; PUSH($$, $3); parser->lost = true; }
| parameter_list error COMMA parameter { $$ = $1; PUSH($$, $4); parser->lost = true; }
| parameter_list COMMA error COMMA parameter { $$ = $1; PUSH($$, $5); parser->lost = true; };

parameter:
  tensor
| PARAM tensor                      { $$ = $2; $$.is_param = true; }
| tensor DEFAULT default            { $$ = syntax_init_value($1, $3); };

default:
  NUMBER                            { $$ = expr_number(ARENA, @1, $1->number, $1->is_integer); }
| MINUS default                     { $$ = syntax_operation(parser, @$, OPER_NEG, $2, NULL); };

tensor:
  name                              { $$ = syntax_tensor(@$, $1); }
| name LBRACKET dims RBRACKET       { $$ = syntax_tensor_dims(@$, $1, $3); }
| name LBRACKET error RBRACKET      { $$ = syntax_tensor(@$, $1); }
| tensor COLON NAME                 { $$ = syntax_tensor_elem(parser, $1, $3); }
| tensor COLON NAME DOT NAME        { $$ = syntax_tensor_foreign(parser, $1, $3, $5); }
| tensor COLON NAME LBRACKET dims RBRACKET { $$ = syntax_tensor_typed(parser, $1, $3, $5, @$); }
| tensor COLON NAME LBRACKET error RBRACKET { $$ = $1; parser->lost = true; };

dims:
  %empty                            { $$ = (IdentList){0}; }
| dim_list
| dim_list DIM_COMMA;

dim_list:
  dim_name                          { $$ = (IdentList){0}; PUSH($$, $1); }
| dim_list DIM_COMMA dim_name       { $$ = $1; PUSH($$, $3); }
| dim_list dim_name                 { $$ = $1; PUSH($$, $2); syntax_missing_comma(parser, @2); };

comma:
  %empty                            { $$ = false; }
| COMMA                             { $$ = true; };

plain_name: NAME | IN | SHARED | REVERSED | LIKE;
name: plain_name | AS;
dim_name: name | PRIMED;
plain_dim: plain_name | PRIMED;

block: INDENT lines DEDENT          { $$ = $2; };

lines:
  line
| lines line                        { $$ = syntax_append(ARENA, $1, $2); };

line:
  tensor ASSIGN expr NEWLINE        { $$ = syntax_assign(parser, @$, $1, $3); }
| targets ASSIGN expr NEWLINE       { $$ = syntax_assign_several(parser, @$, $1, $3); }
| tensor UPDATE { foreign_tell_update(parser, $2); } expr NEWLINE
    { $$ = syntax_update(parser, @$, $1, $2, $4); }
| tensor EQ { foreign_tell_compare(parser, @2); } expr NEWLINE
    { $$ = syntax_assign(parser, @$, $1, $4); }
| PARAM declarations NEWLINE        { $$ = syntax_params(parser, @$, $2); }
| RETURN exprs NEWLINE              { $$ = syntax_return(parser, @$, $2); }
| FOR name IN dim_name COLON block  { $$ = syntax_for(parser, @1, $2, $4, false, $6); }
| FOR name IN dim_name SHARED COLON block { $$ = syntax_for(parser, @1, $2, $4, true, $7); }
| FOR name IN range args RPAREN COLON block
    { $$ = syntax_for_over(parser, @1, $2, $4, $5, $8); }
| FOR name COMMA name IN range args RPAREN COLON block
    { $$ = syntax_for_over(parser, @1, $2, $6, $7, $10); }
| SCAN name IN dim_name COLON block { $$ = syntax_scan(parser, @1, $2, $4, false, $6); }
| SCAN name IN dim_name REVERSED COLON block { $$ = syntax_scan(parser, @1, $2, $4, true, $7); }
| SCAN name IN range args RPAREN COLON block
    { $$ = syntax_scan_over(parser, @1, $2, $4, $5, $8); }
| SCAN name COMMA name IN range args RPAREN COLON block
    { $$ = syntax_scan_over(parser, @1, $2, $6, $7, $10); }
| tensor ASSIGN error line_end
    { yyerrok; $$ = syntax_assign(parser, @$, $1, syntax_lost_expr(parser, @3)); }
| targets ASSIGN error line_end
    { yyerrok; $$ = syntax_assign_several(parser, @$, $1, syntax_lost_expr(parser, @3)); }
| tensor error line_end             { yyerrok; $$ = (StmtList){0}; parser->lost = true; }
| targets error line_end            { yyerrok; $$ = (StmtList){0}; parser->lost = true; }
| RETURN error line_end
    { yyerrok; $$ = syntax_return(parser, @$, expr_list(ARENA, syntax_lost_expr(parser, @2))); }
| FOR name IN dim_name error block  { yyerrok; $$ = syntax_for(parser, @1, $2, $4, false, $6); }
| FOR name IN dim_name SHARED error block
    { yyerrok; $$ = syntax_for(parser, @1, $2, $4, true, $7); }
| FOR error block                   { yyerrok; $$ = (StmtList){0}; parser->lost = true; }
| SCAN name IN dim_name error block { yyerrok; $$ = syntax_scan(parser, @1, $2, $4, false, $6); }
| SCAN name IN dim_name REVERSED error block
    { yyerrok; $$ = syntax_scan(parser, @1, $2, $4, true, $7); }
| SCAN error block                  { yyerrok; $$ = (StmtList){0}; parser->lost = true; }
| error line_end                    { yyerrok; $$ = (StmtList){0}; parser->lost = true; };

range: dim_name LPAREN              { $$ = foreign_tell_range(parser, $1); };

targets:
  tensor COMMA tensor               { $$ = (TensorList){0}; PUSH($$, $1); PUSH($$, $3); }
| targets COMMA tensor              { $$ = $1; PUSH($$, $3); };

line_end:
  NEWLINE                           { $$ = (StmtList){0}; }
| block;

declarations:
  declaration                       { $$ = (TensorList){0}; PUSH($$, $1); }
| declarations COMMA declaration    { $$ = $1; PUSH($$, $3); };

declaration:
  tensor
| tensor ASSIGN expr                { $$ = syntax_init_value($1, $3); }
| tensor TILDE name                 { $$ = syntax_init(parser, $1, @3, $3, (ArgList){0}); }
| tensor TILDE name LPAREN args RPAREN { $$ = syntax_init(parser, $1, span_join(@3, @6), $3, $5); };

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
| expr OR expr                      { $$ = syntax_operation(parser, @$, OPER_OR, $1, $3); }
| expr AT { foreign_tell_matmul(parser, @2); } expr
                                    { $$ = foreign_pair(parser, @$, FOREIGN_MATMUL, $1, $4); }
| choice;

// a if condition else b, if condition: a else b, condition ? a : b
choice:
  expr IF { foreign_tell_choice(parser, @2); } expr ELSE expr %prec CHOICE
                                    { $$ = foreign_choice(parser, @$, $4, $1, $6); }
| IF { foreign_tell_choice(parser, @1); } expr COLON expr ELSE expr %prec CHOICE
                                    { $$ = foreign_choice(parser, @$, $3, $5, $7); }
| expr QUESTION { foreign_tell_choice(parser, @2); } expr COLON expr %prec CHOICE
                                    { $$ = foreign_choice(parser, @$, $1, $4, $6); };

primary:
  NUMBER                            { $$ = expr_number(ARENA, @1, $1->number, $1->is_integer); }
| name                              { $$ = expr_name(ARENA, $1); }
| PRIMED                            { $$ = expr_name(ARENA, $1); }
| name LBRACKET places RBRACKET     { $$ = syntax_ref(parser, @$, $1, $3); }
| PRIMED LBRACKET places RBRACKET   { $$ = syntax_primed(parser, @$, $1); }
| name LBRACKET error RBRACKET      { $$ = syntax_lost_expr(parser, @$); }
| primary DOT NUMBER                { $$ = foreign_constant(parser, $1, @2, @3, $3); }
| member
| method
| method LBRACKET places RBRACKET   { $$ = foreign_items(parser, @$, $1, $3); }
| method LPAREN args RPAREN         { $$ = foreign_made(parser, @$, $1, $3); }
| member LBRACKET places RBRACKET   { $$ = foreign_items(parser, @$, $1, $3); }
| STRING                            { $$ = foreign_string(parser, @$, $1); }
| QUOTED                            { $$ = foreign_string(parser, @$, $1); }
| call
| call AS name                      { $$ = syntax_label($1, @$, $3); }
| array
| LPAREN exprs comma RPAREN         { $$ = syntax_parens(parser, @$, $2, $3); };

member: primary DOT name            { $$ = foreign_member(parser, @$, $1, @2, $3); };
method: member LPAREN args RPAREN   { $$ = foreign_method(parser, @$, $1, $3); };

call:
  name LPAREN args RPAREN           { $$ = syntax_call(parser, @$, $1, $3); }
| name LPAREN arg_list ARROW LBRACKET dims RBRACKET RPAREN
                                    { $$ = syntax_call_to(parser, @$, $1, $3, $6); }

| name LPAREN arg_list COMMA from INTO into RPAREN
                                    { $$ = syntax_regroup(parser, @$, $1, $3, $5, $7); };

from:
  FROM                              { $$ = (IdentList){0}; PUSH($$, $1); }
| from FROM                         { $$ = $1; PUSH($$, $2); };

into:
  dim_name                          { $$ = (IdentList){0}; PUSH($$, $1); }
| into dim_name                     { $$ = $1; PUSH($$, $2); };

array:
  LBRACKET places RBRACKET %prec ARRAY { $$ = syntax_list(parser, @$, @1, $2); }
| LBRACKET places RBRACKET ARROW LBRACKET dims RBRACKET
                                    { $$ = syntax_array_to(syntax_array(parser, @$, $2), $6); }
| LBRACKET error RBRACKET           { $$ = syntax_lost_expr(parser, @$); };

places:
  %empty                            { $$ = (ExprList){0}; }
| place_list
| place_list DIM_COMMA;

place_list:
  place                             { $$ = expr_list(ARENA, $1); }
| place_list DIM_COMMA place        { $$ = $1; PUSH($$, $3); }
| place_list plain_dim
    { $$ = $1; PUSH($$, expr_name(ARENA, $2)); syntax_missing_comma(parser, @2); };

place:
  expr
| slice
| ELLIPSIS                          { $$ = foreign_ellipsis(parser, @$); };

slice:
  COLON %prec OPEN                  { $$ = foreign_slice(parser, @1, NULL, @1, NULL); }
| expr COLON %prec OPEN             { $$ = foreign_slice(parser, @$, $1, @2, NULL); }
| COLON expr                        { $$ = foreign_slice(parser, @$, NULL, @1, $2); }
| expr COLON expr                   { $$ = foreign_slice(parser, @$, $1, @2, $3); }
| slice COLON %prec OPEN            { $$ = $1; }
| slice COLON expr                  { $$ = foreign_step(parser, @$, $1, $3); };

args:
  %empty                            { $$ = (ArgList){0}; }
| arg_list comma;

arg_list:
  expr                              { $$ = (ArgList){0}; PUSH($$.args, $1); }
| key                               { $$ = (ArgList){0}; PUSH($$.keys, $1); }
| arg_list COMMA expr               { $$ = $1; PUSH($$.args, $3); }
| arg_list COMMA key                { $$ = $1; PUSH($$.keys, $3); };

key: key_name ASSIGN expr           { $$ = (KeyArg){.key = $1, .value = $3}; };
key_name: dim_name | DIM;

exprs:
  expr                              { $$ = expr_list(ARENA, $1); }
| exprs COMMA expr                  { $$ = $1; PUSH($$, $3); };

%%

static int yylex(YYSTYPE *value, Span *span, Parser *parser) {
    const Token *token = &parser->tokens.at[parser->next];
    parser->current = token;
    if (parser->next + 1 < parser->tokens.count) parser->next++;
    *span = token->span;
    bool has_value = token->kind == TOK_NUMBER || token->kind == TOK_STRING ||
                     token->kind == TOK_QUOTED || token->kind == TOK_UPDATE;
    if (has_value) value->token = token;
    else value->ident = (Ident){.name = token->text, .span = token->span};
    return token->kind;
}

// Only for what bison itself gives up on; syntax errors go to yyreport_syntax_error.
static void yyerror(Span *span, Parser *parser, const char *message) {
    syntax_error(parser, *span, "%s", message);
}

// ---- telling what was expected

// Sets of symbols, by kind.
typedef struct {
    bool has[YYNTOKENS];
    int count;
} Expected;


static void expected_drop(Expected *expected, const yysymbol_kind_t *kinds, size_t n) {
    for (size_t i = 0; i < n; i++) expected->has[kinds[i]] = false;
}
#define DROP(expected, ...)                                                                        \
    do {                                                                                           \
        static const yysymbol_kind_t kinds[] = {__VA_ARGS__};                                      \
        expected_drop((expected), kinds, sizeof kinds / sizeof kinds[0]);                          \
    } while (0)

// At the end of what is assigned to.
static bool after_target(const Expected *e) {
    return e->has[YYSYMBOL_ASSIGN] && !e->has[YYSYMBOL_RPAREN] && !e->has[YYSYMBOL_TILDE];
}

static bool after_loop_dim(const Expected *e) {
    return e->has[YYSYMBOL_SHARED] || e->has[YYSYMBOL_REVERSED];
}

// What the rules for forms of other languages would take is not expected.
static void drop_foreign(Expected *e) {
    DROP(e, YYSYMBOL_AT, YYSYMBOL_DOT, YYSYMBOL_UPDATE, YYSYMBOL_IF, YYSYMBOL_ELSE,
         YYSYMBOL_QUESTION, YYSYMBOL_ELLIPSIS, YYSYMBOL_QUOTED, YYSYMBOL_DEFAULT);
    if (e->has[YYSYMBOL_RBRACKET]) DROP(e, YYSYMBOL_COLON);
    if (e->has[YYSYMBOL_NUMBER]) DROP(e, YYSYMBOL_STRING, YYSYMBOL_LBRACKET);
    if (after_target(e)) DROP(e, YYSYMBOL_EQ);
    if (after_loop_dim(e) && e->has[YYSYMBOL_COLON]) DROP(e, YYSYMBOL_LPAREN);
    if (e->has[YYSYMBOL_IN] && !e->has[YYSYMBOL_NAME]) DROP(e, YYSYMBOL_COMMA);
}

static Expected expected_symbols(const yypcontext_t *context) {
    yysymbol_kind_t list[YYNTOKENS];
    Expected expected = {0};
    int count = yypcontext_expected_tokens(context, list, YYNTOKENS);
    for (int i = 0; i < count; i++) expected.has[list[i]] = true;
    drop_foreign(&expected);
    for (int i = 0; i < YYNTOKENS; i++) expected.count += expected.has[i];
    return expected;
}

static void add_choice(Text *text, const char *what, int left) {
    if (text->length) text_add(text, left ? ", " : " or ");
    text_add(text, what);
}

// Replaces the many tokens that an expression, a name or an operator may be by one word each.
static const char *expected_text(Arena *arena, Expected e) {
    const char *group = NULL;
    e.has[YYSYMBOL_NEWLINE] |= e.has[YYSYMBOL_INDENT];
    e.has[YYSYMBOL_COMMA] |= e.has[YYSYMBOL_DIM_COMMA];
    e.has[YYSYMBOL_INDENT] = e.has[YYSYMBOL_DIM_COMMA] = false;
    if (after_target(&e)) DROP(&e, YYSYMBOL_COMMA); // another name is seldom what is missing
    if (e.has[YYSYMBOL_DEF]) return "'dim', 'param', 'def', 'optimizer' or 'import'";
    if (e.has[YYSYMBOL_RETURN]) return "a statement";
    if (e.has[YYSYMBOL_NUMBER] && !e.has[YYSYMBOL_NAME]) return "a number";
    if (e.has[YYSYMBOL_NUMBER]) {
        group = "an expression";
        DROP(&e, YYSYMBOL_NUMBER, YYSYMBOL_LPAREN, YYSYMBOL_LBRACKET, YYSYMBOL_MINUS, YYSYMBOL_NOT,
             YYSYMBOL_FROM);
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
    if (e.has[YYSYMBOL_NAME])
        DROP(&e, YYSYMBOL_NAME, YYSYMBOL_PRIMED, YYSYMBOL_IN, YYSYMBOL_SHARED,
             YYSYMBOL_REVERSED, YYSYMBOL_LIKE, YYSYMBOL_AS, YYSYMBOL_DIM);
    if (e.has[YYSYMBOL_ASSIGN]) DROP(&e, YYSYMBOL_LBRACKET, YYSYMBOL_COLON, YYSYMBOL_TILDE);
    int left = group != NULL;
    for (int i = 0; i < YYNTOKENS; i++) left += e.has[i];
    Text text = {.arena = arena};
    if (group) add_choice(&text, group, --left);
    for (int i = 0; i < YYNTOKENS; i++)
        if (e.has[i]) add_choice(&text, yysymbol_name((yysymbol_kind_t)i), --left);
    return text.at ? text.at : "something else";
}

static const char *found_text(const Parser *parser, yysymbol_kind_t kind) {
    if (kind == YYSYMBOL_NEWLINE || kind == YYSYMBOL_INDENT)
        return yysymbol_name(YYSYMBOL_NEWLINE);
    if (kind == YYSYMBOL_DEDENT || kind == YYSYMBOL_YYEOF) return yysymbol_name(kind);
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
    int next = token[1].kind; // a keyword is followed by a word
    if (next != TOK_NAME && next != TOK_NUMBER && next != TOK_STRING) return NULL;
    static const char *const keywords[] = {"def",    "dim", "param", "import",
                                           "return", "for", "scan",  "optimizer"};
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
           kind == YYSYMBOL_OPTIMIZER ||
           kind == YYSYMBOL_IMPORT || kind == YYSYMBOL_FOR || kind == YYSYMBOL_SCAN ||
           kind == YYSYMBOL_RETURN || kind == YYSYMBOL_AND || kind == YYSYMBOL_OR ||
           kind == YYSYMBOL_NOT;
}

static bool is_missing_colon(const Expected *e, yysymbol_kind_t found) {
    return found == YYSYMBOL_INDENT && e->has[YYSYMBOL_COLON] && !e->has[YYSYMBOL_ASSIGN];
}

static const char *number_hint(const Parser *parser) {
    double extent = parser->current->number;
    if (!(extent >= 1 && parser->current->is_integer)) return "brackets hold the names of dims";
    return arena_printf(parser->scratch, "dims are named; give the extent with 'dim name = %.0f'",
                        extent);
}

static const char *syntax_hint(const Parser *parser, const Expected *e, yysymbol_kind_t found) {
    bool operand = found == YYSYMBOL_NAME || found == YYSYMBOL_NUMBER;
    const char *keyword = near_keyword(parser, e), *foreign = foreign_line_hint(parser);
    const char *call = operand ? mistakes_call_hint(parser) : NULL;
    if (foreign) return foreign;
    if (found == YYSYMBOL_PRIMED) return "only dims have primes, and they are not declared";
    if (keyword) return arena_printf(parser->scratch, "did you mean '%s'?", keyword);
    if (e->has[YYSYMBOL_DEF] && operand) return "statements belong in a def";
    if (parser->current - parser->tokens.at > 2 && parser->current[-2].kind == TOK_DEFAULT)
        return "a default is a number";
    if (is_missing_colon(e, found)) return "add ':'";
    if (found == YYSYMBOL_ARROW && e->has[YYSYMBOL_COLON])
        return "the result is what the 'return' of the body says";
    if (found == YYSYMBOL_ASSIGN && e->has[YYSYMBOL_EQ]) return "'==' compares";
    if (is_comparison(found) && e->has[YYSYMBOL_AND]) return "comparisons are joined by 'and'";
    if (found == YYSYMBOL_LPAREN && e->has[YYSYMBOL_ASSIGN])
        return "give the result a name: Y = ...";
    if (found == YYSYMBOL_LPAREN && parser->current[-1].kind == TOK_DEF)
        return "give it a name: 'def F(...):'";
    if (found == YYSYMBOL_LPAREN && after_loop_dim(e))
        return "a loop runs over a dim: for layer in layers";
    if (call && e->has[YYSYMBOL_LPAREN]) return call;
    if (operand && e->has[YYSYMBOL_COMMA] && !after_target(e)) return "add ','";
    if (e->has[YYSYMBOL_STRING]) return "a path is written in double quotes";
    if (found == YYSYMBOL_STRING && e->has[YYSYMBOL_RETURN]) return "comments begin with '#'";
    if (found == YYSYMBOL_NUMBER && e->has[YYSYMBOL_RBRACKET]) return number_hint(parser);
    if (found == YYSYMBOL_DIM && e->has[YYSYMBOL_RETURN]) return "dims are declared outside defs";
    if (operand && e->has[YYSYMBOL_PLUS] && e->has[YYSYMBOL_NEWLINE])
        return mistakes_beside_hint(parser);
    char letter = parser->source->text[parser->current->span.begin];
    if (found == YYSYMBOL_NUMBER && e->has[YYSYMBOL_NAME] && (letter == 'i' || letter == 'p'))
        return "this word is a number"; // inf, pi
    if (is_word(found) && e->has[YYSYMBOL_NAME]) return "this word is a keyword";
    if (e->count == 1 && e->has[YYSYMBOL_INDENT])
        return "write the body on lines of its own, indented";
    return NULL;
}

static int yyreport_syntax_error(const yypcontext_t *context, Parser *parser) {
    if (parser->current->quiet || foreign_told(parser) || foreign_is_rest_of_if(parser)) return 0;
    Expected expected = expected_symbols(context);
    if (expected.has[YYSYMBOL_DEF] && mistakes_repeat_stray(parser)) return 0;
    yysymbol_kind_t found = yypcontext_token(context);
    const char *what = expected_text(parser->arena, expected);
    if (is_missing_colon(&expected, found)) what = "':'";
    const Token *statement = foreign_statement(parser);
    Diag *diag =
        statement ? syntax_error(parser, statement->span, "there is no '%s'", statement->text)
                  : syntax_error(parser, *yypcontext_location(context), "expected %s, found %s",
                                 what, found_text(parser, found));
    const char *hint = syntax_hint(parser, &expected, found);
    if (hint) diag_hint(diag, "%s", hint);
    parser->broken_line = foreign_line_begin(parser);
    return 0;
}

void parse_tokens(Parser *parser) {
    yyparse(parser);
}
