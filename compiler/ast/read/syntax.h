// SPDX-License-Identifier: Apache-2.0
// How text becomes nodes; private to the scanner, the blocks and the grammar.
//
//   scan_file     grammar/scan.l   text -> tokens, with their line starts
//   blocks_tokens blocks.c         brackets made to match, line ends and indentation made tokens
//   yyparse       grammar/parse.y  tokens -> nodes, through node.c and the actions below
//
// Each of the three reports the mistakes it finds and leaves something that the next can go on
// with.
#ifndef ATTC_SYNTAX_H
#define ATTC_SYNTAX_H

#include "ast/ast.h"

typedef struct {
    int kind; // TOK_... of the grammar
    Span span;
    const char *text; // words: the interned name; strings: what is between the quotes
    double number;
    uint32_t indent; // first token of a line: its column from 0, a tab counts to the next eighth
    bool is_integer;
    bool first;  // of its line
    bool tabbed; // first, and there are tabs before it
    bool quiet;  // part of a mistake that was reported: a syntax error here is not told again
} Token;
typedef VEC(Token) TokenList;

typedef struct {
    Span span; // of the string
    const char *path;
} Import;

typedef struct {
    Session *session;
    Arena *arena;   // of the session
    Arena *scratch; // of this parse
    Diags *untold;  // errors after the first MAX_ERRORS
    Program *program;
    uint32_t file;
    const Source *source;
    TokenList tokens;
    VEC(Span) comments;   // where there are any, in order
    uint32_t next;        // token to give to the grammar
    const Token *current; // the last one given
    VEC(Import) imports;
    bool in_optimizer;           // the def being parsed is one
    bool lost;                   // a statement of the def being parsed was lost
    bool garbled;                // an expression of it was
    bool told_if;                // an `if` of it was told of
    Diag *foreign;               // the last form of another language that was told of
    uint32_t foreign_at;         // the token that its line begins with
    const Token *broken_line;    // likewise of the last one that is not the grammar's
    const Token *stray;          // first of the last line that was reported as no item
    Span deep;                   // the last expression that was cut for its depth
    uint32_t row_begin, row_end; // tokens: the row of names that was looked at for a mistake
    uint32_t n_errors;
    uint8_t *marks; // for each byte of the text: whether a mistake that was told begins there
} Parser;

// Limits that keep recursion over the program safe.
enum { MAX_BRACKETS = 200, MAX_BLOCKS = 100, MAX_TOWER = 200, MAX_NAME = 255, MAX_ERRORS = 100 };

typedef struct {
    ExprList args;
    KeyList keys;
} ArgList;

// What a loop of another language runs over, `range(`.
typedef struct {
    Ident function;
    Diag *told; // that there is none, or NULL: a mistake before it was told
} Range;

// ---- mistakes.c
Parser parser_new(Session *session, Program *program, uint32_t file, Arena *scratch);

// ---- grammar/scan.l
void scan_file(Parser *parser);

// ---- tokens.c
Span span_after(Span span); // the empty place where it ends
bool token_is_name(int kind);
bool token_is_def(int kind);  // the keyword of one: def, optimizer
bool token_is_loop(int kind); // likewise: for, scan

// ---- optimizers.c
void optimizers_tokens(Parser *parser); // where `optimizer` is no name, and defaults of parameters

// ---- regroup.c
void regroup_tokens(Parser *parser); // the dims of `d -> h k`

// ---- blocks.c
void blocks_tokens(Parser *parser);

// ---- foreign.c: what people of other languages try
// Told where it is read, once in a statement; ast/resolve/meant/foreign.c composes what to write
// instead. Such tokens of a line are found before the grammar reads them:
void foreign_tokens(Parser *parser);
void foreign_tell(Parser *parser, Span at, const char *message, const char *hint);
void foreign_tell_compare(Parser *parser, Span at); // Y == value
void foreign_tell_matmul(Parser *parser, Span at);
void foreign_tell_choice(Parser *parser, Span at);
extern const char foreign_none[];                          // the hint of what asks for `None`
bool foreign_has_none(const Token *from, const Token *to); // in the rest of the line
void foreign_tell_list(Parser *parser, Span at);
// How to repeat as often as this: a dim of that extent.
const char *foreign_steps_hint(const Parser *parser, const char *word, const char *variable,
                               const char *extent, const char *from);
Range foreign_tell_range(Parser *parser, Ident function);
void foreign_tell_update(Parser *parser, const Token *token);
bool foreign_told(const Parser *parser); // of the statement being read
// Does the grammar stop at an `else` or `elif` of the `if` that was told of? Notes an `if`.
bool foreign_is_rest_of_if(Parser *parser);
Expr *foreign_pair(Parser *parser, Span span, Foreign form, Expr *a, Expr *b);
Expr *foreign_choice(Parser *parser, Span span, Expr *condition, Expr *a, Expr *b);
Expr *foreign_member(Parser *parser, Span span, Expr *of, Span dot, Ident name);
// np.inf
Expr *foreign_constant(Parser *parser, Expr *of, Span dot, Span span, const Token *number);
Expr *foreign_method(Parser *parser, Span span, Expr *member, ArgList args);
Expr *foreign_made(Parser *parser, Span span, Expr *made, ArgList args);
Expr *foreign_items(Parser *parser, Span span, Expr *of, ExprList items);
Expr *foreign_slice(Parser *parser, Span span, Expr *from, Span colon, Expr *to);
Expr *foreign_step(Parser *parser, Span span, Expr *slice, Expr *step);
Expr *foreign_ellipsis(Parser *parser, Span span);
Expr *foreign_string(Parser *parser, Span span, const Token *token);
Expr *foreign_list(Parser *parser, Span span, ExprList items);
// What both of the files below look for.
bool foreign_ends_line(int kind);
const Token *foreign_line_begin(const Parser *parser); // of the line that is being read
bool foreign_is_word(const Token *token, const char *word);
// The text of the tokens from `from` up to, not including, `to`; NULL if it is none that fits into
// a hint.
const char *foreign_between(const Parser *parser, const Token *from, const Token *to);
const Token *foreign_closing(const Token *open); // of a parenthesis, in its line; NULL: none
// Of `sum[m](A)`, `arguments` being its parenthesis: the call with a key; NULL: it is no function
// of dims.
const char *foreign_subscript_hint(const Parser *parser, const Token *arguments);
bool foreign_ends_operand(int kind);

// ---- first_value.c
// Of a first value where there is none, at the token that was not expected; or NULL.
const char *first_value_hint(const Parser *parser);

// ---- foreign_line.c
// The hint for the line that the grammar stopped in, or NULL.
const char *foreign_line_hint(const Parser *parser);
// The first word of a statement that only other languages have, if the mistake is behind it.
const Token *foreign_statement(const Parser *parser);

// ---- grammar/parse.y, around the generated yyparse
void parse_tokens(Parser *parser);

// ---- mistakes.c
// A mistake of the text. After MAX_ERRORS in one file the rest is not told any more.
Diag *syntax_error(Parser *parser, Span at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// Does the grammar stop at a line at the top that is no item, and follows another one that was told
// of? Notes the line.
bool mistakes_repeat_stray(Parser *parser);
// One of indentation, which leaves what is written as it is.
Diag *layout_error(Parser *parser, Span at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool mistakes_in(const Parser *parser, Span span); // of the text
uint32_t mistakes_count(const Parser *parser, Span span);
bool mistakes_of_layout_in(const Parser *parser, Span span);
Span mistakes_line(const Parser *parser, Span span); // up to the end of its last line
// Whether the statement, which has a mistake, may be several.
bool mistakes_join_statements(const Parser *parser, Span span);
// Whether the item of a list that goes on at `span` has one.
bool mistakes_since_comma(Parser *parser, Span span);
// Of a value that stands behind the name of a built-in; NULL: behind something else.
const char *mistakes_call_hint(const Parser *parser);
// Of one that stands behind another one.
const char *mistakes_beside_hint(const Parser *parser);
// An item is lost: what it names may have been declared by it.
void mistakes_lose_names(Parser *parser, Span span);

// ---- syntax.c: the actions that need more than a constructor
// A comma was forgotten before the item at `next`.
void syntax_missing_comma(Parser *parser, Span next);

// Trees deeper than AST_MAX_DEPTH are reported and cut.
Expr *syntax_operation(Parser *parser, Span span, Oper oper, Expr *a, Expr *b); // b NULL: unary
Expr *syntax_ref(Parser *parser, Span span, Ident name, ExprList items);
Expr *syntax_call(Parser *parser, Span span, Ident name, ArgList args);
Expr *syntax_call_to(Parser *parser, Span span, Ident name, ArgList args, IdentList dims);
Expr *syntax_regroup(Parser *parser, Span span, Ident name, ArgList args, IdentList from,
                     IdentList into); // name(args, from -> into)
Expr *syntax_parens(Parser *parser, Span span, ExprList items, bool comma);
Expr *syntax_array(Parser *parser, Span span, ExprList items);
// Without an arrow: a row, an array with the dims of its place, or a list of other languages.
Expr *syntax_list(Parser *parser, Span span, Span opener, ExprList items);
Expr *syntax_array_to(Expr *array, IdentList dims);

Expr *syntax_label(Expr *call, Span span, Ident label);     // call as label
Expr *syntax_lost_expr(Parser *parser, Span span);          // reported already
Expr *syntax_primed(Parser *parser, Span span, Ident name); // a tensor with primes: reported

Tensor syntax_tensor(Span span, Ident name);
Tensor syntax_tensor_dims(Span span, Ident name, IdentList dims);
Tensor syntax_tensor_elem(Parser *parser, Tensor tensor, Ident elem);
Tensor syntax_tensor_foreign(Parser *parser, Tensor tensor, Ident module, Ident type);
// x: Tensor[n, d], as annotations of other languages are.
Tensor syntax_tensor_typed(Parser *parser, Tensor tensor, Ident type, IdentList dims, Span span);
Tensor syntax_init_value(Tensor tensor, Expr *value);                                   // = value
Tensor syntax_init(Parser *parser, Tensor tensor, Span span, Ident name, ArgList args); // ~ name()

// Statements come as lists, since one line may declare several tensors and a lost one leaves none.
StmtList syntax_append(Arena *arena, StmtList a, StmtList b);
StmtList syntax_assign(Parser *parser, Span span, Tensor target, Expr *value);
StmtList syntax_assign_several(Parser *parser, Span span, TensorList targets, Expr *call);
StmtList syntax_params(Parser *parser, Span span, TensorList params);
StmtList syntax_return(Parser *parser, Span span, ExprList results);
// Y += value, Y := value
StmtList syntax_update(Parser *parser, Span span, Tensor target, const Token *token, Expr *value);
// for var in function(args):
StmtList syntax_for_over(Parser *parser, Span span, Ident var, Range range, ArgList args,
                         StmtList body);
StmtList syntax_scan_over(Parser *parser, Span span, Ident var, Range range, ArgList args,
                          StmtList body);
StmtList syntax_for(Parser *parser, Span span, Ident var, Ident dim, bool shared, StmtList body);
StmtList syntax_scan(Parser *parser, Span span, Ident var, Ident dim, bool reversed, StmtList body);

void syntax_add_import(Parser *parser, Span span, const char *path);
void syntax_add_globals(Parser *parser, Span span, TensorList params);
void syntax_add_dim(Parser *parser, Ident name, Expr *extent, Ident like);
// `head` is the parameter list.
void syntax_add_def(Parser *parser, Span span, Ident name, Span head, TensorList params,
                    StmtList body);
void syntax_add_broken_def(Parser *parser, Span span, Ident name, StmtList body); // params lost
void syntax_lose_item(Parser *parser, Span span); // with the lines under it

#endif
