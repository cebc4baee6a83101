// SPDX-License-Identifier: Apache-2.0
// Counted loops with carried values, made in the form that LLVM wants them: one test at the end,
// phis at the head, and no loop at all when it is known to run once.
#include "emit/emit.h"

static LLVMValueRef phi(EmitModule *module, LLVMValueRef from, LLVMBasicBlockRef block) {
    LLVMValueRef node = LLVMBuildPhi(module->builder, LLVMTypeOf(from), "");
    LLVMAddIncoming(node, &from, &block, 1);
    return node;
}

LLVMValueRef emit_either(EmitModule *module, LLVMValueRef a, LLVMBasicBlockRef from_a,
                         LLVMValueRef b, LLVMBasicBlockRef from_b) {
    LLVMValueRef node = phi(module, a, from_a);
    LLVMAddIncoming(node, &b, &from_b, 1);
    return node;
}

static bool runs_once(LLVMValueRef low, LLVMValueRef high, LLVMValueRef step) {
    int64_t from, to, by;
    return index_known(low, &from) && index_known(high, &to) && index_known(step, &by) &&
           to > from && to - from <= by;
}

void emit_loop_open(EmitModule *module, EmitLoop *loop, LLVMValueRef low, LLVMValueRef high,
                    LLVMValueRef step, bool nonempty, LLVMValueRef *start, uint32_t n_carried) {
    int64_t from, to;
    bool known = index_known(low, &from) && index_known(high, &to) && from < to;
    *loop = (EmitLoop){.low = low, .high = high, .step = step, .n_carried = n_carried};
    loop->start = arena_copy(module->arena, start, sizeof *start * n_carried);
    loop->carried = arena_array(module->arena, LLVMValueRef, n_carried);
    loop->once = runs_once(low, high, step);
    if (loop->once) {
        loop->at = low;
        for (uint32_t i = 0; i < n_carried; i++)
            loop->carried[i] = start[i];
        return;
    }
    loop->guarded = !nonempty && !known;
    loop->before = LLVMGetInsertBlock(module->builder);
    loop->body = emit_block(module, "loop");
    loop->after = emit_block(module, "done");
    if (loop->guarded) {
        LLVMValueRef any = LLVMBuildICmp(module->builder, LLVMIntSLT, low, high, "");
        LLVMBuildCondBr(module->builder, any, loop->body, loop->after);
    } else {
        LLVMBuildBr(module->builder, loop->body);
    }
    LLVMPositionBuilderAtEnd(module->builder, loop->body);
    loop->at = phi(module, low, loop->before);
    for (uint32_t i = 0; i < n_carried; i++)
        loop->carried[i] = phi(module, start[i], loop->before);
}

// ---- products of a counter ----
//
// What an innermost loop multiplies its counter by is added up instead, from turn to turn: an
// address is then a sum that the machine makes for nothing.

enum { CARRIED_PRODUCTS_MAX = 4, INDUCTIONS_MAX = 16 }; // registers are few

// A value that grows by the same in each turn: another one (`of`, a number) times or plus what is
// the same in all turns.
typedef struct {
    int of;
    LLVMOpcode op;
    LLVMValueRef other, start, step;
    LLVMValueRef carried; // NULL: computed in each turn
} Induction;

typedef struct {
    EmitModule *module;
    const EmitLoop *loop;
    Induction at[INDUCTIONS_MAX]; // the counter is the first
    int count, n_carried;
} Inductions;

static bool is_in_body(const EmitLoop *loop, LLVMValueRef value) {
    return LLVMIsAInstruction(value) && LLVMGetInstructionParent(value) == loop->body;
}

static LLVMValueRef carry(Inductions *all, const Induction *induction) {
    LLVMBuilderRef builder = all->module->builder;
    LLVMBasicBlockRef body = all->loop->body;
    LLVMPositionBuilderBefore(builder, LLVMGetFirstInstruction(body));
    LLVMValueRef node = phi(all->module, induction->start, all->loop->before);
    LLVMPositionBuilderAtEnd(builder, body);
    LLVMValueRef next = LLVMBuildAdd(builder, node, induction->step, "");
    LLVMAddIncoming(node, &next, &body, 1);
    all->n_carried++;
    return node;
}

// Its number, or -1 where there are too many. What it starts from is computed before the loop.
static int find_induction(Inductions *all, int of, LLVMOpcode op, LLVMValueRef other) {
    for (int i = 1; i < all->count; i++)
        if (all->at[i].of == of && all->at[i].op == op && all->at[i].other == other)
            return i;
    if (all->count == INDUCTIONS_MAX || (op == LLVMMul && all->n_carried == CARRIED_PRODUCTS_MAX))
        return -1;
    EmitModule *m = all->module;
    Induction from = all->at[of], *made = &all->at[all->count];
    LLVMPositionBuilderBefore(m->builder, LLVMGetBasicBlockTerminator(all->loop->before));
    *made = (Induction){.of = of, .op = op, .other = other};
    if (op == LLVMMul) {
        made->start = index_mul(m, from.start, other);
        made->step = index_mul(m, from.step, other);
        made->carried = carry(all, made);
    } else {
        made->start = (op == LLVMAdd ? index_add : index_sub)(m, from.start, other);
        made->step = from.step;
    }
    return all->count++;
}

// value: the induction of this number.
static void carry_products_of(Inductions *all, int number, LLVMValueRef value) {
    for (LLVMUseRef use = LLVMGetFirstUse(value); use; use = LLVMGetNextUse(use)) {
        LLVMValueRef user = LLVMGetUser(use);
        if (!is_in_body(all->loop, user) || !LLVMIsABinaryOperator(user))
            continue;
        LLVMOpcode op = LLVMGetInstructionOpcode(user);
        bool second = LLVMGetOperand(user, 0) != value;
        LLVMValueRef other = LLVMGetOperand(user, !second);
        bool grows = (op == LLVMMul && LLVMIsAConstantInt(other)) || op == LLVMAdd ||
                     (op == LLVMSub && !second);
        if (!grows || is_in_body(all->loop, other))
            continue;
        int made = find_induction(all, number, op, other);
        if (made >= 0 && op == LLVMMul)
            LLVMReplaceAllUsesWith(user, all->at[made].carried);
        else if (made >= 0)
            carry_products_of(all, made, user);
    }
}

static void carry_products(EmitModule *module, const EmitLoop *loop) {
    Inductions all = {.module = module, .loop = loop, .count = 1};
    all.at[0] = (Induction){.of = -1, .start = loop->low, .step = loop->step};
    carry_products_of(&all, 0, loop->at);
    LLVMPositionBuilderAtEnd(module->builder, loop->body);
}

void emit_loop_close(EmitModule *module, EmitLoop *loop, LLVMValueRef *next, LLVMValueRef *out) {
    if (loop->once) {
        for (uint32_t i = 0; i < loop->n_carried; i++)
            out[i] = next[i];
        return;
    }
    LLVMBasicBlockRef end = LLVMGetInsertBlock(module->builder);
    if (end == loop->body)
        carry_products(module, loop);
    // May wrap as far as LLVM knows: else it would test what was before, and keep both.
    LLVMValueRef at = LLVMBuildAdd(module->builder, loop->at, loop->step, "");
    LLVMAddIncoming(loop->at, &at, &end, 1);
    for (uint32_t i = 0; i < loop->n_carried; i++)
        LLVMAddIncoming(loop->carried[i], &next[i], &end, 1);
    LLVMValueRef more = LLVMBuildICmp(module->builder, LLVMIntSLT, at, loop->high, "");
    LLVMBuildCondBr(module->builder, more, loop->body, loop->after);
    LLVMMoveBasicBlockAfter(loop->after, end);
    LLVMPositionBuilderAtEnd(module->builder, loop->after);
    for (uint32_t i = 0; i < loop->n_carried; i++) {
        LLVMValueRef value = next[i];
        if (loop->guarded) {
            value = phi(module, loop->start[i], loop->before);
            LLVMAddIncoming(value, &next[i], &end, 1);
        }
        out[i] = value;
    }
}
