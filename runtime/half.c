// SPDX-License-Identifier: Apache-2.0
// 16-bit floats in integer arithmetic: the same on every machine, with or without conversion units.
//
// f16 is IEEE binary16 (5 exponent bits, bias 15, 10 fraction bits); bf16 is the upper half of an
// f32. Rounding is to nearest, ties to even. A NaN stays a NaN, made quiet, with the top of its
// payload.

#include <string.h>

#include "internal.h"

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float att_f16_to_f32(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
    uint32_t exponent = bits >> 10 & 0x1F, fraction = bits & 0x3FF;
    if (exponent == 0) { // zero and subnormals: a whole number of 2^-24
        float magnitude = (float)fraction * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    if (exponent == 0x1F)
        return float_of(sign | 0x7F800000 | fraction << 13 | (fraction ? 0x400000u : 0u));
    return float_of(sign | (exponent + 112) << 23 | fraction << 13);
}

uint16_t att_f32_to_f16(float value) {
    uint32_t bits = bits_of(value), magnitude = bits & 0x7FFFFFFF;
    uint32_t sign = bits >> 16 & 0x8000;
    if (magnitude > 0x7F800000)
        return (uint16_t)(sign | 0x7E00 | (magnitude >> 13 & 0x1FF));
    if (magnitude >= 0x477FF000) // 65520 and above round to infinity
        return (uint16_t)(sign | 0x7C00);
    if (magnitude >=
        0x38800000) { // 2^-14: normal; a carry out of the fraction is the next exponent
        uint32_t rounded = magnitude - (112u << 23);
        rounded += 0xFFF + (rounded >> 13 & 1);
        return (uint16_t)(sign | rounded >> 13);
    }
    if (magnitude < 0x33000000) // below 2^-25
        return (uint16_t)sign;
    // Subnormal: shift the fraction with its hidden bit to units of 2^-24.
    uint32_t shift = 126 - (magnitude >> 23);
    uint32_t fraction = (magnitude & 0x7FFFFF) | 0x800000;
    uint32_t whole = fraction >> shift, rest = fraction & ((1u << shift) - 1);
    uint32_t half = 1u << (shift - 1);
    whole += rest > half || (rest == half && (whole & 1));
    return (uint16_t)(sign | whole);
}

float att_bf16_to_f32(uint16_t bits) {
    bool is_nan = (bits & 0x7FFF) > 0x7F80;
    return float_of((uint32_t)bits << 16 | (is_nan ? 0x400000u : 0u));
}

uint16_t att_f32_to_bf16(float value) {
    uint32_t bits = bits_of(value);
    if ((bits & 0x7FFFFFFF) > 0x7F800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
