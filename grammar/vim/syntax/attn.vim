" Vim syntax of attc's language, *.attn. tests/commands/test_editors.py compares the words below with
" those of the scanner and the compiler.
if exists("b:current_syntax")
  finish
endif

syn case match

syn keyword attnItem dim param def optimizer import
syn keyword attnStatement for scan in shared reversed like as return
syn keyword attnOperator and or not
syn keyword attnConstant inf pi
syn keyword attnType f32 f64 f16 bf16 i32 i64 bool
syn keyword attnInitialiser normal truncated_normal uniform glorot
syn keyword attnFunction einsum sum mean prod argmax max_number logsumexp softmax log_softmax cumsum min max
syn keyword attnFunction abs exp exp2 log sqrt rsqrt tanh sigmoid erf sin cos relu gelu silu softplus floor
syn keyword attnFunction where index gather scatter_add one_hot concat slice shift swap split merge topk sort argsort full
syn keyword attnFunction random dropout stop_gradient checkpoint
syn keyword attnPrelude norm layer_norm standardize rms_norm unit gelu_tanh quick_gelu leaky_relu elu
syn keyword attnPrelude squared_relu softcap glu reglu geglu swiglu causal causal_window window prefix
syn keyword attnPrelude padding sinusoidal rotary rotary_pairs alibi relative_bucket causal_bucket
syn keyword attnPrelude relative_bias causal_relative_bias cross_entropy smooth_cross_entropy correct
syn keyword attnPrelude squared_error sum_of_squares

" n', n'' are dims like n; a tensor's name stands before its brackets
syn match attnPrimed "\<\h\w*'\+"
syn match attnNumber "\<\d\+\%(\.\d*\)\=\%([eE][+-]\=\d\+\)\=\>"
syn match attnNumber "\.\d\+\%([eE][+-]\=\d\+\)\=\>"
syn match attnArrow "->"
syn match attnDefName "\%(\<\%(def\|optimizer\)\s\+\)\@<=\h\w*"
syn match attnKey "\<\h\w*\ze\s*==\@!" contained
syn region attnArguments start="(" end=")" transparent contains=ALLBUT,attnTodo
syn region attnString start=+"+ end=+"+ oneline
syn keyword attnTodo TODO FIXME XXX contained
syn match attnComment "#.*$" contains=attnTodo,@Spell

hi def link attnItem Keyword
hi def link attnStatement Statement
hi def link attnOperator Operator
hi def link attnConstant Constant
hi def link attnType Type
hi def link attnInitialiser Function
hi def link attnFunction Function
hi def link attnPrelude Function
hi def link attnPrimed Identifier
hi def link attnNumber Number
hi def link attnArrow Operator
hi def link attnDefName Structure
hi def link attnKey Identifier
hi def link attnString String
hi def link attnTodo Todo
hi def link attnComment Comment

let b:current_syntax = "attn"
