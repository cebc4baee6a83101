// SPDX-License-Identifier: Apache-2.0
// From an LLVM module to an object or assembly.
//
// Kernels arrive in the shape they should have (phi accumulators, splats next to their uses), so
// the passes are a short clean-up and not an -O2 pipeline. For a packed 512 x 768 x 768 contraction
// that is 2 ms of passes and 20 ms of code generation instead of 26 and 26, and code as fast.
#include "emit/emit.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/ErrorHandling.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <pthread.h>
#include <string.h>

static const char passes[] =
    "function(early-cse,simplifycfg,instcombine<no-verify-fixpoint>,loop-mssa(licm))";

// Loop strength reduction takes a fifth of the time of code generation, and half of it where
// extents are known at run time only, for kernels that are no faster: what is the same in each turn
// of a loop licm takes out of it, for a thirtieth, and products of counters are carried. Taken out
// by the back end as well, constants fill the registers, although an operand in memory is as fast.
static const char *const llvm_options[] = {"attc", "-disable-lsr", "-disable-machine-licm"};
enum { N_OPTIONS = sizeof llvm_options / sizeof *llvm_options };

// LLVM keeps its registry of back ends in the process; registering from two threads is a race.
static pthread_once_t registered = PTHREAD_ONCE_INIT;

// What LLVM would abort the process for.
static void give_up(const char *reason) {
    ice("LLVM: %s", reason);
}

static void register_back_ends(void) {
    LLVMInstallFatalErrorHandler(give_up);
    LLVMParseCommandLineOptions(N_OPTIONS, llvm_options, NULL);
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser(); // inline assembly
}

LLVMTargetMachineRef emit_target_machine(const Target *target) {
    pthread_once(&registered, register_back_ends);
    LLVMTargetRef back_end;
    char *error = NULL;
    if (LLVMGetTargetFromTriple(target->triple, &back_end, &error))
        ice("emit_target_machine: %s", error);
    LLVMTargetMachineRef machine =
        LLVMCreateTargetMachine(back_end, target->triple, target->cpu, target->features,
                                LLVMCodeGenLevelDefault, LLVMRelocPIC, LLVMCodeModelDefault);
    if (!machine)
        ice("emit_target_machine: no machine for %s %s", target->triple, target->cpu);
    return machine;
}

char *emit_flags_text(Arena *arena, const Target *target) {
    unsigned major, minor, patch;
    LLVMGetVersion(&major, &minor, &patch);
    const char *options = "";
    for (int i = 1; i < N_OPTIONS; i++)
        options = arena_printf(arena, "%s%s", options, llvm_options[i]);
    // The facts of a machine that code is made by, beside the kernels that are planned by the
    // others.
    const Machine *machine = &target->machine;
    return arena_printf(arena,
                        "target=%s triple=%s cpu=%s features=%s vectors=%dx%d masks=%d passes=%s "
                        "options=%s llvm=%u.%u.%u",
                        target->name, target->triple, target->cpu, target->features,
                        machine->vector_registers, machine->vector_bytes, machine->has_masks,
                        passes, options, major, minor, patch);
}

// ---- diagnostics: LLVM can report an error and still hand back an object ----

typedef struct {
    Arena *arena;
    const char *first_error; // NULL: none
} Reports;

static void report(LLVMDiagnosticInfoRef info, void *context) {
    Reports *reports = context;
    if (LLVMGetDiagInfoSeverity(info) != LLVMDSError || reports->first_error)
        return;
    char *text = LLVMGetDiagInfoDescription(info);
    reports->first_error = arena_printf(reports->arena, "LLVM: %s", text);
    LLVMDisposeMessage(text);
}

static void verify(EmitModule *module) {
    char *error = NULL;
    bool broken = LLVMVerifyModule(module->module, LLVMReturnStatusAction, &error);
    const char *kept = arena_printf(module->arena, "%s", error);
    LLVMDisposeMessage(error);
    size_t length;
    const char *name = LLVMGetModuleIdentifier(module->module, &length);
    if (broken)
        ice("emit_compile: module %.*s: %s", (int)length, name, kept);
}

static bool run_passes(EmitModule *module, LLVMTargetMachineRef machine, const char **why) {
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(module->module, passes, machine, options);
    LLVMDisposePassBuilderOptions(options);
    if (!error)
        return true;
    char *text = LLVMGetErrorMessage(error);
    *why = arena_printf(module->arena, "LLVM passes: %s", text);
    LLVMDisposeErrorMessage(text);
    return false;
}

static bool write_code(EmitModule *module, LLVMTargetMachineRef machine, EmitFile kind, Blob *out,
                       const char **why) {
    LLVMCodeGenFileType type = kind == EMIT_OBJECT ? LLVMObjectFile : LLVMAssemblyFile;
    char *error = NULL;
    LLVMMemoryBufferRef buffer = NULL;
    if (LLVMTargetMachineEmitToMemoryBuffer(machine, module->module, type, &error, &buffer)) {
        *why = arena_printf(module->arena, "LLVM code generation: %s", error);
        LLVMDisposeMessage(error);
        return false;
    }
    out->length = LLVMGetBufferSize(buffer);
    out->bytes = arena_copy(module->arena, LLVMGetBufferStart(buffer), out->length);
    LLVMDisposeMemoryBuffer(buffer);
    return true;
}

bool emit_compile(EmitModule *module, EmitFile kind, Blob *out, const char **why) {
    verify(module);
    Reports reports = {.arena = module->arena};
    LLVMContextSetDiagnosticHandler(module->context, report, &reports);
    LLVMTargetMachineRef machine = emit_target_machine(module->target);
    bool ok = run_passes(module, machine, why) && write_code(module, machine, kind, out, why);
    LLVMDisposeTargetMachine(machine);
    LLVMContextSetDiagnosticHandler(module->context, NULL, NULL);
    if (ok && reports.first_error) {
        *why = reports.first_error;
        return false;
    }
    return ok;
}

char *emit_module_text(EmitModule *module) {
    char *text = LLVMPrintModuleToString(module->module);
    char *copy = arena_strndup(module->arena, text, strlen(text));
    LLVMDisposeMessage(text);
    return copy;
}
