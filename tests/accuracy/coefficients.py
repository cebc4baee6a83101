#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the polynomial coefficients of compiler/emit/vmath*.c (needs mpmath and SciPy).

Each is a minimax fit of the relative error of the whole function. Those used as double: Remez
exchange in 60 digits. Those used as float32: linear programming on a grid, rounded one by one from
the lowest degree on, with the others fitted again, so that the rounding is compensated.
"""

import struct

import numpy as np

from mpmath import (
    cos,
    erf,
    exp,
    expm1,
    inf,
    linspace,
    log,
    log1p,
    lu_solve,
    matrix,
    mp,
    mpf,
    pi,
    sin,
    sqrt,
    tanh,
)
from scipy.optimize import linprog

mp.dps = 60
GRID = 3000


def remez(target, weight, powers, low, high):
    """Coefficients c minimising max |weight(x) (target(x) - sum c_i x^powers_i)| on [low, high]."""
    count = len(powers) + 1
    points = [
        (low + high) / 2 - (high - low) / 2 * cos(pi * (2 * i + 1) / (2 * count))
        for i in range(count)
    ]
    grid = linspace(low, high, GRID)
    table = [(x, target(x), weight(x)) for x in grid]
    for _ in range(12):
        rows = matrix(count, count)
        right = matrix(count, 1)
        for i, x in enumerate(points):
            for j, power in enumerate(powers):
                rows[i, j] = weight(x) * x**power
            rows[i, count - 1] = (-1) ** i
            right[i] = weight(x) * target(x)
        solution = lu_solve(rows, right)
        coefficients = [solution[j] for j in range(len(powers))]
        errors = [
            w * (t - sum(c * x**p for c, p in zip(coefficients, powers))) for x, t, w in table
        ]
        # The largest error of every run of one sign.
        peaks, best = [], 0
        for i in range(1, GRID + 1):
            if i < GRID and (errors[i] > 0) == (errors[best] > 0):
                if abs(errors[i]) > abs(errors[best]):
                    best = i
            else:
                peaks.append(best)
                best = i
        while len(peaks) > count:
            peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
        if len(peaks) < count:
            break
        points = [grid[i] for i in peaks]
    return coefficients, max(abs(e) for e in errors)


def minimax(target, weight, powers, low, high):
    """The same by linear programming: slower to converge in digits, but happy with any weight."""
    grid = linspace(low, high, 600)
    weights = [abs(weight(x)) for x in grid]
    rows = np.array([[float(w * x**p) for p in powers] for x, w in zip(grid, weights)])
    values = np.array([float(w * target(x)) for x, w in zip(grid, weights)])
    scale, sizes = 2.0**27, np.abs(rows).max(axis=0)
    rows = rows / sizes
    # From a least squares fit on, so that the program deals with small numbers only.
    start = np.linalg.lstsq(rows, values, rcond=None)[0]
    rest = (values - rows @ start) * scale
    ones = np.ones((len(grid), 1))
    found = linprog(
        [0] * len(powers) + [1],
        A_ub=np.block([[rows, -ones], [-rows, -ones]]),
        b_ub=np.concatenate([rest, -rest]),
        bounds=[(None, None)] * (len(powers) + 1),
    )
    return [mpf(float(c)) for c in (start + found.x[:-1] / scale) / sizes], mpf(
        float(found.x[-1] / scale)
    )


def float32(x):
    return mpf(struct.unpack("f", struct.pack("f", float(x)))[0])


def fit(name, target, weight, powers, low, high, rounding):
    fixed = {}
    while len(fixed) < len(powers):
        free = [p for p in powers if p not in fixed]
        rest = lambda x: target(x) - sum(c * x**p for p, c in fixed.items())
        found, error = (minimax if rounding else remez)(rest, weight, free, low, high)
        if not fixed:
            first = error
        if rounding:
            fixed[free[0]] = rounding(found[0])
        else:
            fixed = dict(zip(free, found))
    worst = max(
        abs(weight(x) * (target(x) - sum(c * x**p for p, c in fixed.items())))
        for x in linspace(low, high, 999)
    )
    print(f"{name}: error 2^{float(log(first, 2)):.1f}, rounded 2^{float(log(worst, 2)):.1f}")
    for power in powers:
        print(f"    x^{power}: {float(fixed[power]).hex()}")


half_ln2 = log(mpf(2)) / 2


def exp_tail(x):  # (e^x - 1 - x) / x^2
    return (exp(x) - 1 - x) / x**2 if abs(x) > 1e-15 else mpf(1) / 2 + x / 6


def log_tail(x):  # (log(1+x) - x + x^2/2) / x^3
    return (log1p(x) - x + x**2 / 2) / x**3 if abs(x) > 1e-12 else mpf(1) / 3 - x / 4


def log_weight(x):
    return x**3 / log1p(x) if x else mpf(0)


def odd_tail(f, lead, third):  # (f(sqrt z) / sqrt z - lead) / z, of z
    return lambda z: (f(sqrt(z)) / sqrt(z) - lead) / z if z > 1e-20 else third


def odd_weight(f):
    return lambda z: z * sqrt(z) / f(sqrt(z)) if z > 1e-20 else mpf(0)


if __name__ == "__main__":
    fit(
        "exp: (e^x - 1 - x) / x^2",
        exp_tail,
        lambda x: x**2 / exp(x),
        range(5),
        -half_ln2 * 1.001,
        half_ln2 * 1.001,
        float32,
    )
    # AVX-512 cuts off up to 2^-24 of the fraction x: aim at a quarter of that above it.
    above = 1 + mpf(2) ** -26
    fit(
        "exp2: (2^x - 1) / x on 0 < x < 1, degree 5",
        lambda x: (mpf(2) ** (x * above) - 1) / x if abs(x) > 1e-15 else log(mpf(2)),
        lambda x: x / mpf(2) ** x,
        range(6),
        mpf(0),
        mpf(1),
        float32,
    )
    fit(
        "log: (log(1+x) - x + x^2/2) / x^3, degree 7",
        log_tail,
        log_weight,
        range(8),
        1 / sqrt(mpf(2)) - 1,
        sqrt(mpf(2)) - 1,
        float32,
    )
    fit(
        "tanh: (tanh(x) / x - 1) / x^2 of x^2 on x < 0.625, degree 4",
        odd_tail(tanh, 1, -mpf(1) / 3),
        odd_weight(tanh),
        range(5),
        mpf(0),
        mpf("0.625") ** 2,
        float32,
    )
    # erf at (k + t) / step. The step is chosen so that erf(1 / step) is nearly a float32: of all
    # from 1.86 to 1.89, the one with the least error; 3.95 has to be below 7.5 / step.
    step, slope = float32(1.893), 2 / sqrt(pi)
    fit(
        "erf of |x| < 0.5 / step: (erf(t / step) - t / step) / t, degree 5",
        lambda t: (erf(t / step) - t / step) / t if t else (slope - 1) / step,
        lambda t: t / erf(t / step) if t else step / slope,
        range(6),
        mpf(0),
        mpf("0.5"),
        float32,
    )
    for k in range(1, 8):
        fit(
            f"erf of |x| around {k} / step: erf((k + t) / step), degree 6",
            lambda t: erf((k + t) / step),
            lambda t: 1 / erf((k + t) / step),
            range(7),
            mpf("-0.5"),
            mpf("0.5"),
            float32,
        )
    quarter = pi / 4 * mpf("1.0001")
    fit(
        "sin: (sin(x) / x - 1) / x^2 of x^2",
        odd_tail(sin, 1, -mpf(1) / 6),
        odd_weight(sin),
        range(4),
        mpf(0),
        quarter**2,
        None,
    )
    fit(
        "cos: (cos(x) - 1) / x^2 of x^2",
        lambda z: (cos(sqrt(z)) - 1) / z if z > 1e-30 else -mpf(1) / 2,
        lambda z: z / cos(sqrt(z)),
        range(4),
        mpf(0),
        quarter**2,
        None,
    )
    # pow: 2^x on |x| <= 1/2, and log2(1+x) / x on the range of the mantissa.
    fit(
        "exp2 of pow: (2^x - 1) / x",
        lambda x: (mpf(2) ** x - 1) / x if abs(x) > 1e-15 else log(mpf(2)),
        lambda x: x / mpf(2) ** x,
        range(7),
        mpf("-0.5001"),
        mpf("0.5001"),
        None,
    )
    # log2((1+s)/(1-s)) / s of z = s^2
    most = (sqrt(mpf(2)) - 1) / (sqrt(mpf(2)) + 1)
    fit(
        "log2: log2((1+s)/(1-s)) / s of s^2",
        lambda z: log((1 + sqrt(z)) / (1 - sqrt(z)), 2) / sqrt(z) if z > 1e-30 else 2 / log(mpf(2)),
        lambda z: sqrt(z) / log((1 + sqrt(z)) / (1 - sqrt(z)), 2) if z > 1e-30 else log(mpf(2)) / 2,
        range(7),
        mpf(0),
        most**2 * mpf("1.001"),
        None,
    )
