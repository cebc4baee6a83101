// SPDX-License-Identifier: Apache-2.0
// What this machine can run: the processor has the instructions and the operating system keeps the
// registers (x86-64 psABI levels v3 and v4; Intel SDM vol. 1, 14.3 and 15.2, on XGETBV).

#include <stdlib.h>
#include <string.h>

#include "internal.h"

#if defined(__x86_64__)
#include <cpuid.h>

typedef struct {
    uint32_t leaf1_c, leaf7_b, ext1_c; // feature words of CPUID
    uint64_t xcr0;                     // register sets that the system saves
} Cpu;

static uint64_t read_xcr0(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static Cpu read_cpu(void) {
    Cpu cpu = {0};
    uint32_t a, b, c, d;
    if (__get_cpuid(1, &a, &b, &c, &d))
        cpu.leaf1_c = c;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d))
        cpu.leaf7_b = b;
    if (__get_cpuid(0x80000001, &a, &b, &c, &d))
        cpu.ext1_c = c;
    if (cpu.leaf1_c & bit_OSXSAVE)
        cpu.xcr0 = read_xcr0();
    return cpu;
}

static const struct {
    int level;
    const char *name;
    enum { LEAF1_C, LEAF7_B, EXT1_C } word;
    uint32_t bit;
} features[] = {
    {ATT_LEVEL_X86_64_V3, "AVX", LEAF1_C, bit_AVX},
    {ATT_LEVEL_X86_64_V3, "FMA", LEAF1_C, bit_FMA},
    {ATT_LEVEL_X86_64_V3, "F16C", LEAF1_C, bit_F16C},
    {ATT_LEVEL_X86_64_V3, "MOVBE", LEAF1_C, bit_MOVBE},
    {ATT_LEVEL_X86_64_V3, "AVX2", LEAF7_B, bit_AVX2},
    {ATT_LEVEL_X86_64_V3, "BMI1", LEAF7_B, bit_BMI},
    {ATT_LEVEL_X86_64_V3, "BMI2", LEAF7_B, bit_BMI2},
    {ATT_LEVEL_X86_64_V3, "LZCNT", EXT1_C, bit_LZCNT},
    {ATT_LEVEL_X86_64_V4, "AVX512F", LEAF7_B, bit_AVX512F},
    {ATT_LEVEL_X86_64_V4, "AVX512BW", LEAF7_B, bit_AVX512BW},
    {ATT_LEVEL_X86_64_V4, "AVX512CD", LEAF7_B, bit_AVX512CD},
    {ATT_LEVEL_X86_64_V4, "AVX512DQ", LEAF7_B, bit_AVX512DQ},
    {ATT_LEVEL_X86_64_V4, "AVX512VL", LEAF7_B, bit_AVX512VL},
};

// NULL when nothing is missing.
static const char *missing_for(int level) {
    enum { SAVES_YMM = 0x06, SAVES_ZMM = 0xE6 };
    if (level != ATT_LEVEL_X86_64_V3 && level != ATT_LEVEL_X86_64_V4)
        return "another processor";
    Cpu cpu = read_cpu();
    for (size_t i = 0; i < sizeof features / sizeof *features; i++) {
        uint32_t word = features[i].word == LEAF1_C   ? cpu.leaf1_c
                        : features[i].word == LEAF7_B ? cpu.leaf7_b
                                                      : cpu.ext1_c;
        if (features[i].level <= level && !(word & features[i].bit))
            return features[i].name;
    }
    uint64_t saves = level == ATT_LEVEL_X86_64_V4 ? SAVES_ZMM : SAVES_YMM;
    return (cpu.xcr0 & saves) == saves ? NULL : "an operating system that keeps wide registers";
}

#else

static const char *missing_for(int level) {
#if defined(__aarch64__)
    if (level == ATT_LEVEL_AARCH64)
        return NULL;
#endif
    (void)level;
    return "another processor";
}

#endif

// false: ATTC_LEVEL forbids the level. Only x86-64 has levels to choose from.
static bool cap_allows(int level) {
    const char *cap = getenv("ATTC_LEVEL");
    return !(cap && strcmp(cap, "v3") == 0 && level == ATT_LEVEL_X86_64_V4);
}

int att_level_runs(int level, const char **missing) {
    const char *what = cap_allows(level) ? missing_for(level) : "leave by ATTC_LEVEL";
    if (missing)
        *missing = what;
    return what == NULL;
}

const char *att_level_name(int level) {
    static const char *const names[ATT_N_LEVELS] = {
        [ATT_LEVEL_X86_64_V3] = "x86-64-v3",
        [ATT_LEVEL_X86_64_V4] = "x86-64-v4",
        [ATT_LEVEL_AARCH64] = "aarch64",
    };
    return names[level];
}
