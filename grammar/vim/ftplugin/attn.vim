" What attc fmt writes: blocks are indented by four blanks, rows end before column 100.
if exists("b:did_ftplugin")
  finish
endif
let b:did_ftplugin = 1

setlocal expandtab shiftwidth=4 softtabstop=4 textwidth=100
setlocal comments=:# commentstring=#\ %s
setlocal formatprg=attc\ fmt\ -
let b:undo_ftplugin = "setlocal et< sw< sts< tw< com< cms< fp<"
