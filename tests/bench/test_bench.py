# SPDX-License-Identifier: Apache-2.0
"""The benchmark's own parts: its sources are right, its counts of work are those of the compiler,
and its reports say what was measured. Nothing here needs a peer or takes time."""

import csv
import json
import math
import os
import re
import subprocess
import xml.etree.ElementTree as xml
from dataclasses import replace

import numpy as np
import pytest

from cases import GRADIENTS, HERE, aligned, choose, every_case
from chart import chart
from lengths import CORES, expected, lengths, report
from library import Library
from measure import Attc, Contender, Failed, Measurement, Settings, compare
from peers import PEERS, Timed, arrange
from report import HEADER, share, table, write_csv
from tuning import every_entry, geometric_mean, summary

ATTC = os.environ["ATTC"]
CASES = {case.name: case for case in every_case()}
ENTRIES = {case.entry: case for case in reversed(CASES.values())}


def attc(*words):
    return subprocess.run([ATTC, *words], capture_output=True, text=True, check=True).stdout


def extents(sizes):
    return ["-D", ",".join(f"{dim}={extent}" for dim, extent in sizes.items())]


def cost(case):
    options = ["--entry", case.entry, *extents(case.extents), "--json"]
    return json.loads(attc("cost", case.source, *options))


@pytest.mark.parametrize("entry", ENTRIES)
def test_sources_are_compiled_right(entry):
    case = ENTRIES[entry]
    small = {dim: min(extent, 37 if dim in "nm" else 13) for dim, extent in case.extents.items()}
    assert "ok" in attc("verify", case.source, "--entry", entry, *extents(small))


def test_every_core_is_measured():
    used = {case.source for case in CASES.values()}
    assert set((HERE / "cores").glob("*.attn")) <= used


@pytest.mark.parametrize("entry", ENTRIES)
def test_shapes_are_those_of_the_source(entry):
    case = ENTRIES[entry]
    given = [b for b in cost(case)["buffers"] if b["placement"] in ("input", "parameter")]
    shapes = {b["name"]: tuple(case.extents[dim] for dim in b["dims"]) for b in given}
    assert shapes == case.shapes


# The compiler's count has no masks, and adds up dynamic projections in another order.
PLAIN = [name for name, case in CASES.items() if not case.causal and "dynamic" not in name]


@pytest.mark.parametrize("name", PLAIN)
def test_useful_work_is_that_of_the_cheapest_order(name):
    assert CASES[name].flops == 2 * cost(CASES[name])["multiplies"]


def test_causal_work_is_what_is_seen():
    n = 2048
    whole, masked = CASES["th-12x64-2048"], CASES["causal-th-12x64-2048"]
    assert masked.flops * 2 * n == whole.flops * (n + 1)


def test_library_equals_numpy(tmp_path):
    case = CASES["bilinear-12x768-512"]
    sizes = dict(n=5, m=7, h=3, d=16)
    small = type(case)(
        name="small", family="bilinear", source=case.source, entry=case.entry, extents=sizes,
        shapes=dict(Q=(5, 3, 16), M=(7, 16)), flops=1.0,
    )  # fmt: skip
    inputs = small.inputs()
    L = np.einsum("nhd,md->nhm", inputs["Q"], inputs["M"]) / 4
    W = np.exp(L - L.max(-1, keepdims=True))
    expected = np.einsum("nhm,md->nhd", W / W.sum(-1, keepdims=True), inputs["M"])
    for dynamic in ((), ("n", "m")):
        library = Library(ATTC, small, 2, tmp_path, dynamic)
        assert len(library.dynamic_extents(small.extents)) == len(dynamic)
        function = library.prepare("results", dict(inputs))
        assert function.workspace_bytes() > 0
        compare(function(), dict(O=expected))
        library.close()


def test_one_library_runs_other_lengths(tmp_path):
    library = Library(ATTC, replace(CORES["causal-th"](40), name="one"), 1, tmp_path, ("n", "m"))
    for n in (1, 33):
        other = CORES["causal-th"](n)
        alone = Library(ATTC, other, 1, tmp_path)
        given = library.prepare("results", other.inputs(), other.extents)
        compare(given(), alone.prepare("results", other.inputs())())
        alone.close()
    library.close()


def test_lengths_are_judged_by_their_neighbours():
    chosen = lengths(48, 1500, 50)
    assert len(chosen) == 50 and (chosen[0], chosen[-1]) == (48, 1500)
    seconds = {n: 1e-6 * n**2 for n in chosen}
    wanted = expected(chosen, seconds)
    assert list(wanted) == chosen[1:-1]
    assert all(wanted[n] == pytest.approx(seconds[n]) for n in wanted)
    slow, fast = chosen[20], chosen[30]
    first, *others = report("th", seconds | {slow: 1.12 * seconds[slow]}, wanted)
    assert "47 of 48 lengths within 10%" in first and f"slowest {slow}: +12.0%" in first
    assert others == [f"    {slow}: {1.12e3 * seconds[slow]:.3f} ms, +12.0%"]
    _, line = report("th", seconds | {fast: 0.8 * seconds[fast]}, wanted)
    assert line.endswith("-20.0%")


def test_comparison_sees_an_error():
    mine = np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 3, 4)
    compare(dict(Y=mine, Z=mine), dict(Y=mine.reshape(6, 4) + 1e-5))
    for wrong in (mine + 1e-2, mine * np.nan):
        with pytest.raises(Failed, match="another Y than attc"):
            compare(dict(Y=mine), dict(Y=wrong))


def test_library_gives_gradients(tmp_path):
    case = small_multi_head()
    settings = Settings(ATTC, "", "", 1, [], [], 4, 9, 1e9, dynamic=[], gradients=True)
    attc = Attc(case, settings, tmp_path)
    for part in GRADIENTS:
        assert attc.enter(part).name == "attc"
    Q, K, V = (case.inputs()[name].astype(float) for name in "QKV")
    W = np.exp(np.einsum("nhd,mhd->nhm", Q, K) / 2)
    W /= W.sum(-1, keepdims=True)
    dW = np.einsum("nhd,mhd->nhm", attc.cotangent, V)
    dL = W * (dW - (dW * W).sum(-1, keepdims=True)) / 2
    expected = dict(result=np.einsum("nhm,mhd->nhd", W, V))
    expected["dQ"] = np.einsum("nhm,mhd->nhd", dL, K)
    expected["dK"] = np.einsum("nhm,nhd->mhd", dL, Q)
    expected["dV"] = np.einsum("nhm,nhd->mhd", W, attc.cotangent)
    compare(attc.expected(), expected)
    attc.library.close()


def small_multi_head():
    like = CASES["mh-12x64-512"]
    return type(like)(
        name="small", family="multi_head", source=like.source, entry=like.entry,
        extents=dict(n=5, m=7, h=3, d=4, e=4),
        shapes=dict(Q=(5, 3, 4), K=(7, 3, 4), V=(7, 3, 4)), flops=1.0,
    )  # fmt: skip


def test_work_of_gradients():
    core, layer = CASES["th-12x64-512"], CASES["layer-th-12x64-512"]
    assert core.work("forward") == core.flops and core.work("both") == 3.5 * core.flops
    assert layer.flops - layer.projected == core.flops
    assert layer.work("backward") == 2 * layer.projected + 2.5 * core.flops


def test_inputs_are_aligned_and_the_same_every_time():
    first, second = (CASES["decode-th-12x64-4096"].inputs() for _ in range(2))
    for name, array in first.items():
        assert array.ctypes.data % 64 == 0
        assert np.array_equal(array, second[name])


def test_layers_are_arranged_for_one_product():
    d, k, h = 6, 2, 3
    P = aligned(np.arange(d * k * h).reshape(d, k, h))
    X = aligned(np.ones((4, d)))
    t = arrange("multi_head_layer", dict(X=X, M=X, P_q=P, P_k=P, P_v=P, P_o=P))
    heads = (X @ t["P_q"]).reshape(4, h, k)
    assert np.array_equal(heads, np.einsum("nd,dkh->nhk", X, P))
    assert np.array_equal(heads.reshape(4, -1) @ t["P_o"], np.einsum("nhk,dkh->nd", heads, P))


def test_unknown_cases_are_named():
    with pytest.raises(ValueError, match="no case is called th-13"):
        choose(["th-12*", "th-13*"], quick=False)
    assert [case.name for case in choose(["th-12x64-512", "decode-*"], quick=False)] == [
        "th-12x64-512", "decode-mh-12x64-4096", "decode-th-12x64-4096",
    ]  # fmt: skip
    assert 0 < len(choose([], quick=True)) < len(choose([], quick=False)) < len(CASES)
    trained = choose(["all"], quick=False, gradients=True)
    assert 0 < len(choose([], quick=False, gradients=True)) < len(trained) < len(CASES)


# ---- reports -------------------------------------------------------------------------------------
def results():
    def times(seconds, waited=0.0):
        return dict(seconds=seconds, best=seconds, rounds=3, waited=waited)

    return [
        dict(
            case="th <&>", part="both", threads=2, flops=2e9, peak_gflops=400.0, failed=["fold"],
            times=dict(attc=times(0.01), sdpa=times(0.025, 0.2)), notes=dict(fold="failed: <x>"),
        )
    ]  # fmt: skip


def test_table():
    text = table(results(), ["attc", "sdpa", "fold", "jax"]).splitlines()
    assert text[0].split() == ["case", "threads", "attc", "ms", "of", "peak", "sdpa", "fold"]
    assert text[1].startswith("th <&> both ")
    assert text[1].split()[-5:] == ["10.00", "50%", "25.00", "(2.50x)", "[1]"]
    assert text[2] == "[1] fold: failed: <x>"
    assert text[3].startswith("The machine was busy: in 1 of 2 ")


def test_csv_and_chart(tmp_path):
    write_csv(results(), tmp_path / "bench.csv")
    with open(tmp_path / "bench.csv") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == HEADER
    assert [row["contender"] for row in rows] == ["attc", "sdpa", "fold"]
    assert float(rows[1]["ratio_to_attc"]) == 2.5 and rows[2]["note"] == "failed: <x>"
    assert share(results()[0], "fold") is None
    root = xml.fromstring(chart(results(), ["attc", *(peer.name for peer in PEERS)]))
    titles = [node.text for node in root.iter("{http://www.w3.org/2000/svg}title")]
    assert "sdpa: 25.00 ms, 20% of the peak" in titles


# ---- measuring -----------------------------------------------------------------------------------
class SteadyPeak:
    def gflops(self, clock):
        return 100.0


def test_rounds_alternate_and_failures_are_noted(tmp_path):
    case = CASES["projection-512x768x768"]
    settings = Settings(ATTC, "", "", 1, [], [], rounds=4, limit=9, budget=1e9, dynamic=[])
    found = Measurement(case, settings, SteadyPeak())
    turns = []

    def enter(name, once):
        return lambda: Contender(name, Timed(lambda: turns.append(name)), once)

    def broken():
        raise RuntimeError("no such thing\nat all")

    found.attempt("attc", enter("attc", 1.0))
    found.attempt("eager", broken)
    found.attempt("jax", enter("jax", 1.0))
    found.rounds()
    assert turns == ["attc", "jax"] * 4
    result = found.result()
    assert result["times"]["jax"]["rounds"] == 4 and result["peak_gflops"] == 100.0
    assert result["notes"] == dict(eager="failed: no such thing") and result["failed"] == ["eager"]


def test_slow_contenders_take_fewer_turns_spread_over_the_rounds():
    settings = Settings(ATTC, "", "", 1, [], [], rounds=6, limit=9, budget=20.0, dynamic=[])
    found = Measurement(CASES["mh-12x64-128"], settings, SteadyPeak())
    turns = []
    for name, once in (("attc", 0.1), ("jax", 3.5), ("numpy", 1.0)):
        timed = Timed(lambda name=name: turns.append(name))
        found.contenders.append(Contender(name, timed, once))
    found.rounds()
    assert turns.count("attc") == turns.count("numpy") == 6 and turns.count("jax") == 1


def test_what_comes_before_a_run_is_not_timed():
    clock = iter(range(100))
    timed = Timed(lambda: next(clock), before=lambda: [next(clock) for _ in range(5)])
    contender = Contender("jax", timed, 1.0)
    contender.turn(clock=lambda: next(clock))
    assert contender.seconds == [2]  # a tick of the run, and one of the clock


def test_every_peer_states_what_it_needs():
    case = CASES["th-12x64-8192"]
    fold = next(peer for peer in PEERS if peer.name == "fold")
    eager = next(peer for peer in PEERS if peer.name == "eager")
    assert fold.flops(case) > 10 * case.flops == 10 * eager.flops(case)
    assert eager.bytes(case) > 12 * 8192**2 * 4 and fold.bytes(case) == 0


@pytest.mark.parametrize("entry", every_entry(), ids=lambda entry: entry.name)
def test_sources_of_tuning_compile(entry):
    options = ["--entry", entry.entry, *extents(entry.extents), "--space", "--json"]
    spaces = json.loads(attc("cost", entry.source, *options))["spaces"]
    assert sum(len(space["schedules"]) for space in spaces) > 1


def found_of(name, seconds, medians, predicted=None, finals=()):
    """As attc tune tells of a kernel: the trial of each number has that median."""
    trials = [dict(schedule=dict(rows=i), default_blocks=True, median=median, ratio=median,
                   last=i in finals, predicted_seconds=predicted[i] if predicted else None)
              for i, median in enumerate(medians)]
    return dict(group=name, extents="1", default_seconds=seconds, trials=trials)


def test_a_search_is_summed_up():
    found = dict(kernels=[found_of("a", 3.0, [0.5, 2.0, 0.4], finals=(0, 1)),
                          found_of("b", 1.0, [1.5], finals=(0,)), found_of("c", 0.1, [])],
                 programs=[])
    against_best, *ranks = summary([found])
    assert against_best == pytest.approx(4.1 / 2.6) and all(map(math.isnan, ranks))
    found["programs"] = [found_of("p", 4.1, [1.2, 0.8], finals=(0, 1))]
    assert summary([found])[0] == pytest.approx(4.1 / 2.6 / 0.8)
    up, half = [1, 2, 3, 4, 5, 6], [2, 1, 4, 3, 6, 5]
    found["kernels"] = [found_of("a", 3.0, up, up), found_of("b", 1.0, half, up),
                        found_of("c", 0.1, up[::-1], up)]
    other_blocks = dict(schedule=dict(rows=1, blocks=[2]), default_blocks=False, median=0.1,
                        ratio=0.1, last=False, predicted_seconds=9)
    found["kernels"][0]["trials"].append(other_blocks)
    _, mean, least, again, with_blocks = summary([found])
    swapped = 1 - 6 * 6 / (6 * 35)
    assert mean == pytest.approx((3 + swapped - 0.1) / 4.1) and least == pytest.approx(swapped)
    assert math.isnan(again)
    assert with_blocks == pytest.approx((3 * (1 - 6 * 42 / (7 * 48)) + swapped - 0.1) / 4.1)


def test_searches_judge_each_other():
    """What was the fastest of one by luck is as fast as the others say."""
    predicted = [1, 2, 3, 4, 5]
    lucky = found_of("a", 1.0, [0.5, 0.9, 1, 1.1, 1.2], predicted, finals=(0,))
    others = [found_of("a", 1.0, [0.9, 0.8, 1, 1.1, 1.2], predicted, finals=(1,)) for _ in "12"]
    searches = [dict(kernels=[kernel], programs=[]) for kernel in (lucky, *others)]
    against_best, mean, least, again, with_blocks = summary(searches)
    assert with_blocks == mean
    assert against_best == pytest.approx(1 / 0.85)  # of 0.9 by luck, and twice of 0.9 and 0.8
    assert mean == least == pytest.approx(0.9) and again == pytest.approx((0.9 + 0.9 + 1) / 3)


def test_means_of_speeds():
    assert geometric_mean([2.0, 0.5]) == pytest.approx(1)


