# SPDX-License-Identifier: Apache-2.0
"""Plans of fused attention on the command line: `--plan`, `--no-materialize`, `--threads`, and what
`attc cost` and `emit` tell of them."""

import json
import re

import numpy as np
import pytest

from attc import EXAMPLES, attc, attc_json

TALKING = EXAMPLES / "talking_heads.attn"
MULTI = EXAMPLES / "multi_head.attn"
SMALL = ["-D", "n=64,m=64,d_X=32,d_M=32,d_Y=32,h_k=4,h=4,h_v=4,d_k=16,d_v=16"]
PLANS = ["resident", "stream", "two-pass", "spill"]
# Without a streamed kernel: a single query has no pair of positions, logits that are put in order
# are stored, experts attend to nothing, and a recurrence has a state in place of pairs.
UNSTREAMED = {"one_query", "topk_attention", "mixture_of_experts", "expert_choice"}
UNSTREAMED |= {"deltanet", "gated_linear"}
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.attn"))
# Losses that stream their tables as well, which other plans fit.
WHOLE = {"albert", "bert", "fixed_heads_lm", "lm", "t5", "transformer"}

CUMULATIVE = """
dim d = 64, h = 4, k = 16
def Cumulative(X[n, d], M[m, d], param P_q[d, k, h], param P_k[d, k, h], param P_o[d, h]):
    Q[n, k, h] = einsum(X[n, d], P_q[d, k, h])
    K[m, k, h] = einsum(M[m, d], P_k[d, k, h])
    W[n, m, h] = softmax(einsum(Q[n, k, h], K[m, k, h]), reduced_dim=m)
    C[n, m, h] = cumsum(W[n, m, h], dim=m)
    return einsum(C[n, m, h], M[m, d], P_o[d, h] -> [n, d])
"""

# What the backward pass stores all the same: the encoder block returns its weights, a cotangent
# comes in for each of them.
STORED_BACKWARD = {"topk_attention", "expert_choice", "encoder_block"}

# Two softmaxes: plain weights, and weights whose heads are mixed.
BOTH = """
dim d = 256, h = 4, k = 16
def Both(X[n, d], M[m, d], param P_q[d, k, h], param P_k[d, k, h], param P_v[d, k, h],
         param P_o[d, k, h], param S_q[d, k, h], param S_k[d, k, h], param S_w[h, h_v],
         param S_v[d, k, h_v], param S_o[d, k, h_v]):
    A[n, m, h] = softmax(einsum(X, P_q, M, P_k -> [n, m, h]), reduced_dim=m)
    V[m, k, h] = einsum(M, P_v)
    O[n, k, h] = einsum(A, V)
    Y[n, d] = X + einsum(O, P_o)
    Q[n, k, h] = einsum(Y, S_q)
    K[m, k, h] = einsum(M, S_k)
    B[n, m, h] = softmax(einsum(Q, K), reduced_dim=m)
    U[n, m, h_v] = einsum(B, S_w)
    T[m, k, h_v] = einsum(M, S_v)
    R[n, k, h_v] = einsum(U, T)
    return Y + einsum(R, S_o -> [n, d])
"""
BOTH_SIZES = ["-D", "n=256,m=256,h_v=4"]


def diagnostics(*arguments, stdin=None):
    _, err = attc(*arguments, "-w", "--diagnostics=json", status=1, stdin=stdin)
    return [json.loads(line) for line in err.splitlines()]


def streamed(figures):
    return [kernel for kernel in figures["kernels"] if kernel["plan"]]


# ---- attc cost ----


def test_cost_tells_of_every_kernel():
    figures = attc_json("cost", TALKING, *SMALL)
    for kernel in figures["kernels"]:
        assert {"name", "kind", "plan", "dims", "multiplies", "flops"} <= set(kernel)
        assert kernel["scratch_bytes"] >= 0 and kernel["predicted_seconds"] > 0
        assert kernel["recompute"] >= 1 or kernel["plan"]
    (core,) = streamed(figures)
    assert core["plan"] in PLANS and core["kind"] == core["plan"] and core["name"] == "O"
    assert [kernel["plan"] for kernel in figures["kernels"] if kernel is not core] == [None] * 4


def test_operations_of_kernels_are_those_of_the_graph():
    """Slices and shifts, which move values, are none."""
    figures = attc_json("cost", EXAMPLES / "deltanet.attn", "-D", "n=64")
    assert sum(kernel["flops"] for kernel in figures["kernels"]) == figures["flops"]


def test_scratch_is_told_apart_from_buffers():
    figures = attc_json("cost", TALKING, *SMALL, "--plan", "resident")
    (core,) = streamed(figures)
    assert {buffer["placement"] for buffer in core["scratch"]} == {"scratch"}
    largest = max(core["scratch"], key=lambda buffer: buffer["bytes"])
    assert {"n", "m"} <= set(largest["dims"]) and largest["bytes"] <= core["scratch_bytes"]
    assert not any({"n", "m"} <= set(buffer["dims"]) for buffer in figures["buffers"])


def test_two_passes_compute_logits_again():
    sizes = dict(n=64, m=64, h=4, d=16)
    once, twice = (
        streamed(attc_json("cost", TALKING, *SMALL, "--plan", plan))[0]
        for plan in ("resident", "two-pass")
    )
    assert once["recompute"] == pytest.approx(1)
    nm, h, d = sizes["n"] * sizes["m"], sizes["h"], sizes["d"]
    needed = nm * (2 * h * d + 2 * h * h)
    assert once["multiplies"] == twice["multiplies"] == needed
    assert twice["recompute"] == pytest.approx(1 + nm * (h * d + h * h) / needed)


def test_parts_of_the_backward_pass_share_its_work():
    """A part of the queries for each thread: the products are not counted once a part, and two
    threads take half the time of one."""
    sizes = ["-D", "n=1024,m=1024,d_X=512,d_M=512,d_Y=512,h_k=8,h=8,h_v=8,d_k=64,d_v=64"]
    plan = ["--grad", "--plan", "resident:24"]
    one, two = (
        max(
            streamed(attc_json("cost", TALKING, *sizes, *plan, "--threads", threads)),
            key=lambda kernel: kernel["predicted_seconds"],
        )
        for threads in (1, 2)
    )
    assert [one["recompute"], two["recompute"]] == pytest.approx([1, 1], abs=0.01)
    assert 0.4 < two["predicted_seconds"] / one["predicted_seconds"] < 0.7


def test_threads_share_the_room_for_scratch(tmp_path):
    """Rows of logits over a vocabulary are kept, fewer of them where more threads keep some."""
    loss = tmp_path / "loss.attn"
    loss.write_text("""
def Loss(X[t, d], E[v, d], label[t]: i32):
    return mean(cross_entropy(einsum(X, E -> [t, v]), label[t]), reduced_dim=t)
""")
    for threads in (1, 2, 4):
        options = ["--grad", "-D", "t=4096,d=768,v=50257", "--threads", threads]
        kernels = streamed(attc_json("cost", loss, *options))
        largest = max(kernel["scratch_bytes"] for kernel in kernels)
        assert 6 << 20 < largest <= min(64, 128 / threads) * (1 << 20)


@pytest.mark.parametrize("heads, width, n, less", [(128, 16, 3072, True), (48, 32, 2048, False)])
def test_far_less_scratch_is_preferred_at_about_the_same_time(heads, width, n, less):
    """Where there is much of it: with 48 heads at 2048 positions there is not."""
    core = EXAMPLES.parent / "tests" / "bench" / "cores" / "talking_heads.attn"
    extents = f"n={n},m={n},h_k={heads},h={heads},h_v={heads},d={width},e={width}"
    sizes = ["-D", extents, "--threads", 1]
    (chosen,) = streamed(attc_json("cost", core, *sizes))
    (space,) = [space["schedules"] for space in attc_json("cost", core, *sizes, "--space")["spaces"]
                if space["schedules"][0]["schedule"]["kind"] == "stream"]
    for candidate in sorted(space, key=lambda candidate: candidate["predicted_seconds"]):
        plan = "{plan}:{rows}".format(**candidate["schedule"])
        (fastest,) = streamed(attc_json("cost", core, *sizes, "--plan", plan))
        if fastest["scratch_bytes"] <= 64 << 20:
            break
    assert chosen["predicted_seconds"] <= 1.02 * fastest["predicted_seconds"]
    assert (chosen["scratch_bytes"] <= 0.75 * fastest["scratch_bytes"]) == less


def axes_of(candidate):
    """Which dims the microkernel of a contraction runs along; (0, 0): the default ones."""
    return candidate["schedule"]["transposed"], candidate["schedule"]["contiguous_rows"]


@pytest.mark.parametrize("example", ["multi_head", "talking_heads"])
@pytest.mark.parametrize("n", [32, 128])
def test_defaults_of_contractions_are_about_the_fastest_predicted(example, n):
    """Also where sums over several dims, prologues or the order of weights make a difference. Other
    axes than the default ones are not taken for less than 4%."""
    options = ["-D", f"n={n},m=128", "--threads", 1, "--space", "--target", "x86-64-v4"]
    spaces = [space["schedules"] for space in
              attc_json("cost", EXAMPLES / f"{example}.attn", *options)["spaces"]
              if space["schedules"][0]["schedule"]["kind"] == "contract"]
    assert len(spaces) >= 4
    for default, *others in spaces:
        for other in others:
            alike = axes_of(other) == axes_of(default)
            assert default["predicted_seconds"] <= (
                other["predicted_seconds"] * (1.03 if alike else 1.04 * 1.03))
    assert any(any(axes_of(default)) for default, *_ in spaces)


@pytest.mark.parametrize("example", ["multi_head", "talking_heads"])
def test_other_axes_are_taken_for_a_gain_alone(example):
    options = ["-D", "n=1024,m=1024", "--threads", 1, "--space"]
    spaces = attc_json("cost", EXAMPLES / f"{example}.attn", *options)["spaces"]
    gains = []
    for space in spaces:
        default, *others = space["schedules"]
        if default["schedule"]["kind"] == "contract" and not any(axes_of(default)):
            gains += [default["predicted_seconds"] / other["predicted_seconds"]
                      for other in others if any(axes_of(other))]
    assert gains and max(gains) <= 1.04


def test_recompute_counts_sums_that_are_no_contraction_stages():
    sizes = "n=64,m=64,d_X=32,d_M=32,d_Y=32,h_k=4,h=4,h_v=4,d_k=16,d_v=16"
    source = EXAMPLES / "dynamic_projections.attn"
    figures = attc_json("cost", source, "-D", sizes, "--plan", "resident")
    assert [kernel["recompute"] for kernel in streamed(figures)] == [pytest.approx(1)]


@pytest.mark.parametrize("name", ["K", "A_key_with_a_name_that_is_longer_than_any_column"])
def test_columns_are_aligned(name):
    source = re.sub(r"\bK\b", name, TALKING.read_text())
    kernels, buffers = attc("cost", "-", *SMALL, stdin=source)[0].split("\n\n")[1:]
    rows = kernels.splitlines()
    assert len(rows) == 6 and len({len(row) for row in rows}) == 1
    assert rows[0].split() == "kernel kind over multiplies scratch recompute predicted".split()
    for row in rows[1:]:
        assert row[rows[0].index("over") - 1] == " " != row[rows[0].index("over")]
    rows = buffers.splitlines()
    for row in rows[1:]:
        assert row[rows[0].index("placement") - 1] == " " != row[rows[0].index("placement")]


def test_a_bench_of_run_time_extents_has_the_kernels_that_ran():
    """One kernel for each size may be compiled, one of them runs."""
    extents = [*SMALL, "--dynamic", "n", "--dynamic", "m", "--threads", "1"]
    for kernel in attc_json("bench", MULTI, *extents)["kernels"]:
        assert kernel["seconds"] > 0


# ---- attc emit ----


@pytest.mark.parametrize(
    "plan, line",
    [
        ("resident", r"  # plan: resident, \d+ rows?"),
        ("two-pass", r"  # plan: two-pass, \d+ rows?, pieces of \d+"),
        ("spill", r"  # plan: spill, \d+ rows?, pieces of \d+"),
    ],
)
def test_tile_programs_say_their_plan(plan, line):
    lines = attc("emit", TALKING, "--stage=tile", *SMALL, "--plan", plan)[0].splitlines()
    assert re.fullmatch(line, lines[lines.index("kernel O") + 1])
    assert sum("# plan:" in text for text in lines) == 1


def test_fused_groups_say_what_is_never_whole():
    out, _ = attc("emit", TALKING, "--stage=fused", *SMALL)
    assert re.search(r"# group \d: stream n over m; stores O; never whole: J, U and \d more\n", out)


# ---- --plan ----


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", sorted(set(NAMES) - UNSTREAMED - WHOLE))
def test_a_plan_is_forced_or_refused(name, plan):
    """Talking heads need a second pass, all others one."""
    source = EXAMPLES / f"{name}.attn"
    arguments = ["cost", source, "-w", "-D", "n=1024,m=1024,b=2", "--plan", plan]
    one_pass_is_enough = plan == "two-pass" and not mixes(name)
    if one_pass_is_enough or (plan == "stream" and mixes(name)):
        (error,) = diagnostics(*arguments)
        assert error["message"].startswith(f"plan {plan} does not fit")
        assert error["file"] == str(source)
        why = r"one pass over (m|n') is enough" if one_pass_is_enough else "mixed"
        assert re.search(why, error["message"])
    else:
        plans = {kernel["plan"] for kernel in streamed(attc_json(*arguments))}
        assert plans == {plan}


def mixes(name):
    after = {"dynamic_projections", "dynamic_weights_memory", "dynamic_weights_query"}
    after |= {"encoder_block", "talking_heads", "talking_heads_concise", "talking_heads_weights"}
    return name in after | {"bilinear_talking_heads", "factorised_output", "dynamic_logits_memory",
                            "dynamic_logits_query"}


def test_a_plan_that_does_not_fit_points_at_the_result_and_the_reason():
    (error,) = diagnostics("cost", TALKING, *SMALL, "--plan", "stream")
    lines = TALKING.read_text().splitlines()
    assert error["message"] == (
        "plan stream does not fit 'O': h is mixed after the softmax: one pass over m is not enough"
    )
    assert lines[error["line"] - 1].lstrip().startswith("O[n, d_v, h_v] =")
    (note,) = error["notes"]
    assert note["message"] == "'U' is computed here"
    assert lines[note["line"] - 1].lstrip().startswith("U[n, m, h_v] =")


@pytest.mark.parametrize(
    "line, reason",
    [
        ("return einsum(W ** 2, V -> [n, d])", "values over m need the result of a reduction"),
        ("O[n, d] = einsum(W, V)\n    return O, W", "values over m need the result of a reduction"),
        ("return einsum(W, V -> [n, d])", None),
    ],
)
def test_one_pass_is_not_enough_for_final_weights(line, reason):
    source = f"""
def Weights(Q[n, d], K[m, d], V[m, d]):
    W[n, m] = softmax(einsum(Q, K), reduced_dim=m)
    {line}
"""
    arguments = ["cost", "-", "-D", "n=256,m=256,d=64", "--plan", "stream"]
    if reason:
        assert reason in diagnostics(*arguments, stdin=source)[0]["message"]
    else:
        attc(*arguments, stdin=source)


def test_a_plan_is_applied_where_it_fits():
    arguments = ["cost", "-", *BOTH_SIZES, "--plan", "stream"]
    figures = json.loads(attc(*arguments, "--json", stdin=BOTH)[0])
    plain, mixed = streamed(figures)
    assert plain["plan"] == "stream" and "misfit" not in plain
    assert mixed["plan"] != "stream"
    assert mixed["misfit"] == (
        "plan stream does not fit: h is mixed after the softmax: one pass over m is not enough"
    )
    assert f"note: {mixed['name']} is {mixed['plan']}, plan stream does not fit" in attc(
        *arguments, stdin=BOTH
    )[0]


@pytest.mark.parametrize("plan", [*PLANS, "unfused"])
def test_nothing_to_plan_is_no_error(plan):
    source = "def Scale(X[n, d], s[d]):\n    return X * s\n"
    attc("cost", "-", "-D", "n=4,d=4", "--plan", plan, stdin=source)


@pytest.mark.parametrize("plan", ["resident", "two-pass", "spill", "unfused"])
def test_an_object_has_the_plan(tmp_path, plan):
    """`emit --stage=obj` follows --plan as `run` does."""
    default = attc("emit", TALKING, *SMALL, "--stage=tile", "--plan", "resident")[0]
    forced = attc("emit", TALKING, *SMALL, "--stage=tile", "--plan", plan)[0]
    assert (forced == default) == (plan == "resident")
    objects = [tmp_path / "default.o", tmp_path / "forced.o"]
    for path, options in zip(objects, (["--plan", "resident"], ["--plan", plan])):
        attc("emit", TALKING, *SMALL, "--stage=obj", *options, "-o", path)
    assert (objects[0].read_bytes() == objects[1].read_bytes()) == (plan == "resident")


# ---- --no-materialize ----


@pytest.mark.parametrize("name", NAMES)
def test_attention_is_not_stored_for_its_gradient(name):
    command = ["emit", EXAMPLES / f"{name}.attn", "--stage=fused", "-w", "--no-materialize"]
    attc(*command, "--grad", status=int(name in STORED_BACKWARD))


@pytest.mark.parametrize("extents", ["n=256,m=256,b=2", ""], ids=["constant", "run-time"])
@pytest.mark.parametrize("name", NAMES)
def test_attention_is_never_stored(name, extents):
    options = ["-D", extents] if extents else []
    source = EXAMPLES / f"{name}.attn"
    stores = name == "topk_attention"
    attc("emit", source, "--stage=fused", "-w", "--no-materialize", *options, status=int(stores))
    if name in UNSTREAMED:
        return
    unfused = diagnostics(
        "emit", source, "--stage=fused", "--no-materialize", "--plan", "unfused", *options
    )
    for error in unfused:
        pair = r"quadratic in [nm]'? and [nm]'?: plan unfused stores"
        assert re.search(pair, error["message"])
        assert error["file"] == str(source)


def test_every_stored_quadratic_value_is_named_with_place_and_size():
    errors = diagnostics("cost", TALKING, *SMALL, "--plan", "unfused", "--no-materialize")
    lines = TALKING.read_text().splitlines()
    for name, dims, error in zip("JLWU", ("h_k", "h", "h", "h_v"), errors, strict=True):
        assert error["message"] == (
            f"'{name}' would be stored, [n, m, {dims}] of 64.0 KiB, quadratic in n and m: "
            "plan unfused stores what one kernel hands to another"
        )
        assert lines[error["line"] - 1].lstrip().startswith(f"{name}[n, m, {dims}] =")
        assert error["hint"] == "leave out --plan unfused, or --no-materialize"


@pytest.mark.parametrize(
    "command",
    [
        ["cost"],
        ["verify"],
        ["run"],
        ["run", "--interpret"],
        ["bench"],
        ["build", "-o", "no.so"],
        ["emit", "--stage=fused"],
        ["emit", "--stage=tile"],
        ["emit", "--stage=llvm"],
        ["emit", "--stage=obj", "-o", "no.o"],
    ],
    ids=" ".join,
)
def test_every_command_refuses_quadratic_values(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    extents = ["-D", "n=32,m=64"]
    errors = diagnostics(*command, "-", *extents, "--no-materialize", stdin=CUMULATIVE)
    names = {re.match(r"('\w+'|this value)", error["message"])[0] for error in errors}
    assert "'C'" in names
    for error in errors:
        assert "cumsum cannot be streamed" in error["message"] and error["line"] in (6, 7)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "extents, reason",
    [
        ("n=7,m=512", "'n' has 7 positions, and 8 rows are the least that is streamed for"),
        ("n=8,m=9", "a streamed kernel is not worth it for"),
    ],
)
def test_small_values_are_stored(extents, reason):
    errors = diagnostics("cost", MULTI, "-D", extents, "--no-materialize")
    assert errors and all(reason in error["message"] for error in errors)


# Programs over queries X[n, d] and memory M[m, d]: what is done with L[n, m], and the reason.
REASONS = {
    "move": (
        "W[n, m] = shift(softmax(L, reduced_dim=m), m, 1)\n    return einsum(W, M -> [n, d])",
        "shift cannot be streamed",
    ),
    "reader": (
        "W[n, m] = softmax(L, reduced_dim=m)\n    A[n, p] = slice(W, m, 0, p)\n"
        "    B[p, d] = slice(M, m, 0, p)\n    return einsum(A, B -> [n, d])",
        "'A' reads it in another kernel",
    ),
    "around": (
        "W[n, m] = softmax(L, reduced_dim=m)\n    g[m] = max(W, reduced_dim=n)\n"
        "    return einsum(exp(W * g[m]), M -> [n, d])",
        "its kernel would need that before it ends",
    ),
    "pointwise": (
        "H[n, m] = tanh(sum(X, reduced_dim=d) + sum(M, reduced_dim=d)) + 0 * L\n"
        "    return einsum(softmax(cumsum(H, dim=m), reduced_dim=m), M -> [n, d])",
        "cumsum cannot be streamed",
    ),
}


@pytest.mark.parametrize("name", REASONS)
def test_reasons(name):
    body, reason = REASONS[name]
    source = f"""
def Reason(X[n, d], M[m, d], param P[d, e]):
    L[n, m] = einsum(einsum(X, P -> [n, e]), einsum(M, P -> [m, e]))
    {body}
"""
    extents = ["-D", "n=256,m=256,d=64,e=64,p=128"]
    errors = diagnostics("cost", "-", *extents, "--no-materialize", stdin=source)
    assert any(reason in error["message"] for error in errors)
    for error in errors:
        assert error["line"] > 2 and "quadratic in n and " in error["message"]


def test_what_needs_the_end_of_a_sweep_is_a_second_one(tmp_path):
    """Weights that are read again when all that a query attends to is known are computed again."""
    source = """
def Twice(X[n, d], M[m, d], param P[d, e]):
    W[n, m] = softmax(einsum(einsum(X, P -> [n, e]), einsum(M, P -> [m, e])), reduced_dim=m)
    O[n, d] = einsum(W, M)
    g[n] = sum(sigmoid(einsum(O, P -> [n, e])), reduced_dim=e)
    return einsum(exp(W * g[n]), M -> [n, d])
"""
    path = tmp_path / "twice.attn"
    path.write_text(source)
    attc("verify", path, "-D", "n=70,m=90,d=24,e=16", "--no-materialize")


def test_only_an_einsum_over_both_is_streamed():
    source = """
def Additive(X[n, d], M[m, d], param P_q[d, k], param P_k[d, k], param v[k]):
    H[n, m, k] = tanh(einsum(X, P_q -> [n, k]) + einsum(M, P_k -> [m, k]))
    W[n, m] = softmax(einsum(H, v), reduced_dim=m)
    return einsum(W, M -> [n, d])
"""
    extents = ["-D", "n=256,m=256,d=64,k=16"]
    for error in diagnostics("cost", "-", *extents, "--no-materialize", stdin=source):
        assert "only what begins with an einsum over both is streamed" in error["message"]


@pytest.mark.parametrize("option", [["--data", "X,M"], []], ids=["data", "nothing"])
def test_without_parameters_every_dim_counts_positions(option):
    source = "\n".join(
        [
            "def Projected(X[n, d], M[m, d], P[d, k], O[k, d]):",
            "    V[m, k] = einsum(M, P)",
            "    W[n, m] = softmax(einsum(X, M), reduced_dim=m)",
            "    A[n, k] = einsum(W, V)",
            "    return einsum(A, O -> [n, d])",
        ]
    )
    arguments = ["cost", "-", "-D", "n=256,m=256,d=64,k=64", "--no-materialize", *option]
    if option:
        attc(*arguments, stdin=source)
        return
    for error in diagnostics(*arguments, stdin=source):
        assert "mark what is learned with 'param'" in error["hint"]


@pytest.mark.parametrize("plan", [[], ["--plan", "unfused"]], ids=["fused", "unfused"])
def test_added_parameters_leave_positions_what_they_are(plan):
    source = """
dim d = 64, k = 64
def Positions(X[n, d], M[m, d], param p[n, d], param q[m, d], param P_q[d, k], param P_k[d, k]):
    Q[n, k] = einsum(X + p, P_q)
    K[m, k] = einsum(M + q, P_k)
    W[n, m] = softmax(einsum(Q, K), reduced_dim=m)
    return einsum(W, M -> [n, d])
"""
    arguments = ["cost", "-", "-D", "n=256,m=256", "--no-materialize", *plan]
    if plan:
        assert diagnostics(*arguments, stdin=source)
    else:
        attc(*arguments, stdin=source)


def test_results_are_stored_without_complaint():
    source = """
def Weights(X[n, d], M[m, d]):
    W[n, m] = softmax(einsum(X, M), reduced_dim=m)
    return einsum(W, M -> [n, d]), W
"""
    attc("cost", "-", "-D", "n=256,m=256,d=64", "--no-materialize", stdin=source)


# ---- --threads ----


def test_plans_know_the_threads():
    """Many threads want many tasks."""
    extents = ["-D", "n=512,m=512", "--target", "x86-64-v4", "--plan", "resident"]
    rows = []
    for threads in (1, 64):
        out, _ = attc("emit", TALKING, "--stage=tile", *extents, "--threads", threads)
        rows.append(int(re.search(r"# plan: resident, (\d+) rows?", out)[1]))
    assert rows[0] > rows[1]


def test_bits_do_not_depend_on_threads(tmp_path):
    results = []
    for threads in (1, 2, 64):
        arguments = ["-D", "n=96,m=80,d_X=64", "--threads", threads]
        attc("run", TALKING, *arguments, "-o", tmp_path / "Y.npy")
        results.append(np.load(tmp_path / "Y.npy"))
    assert all(np.array_equal(results[0], result) for result in results)


def test_a_parameter_along_the_memory_leaves_attention_fused():
    source = (
        "dim d = 16\n"
        "def F(Q[n, d], K[m, d], V[m, v], param E[m, r]):\n"
        "    L[n, m] = einsum(Q[n, d], K[m, d])\n"
        "    A[n, v] = einsum(softmax(L[n, m], reduced_dim=m), V[m, v])\n"
        "    R[r, v] = einsum(V[m, v], E[m, r])\n"
        "    return A, R\n"
    )
    out = attc("cost", "-", "-D", "n=512,m=512,v=64,r=16", stdin=source)[0]
    assert re.search(r"^A +(resident|stream) ", out, re.M)
    assert not re.search(r"\bn, m +\d.*workspace", out)


@pytest.mark.parametrize(
    "plan, told",
    [("resident:5", "resident, 5 rows"), ("two-pass:12:64", "two-pass, 12 rows, pieces of 64"),
     ("spill:1000:1", "spill, 64 rows, pieces of 32"), ("spill:3", "spill, 3 rows, pieces of ")],
)  # fmt: skip
def test_rows_and_piece_are_those_asked_for(plan, told):
    # The least piece is two vectors.
    emit = ["emit", TALKING, "-D", "n=64,m=256", "--stage=tile", "--target", "x86-64-v4"]
    tile = attc(*emit, "--plan", plan)[0]
    assert f"# plan: {told}" in tile
    attc("verify", TALKING, *SMALL, "--plan", plan)


@pytest.mark.parametrize("elem", ["bf16", "f16"])
def test_halves_are_streamed(elem):
    source = (
        "dim d = 64, h = 4\n"
        f"def F(Q[n, d, h]: {elem}, K[m, d, h]: {elem}, V[m, d, h]: {elem}):\n"
        "    L[n, m, h] = einsum(Q[n, d, h], K[m, d, h]) / 8\n"
        "    W[n, m, h] = softmax(L, reduced_dim=m)\n"
        "    return einsum(W[n, m, h], V[m, d, h] -> [n, d, h])\n"
    )
    extents = ["-D", "n=65,m=300"]
    attc("verify", "-", *extents, "--no-materialize", stdin=source)
    assert re.search(" (resident|spill) ", attc("cost", "-", *extents, stdin=source)[0])


def test_a_plan_without_a_kernel_to_take_it_is_no_mistake(tmp_path):
    source = tmp_path / "plain.attn"
    source.write_text("def F(X[n]):\n    return X * 2\n")
    attc("run", source, "--plan", "stream", "-D", "n=3", "--seed", "1")
