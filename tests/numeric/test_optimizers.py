# SPDX-License-Identifier: Apache-2.0
"""The optimizers of the prelude as entries: several steps against their formulas in NumPy.

tests/unit/optimizer_test.c has the updates in place, as training calls them.
"""

import numpy as np
import pytest

from attc import attc

STEPS, RATE, ROWS, COLUMNS = 4, 0.01, 6, 5


def sgd(W, g, states, step, momentum, weight_decay):
    m = momentum * states[0] + g + weight_decay * W
    return W - RATE * m, m


def adam(W, g, states, step, beta_1, beta_2, epsilon, weight_decay):
    g = g + weight_decay * W
    m = beta_1 * states[0] + (1 - beta_1) * g
    v = beta_2 * states[1] + (1 - beta_2) * g * g
    moved = m / (1 - beta_1**step) / (np.sqrt(v / (1 - beta_2**step)) + epsilon)
    return W - RATE * moved, m, v


def adamw(W, g, states, step, beta_1, beta_2, epsilon, weight_decay):
    return adam(W * (1 - RATE * weight_decay), g, states, step, beta_1, beta_2, epsilon, 0)


def adafactor(W, g, states, step, decay, epsilon_1, epsilon_2, threshold, weight_decay):
    row = states[0] + step**decay * ((g * g).mean(1) - states[0])
    column = states[1] + step**decay * ((g * g).mean(0) - states[1])
    estimate = np.outer(row, column) / max(row.mean(), epsilon_1)
    u = g / np.sqrt(np.maximum(estimate, epsilon_1**2))
    u /= max(1, np.sqrt((u * u).mean()) / threshold)
    rate = max(epsilon_2, np.sqrt((W * W).mean())) * min(RATE, step**-0.5)
    return W * (1 - RATE * weight_decay) - rate * u, row, column


# Formula, states, extents, settings.
CASES = {
    "sgd": (sgd, ["m[i]"], {"momentum": 0.9, "weight_decay": 0.1}),
    "adam": (adam, ["m[i]", "v[i]"],
             {"beta_1": 0.9, "beta_2": 0.99, "epsilon": 1e-8, "weight_decay": 0.1}),
    "adamw": (adamw, ["m[i]", "v[i]"],
              {"beta_1": 0.9, "beta_2": 0.99, "epsilon": 1e-8, "weight_decay": 0.1}),
    "adafactor": (adafactor, ["row[r]", "column[c]"],
                  {"beta_2_decay": -0.8, "epsilon_1": 1e-7, "epsilon_2": 1e-3, "threshold": 1,
                   "weight_decay": 0.1}),
}
SHAPES = {"i": (ROWS * COLUMNS,), "r": (ROWS,), "c": (COLUMNS,)}


@pytest.mark.parametrize("name", CASES)
def test_steps(name, tmp_path):
    formula, states, settings = CASES[name]
    source = tmp_path / "model.attn"
    source.write_text("dim c = 5\n\ndef F(X[n]):\n    return X\n")
    random = np.random.default_rng(5)
    shape = (ROWS, COLUMNS) if name == "adafactor" else (ROWS * COLUMNS,)
    names = [state.split("[")[0] for state in states]
    have = [random.normal(size=shape)] + [np.zeros(SHAPES[state[-2]]) for state in states]
    want = list(have)
    for step in range(1, STEPS + 1):
        gradient = random.normal(size=shape)
        told = {"W": have[0], "dW": gradient, **dict(zip(names, have[1:])), "step": step,
                "learning_rate": RATE, **settings}
        if name == "sgd":
            del told["step"]
        for key, value in told.items():
            np.save(tmp_path / f"{key}.npy", np.asarray(value, np.float32))
        results = ["result", *(f"{state}_1" for state in names)]
        attc("run", source, "--entry", name, *(f"{k}={tmp_path / k}.npy" for k in told),
             *(option for r in results for option in ("-o", f"{r}={tmp_path / r}.npy")))
        have = [np.load(tmp_path / f"{r}.npy") for r in results]
        want = formula(want[0], gradient, want[1:], step, *settings.values())
        for one, other in zip(have, want):
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6)


def test_an_optimizer_is_an_entry_that_is_asked_for(tmp_path):
    source = tmp_path / "own.attn"
    source.write_text(
        "def F(X[n]):\n    return 2 * X\n\n"
        "optimizer plain(W[i], dW[i], learning_rate[], factor[] = 3):\n"
        "    return W - factor * learning_rate * dW\n"
    )
    attc("verify", source, "--entry", "plain", "-D", "i=7")
    assert "plain" in attc("cost", source, "--entry", "plain", "-D", "i=7", "--json")[0]
    assert '"F"' in attc("cost", source, "-D", "n=7", "--json")[0]
    attc("check", source, "--entry", "adamw")
    assert "did you mean 'plain'?" in attc("run", source, "--entry", "plane", status=1)[1]
