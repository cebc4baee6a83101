# SPDX-License-Identifier: Apache-2.0
"""`attc run`, `verify` and `bench` on files."""

import json
import re

import numpy as np
import pytest

from attc import EXAMPLES, ROOT, attc, attc_json

SOURCE = """
def Scale(X[n, d], s[d]):
    Y[n, d] = X[n, d] * s[d] + 1
    Z[d] = sum(X[n, d], reduced_dim=n)
    return Y[n, d], Z[d]
"""


@pytest.fixture
def scale(tmp_path):
    (tmp_path / "scale.attn").write_text(SOURCE)
    X = np.arange(12, dtype=np.float32).reshape(3, 4)
    s = np.array([1, 2, 3, 4], np.float32)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "s.npy", s)
    return tmp_path, X, s


@pytest.mark.parametrize("how", [[], ["--oracle"], ["--interpret"]])
def test_run_writes_named_results(scale, how):
    folder, X, s = scale
    attc(
        "run",
        folder / "scale.attn",
        f"X={folder}/X.npy",
        f"s={folder}/s.npy",
        *how,
        "-o",
        f"Y={folder}/Y.npy",
        "-o",
        f"Z={folder}/Z.npy",
    )
    assert np.array_equal(np.load(folder / "Y.npy"), X * s + 1)
    assert np.array_equal(np.load(folder / "Z.npy"), X.sum(axis=0))


@pytest.mark.parametrize(
    "array",
    [
        lambda X: np.asfortranarray(X),
        lambda X: X.astype(np.float64),
        lambda X: X.astype(np.int32),
        lambda X: X.astype(">f4"),
        lambda X: X.astype(np.float16),
        lambda X: X.astype(np.uint8),
    ],
)
def test_other_forms_of_npy(scale, array):
    folder, X, s = scale
    np.save(folder / "X.npy", array(X))
    attc(
        "run",
        folder / "scale.attn",
        f"X={folder}/X.npy",
        f"s={folder}/s.npy",
        "-o",
        f"Y={folder}/Y.npy",
    )
    assert np.array_equal(np.load(folder / "Y.npy"), X * s + 1)


def test_result_on_standard_output(scale):
    folder, X, _ = scale
    import os
    import subprocess

    run = subprocess.run(
        [
            os.environ["ATTC"],
            "run",
            folder / "scale.attn",
            f"X={folder}/X.npy",
            f"s={folder}/s.npy",
            "-o",
            "Z=-",
        ],
        capture_output=True,
    )
    (folder / "out.npy").write_bytes(run.stdout)
    assert np.array_equal(np.load(folder / "out.npy"), X.sum(axis=0))


def test_shapes_that_disagree_are_named(scale):
    folder, _, _ = scale
    np.save(folder / "s.npy", np.ones(5, np.float32))
    _, err = attc("run", folder / "scale.attn", f"X={folder}/X.npy", f"s={folder}/s.npy", status=1)
    assert "d is 5" in err and "4" in err and "X.npy" in err


def test_wrong_rank(scale):
    folder, _, _ = scale
    np.save(folder / "s.npy", np.ones((4, 1), np.float32))
    _, err = attc("run", folder / "scale.attn", f"X={folder}/X.npy", f"s={folder}/s.npy", status=1)
    assert "s.npy has 2 dims, but s is s[d]\n" in err
    np.save(folder / "X.npy", np.ones(4, np.float32))
    _, err = attc("run", folder / "scale.attn", f"X={folder}/X.npy", status=1)
    assert "X.npy has 1 dim, but X is X[n, d]\n" in err


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"not an array at all" * 20, None])
def test_bad_files_are_refused(scale, content):
    folder, X, _ = scale
    if content is None:
        content = (folder / "X.npy").read_bytes()[:-3]
    (folder / "X.npy").write_bytes(content)
    _, err = attc("run", folder / "scale.attn", f"X={folder}/X.npy", f"s={folder}/s.npy", status=1)
    assert "X.npy" in err


@pytest.mark.parametrize("how", [[], ["--oracle"], ["--interpret"]], ids=str)
def test_files_without_elements(scale, how):
    folder, X, _ = scale
    np.save(folder / "none.npy", X[:0])
    attc("run", folder / "scale.attn", f"X={folder}/none.npy", "-o", f"Y={folder}/Y.npy", *how)
    assert np.load(folder / "Y.npy").shape == X[:0].shape


HELPER_LAST = """
def Attend(X[n, d]):
    Y = rms(X) + 1
    return Y

def Again(X[n, d]):
    return rms(X)

def rms(x[n, d]):
    return x / sqrt(mean(x ** 2, reduced_dim=d))
"""

LAST = "the entry is the last def of the file, unless --entry names one"


@pytest.mark.parametrize(
    "words, expected",
    [
        (["X={}/X.npy"], f"no argument X\n  hint: X is an argument of Attend, Again: {LAST}\n"),
        (["-o", "Y={}/Y.npy"], f"its results: result\n  hint: Y is a result of Attend: {LAST}\n"),
        (["Z={}/X.npy"], "rms has no argument Z\n  hint: its arguments: x\n"),
        (["--entry", "Attend", "x={}/X.npy"], "hint: did you mean X?\n"),
        (
            ["--entry", "Again", "-o", "Y={}/Y.npy"],
            "hint: Y is a result of Attend, not of the def that --entry names\n",
        ),
    ],
)
def test_names_that_another_def_has(scale, words, expected):
    folder, _, _ = scale
    (folder / "last.attn").write_text(HELPER_LAST)
    words = [word.format(folder) for word in words]
    _, err = attc("run", folder / "last.attn", *words, status=1)
    assert expected in err


def test_object_arrays_are_refused(scale):
    folder, _, _ = scale
    np.save(folder / "X.npy", np.array([[object()]], dtype=object), allow_pickle=True)
    _, err = attc("run", folder / "scale.attn", f"X={folder}/X.npy", f"s={folder}/s.npy", status=1)
    assert "X.npy" in err


def test_a_failed_run_keeps_the_old_result(scale):
    folder, _, _ = scale
    (folder / "Y.npy").write_bytes(b"precious")
    attc(
        "run",
        folder / "scale.attn",
        f"X={folder}/missing.npy",
        f"s={folder}/s.npy",
        "-o",
        f"Y={folder}/Y.npy",
        status=1,
    )
    assert (folder / "Y.npy").read_bytes() == b"precious"


def test_summary_without_output(scale):
    folder, _, _ = scale
    out, _ = attc("run", folder / "scale.attn", f"X={folder}/X.npy", f"s={folder}/s.npy")
    assert "Y[n, d]" in out and "(3, 4)" in out and "Z[d]" in out


def test_seed_decides_the_inputs(scale):
    folder, _, _ = scale
    results = []
    for seed in (1, 1, 2):
        attc(
            "run", folder / "scale.attn", "-D", "n=3,d=4", "--seed", seed, "-o", f"Y={folder}/Y.npy"
        )
        results.append(np.load(folder / "Y.npy"))
    assert np.array_equal(results[0], results[1]) and not np.array_equal(results[0], results[2])


def test_map_runs_the_entry_for_each_example(tmp_path):
    sizes = "n=5,m=4,d=6"
    X = np.random.default_rng(0).standard_normal((3, 5, 6)).astype(np.float32)
    M = np.random.default_rng(1).standard_normal((4, 6)).astype(np.float32)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "M.npy", M)
    source = EXAMPLES / "dot_product.attn"
    attc(
        "run",
        source,
        "--map",
        "b=X",
        "-D",
        sizes,
        f"X={tmp_path}/X.npy",
        f"M={tmp_path}/M.npy",
        "-o",
        f"{tmp_path}/Y.npy",
    )
    Y = np.load(tmp_path / "Y.npy")
    assert Y.shape == (3, 5, 6)
    for i in range(3):
        np.save(tmp_path / "one.npy", X[i])
        attc(
            "run",
            source,
            "-D",
            sizes,
            f"X={tmp_path}/one.npy",
            f"M={tmp_path}/M.npy",
            "-o",
            f"{tmp_path}/y.npy",
        )
        assert np.abs(np.load(tmp_path / "y.npy") - Y[i]).max() < 1e-5


def test_maps_nest_in_the_order_written(tmp_path):
    source = "def F(X[n], M[m]):\n    return X + 1, sum(X, reduced_dim=n) * M\n"
    (tmp_path / "f.attn").write_text(source)
    X = np.arange(6, dtype=np.float32).reshape(2, 3)
    M = np.arange(20, dtype=np.float32).reshape(4, 5)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "M.npy", M)
    shapes = {}
    for maps in (["c=M", "b=X"], ["b=X", "c=M"]):
        attc(
            "run",
            tmp_path / "f.attn",
            *(word for one in maps for word in ("--map", one)),
            f"X={tmp_path}/X.npy",
            f"M={tmp_path}/M.npy",
            "-o",
            f"result={tmp_path}/result.npy",
            "-o",
            f"result_1={tmp_path}/result_1.npy",
        )
        first, second = np.load(tmp_path / "result.npy"), np.load(tmp_path / "result_1.npy")
        shapes[maps[0]] = first.shape, second.shape
    assert shapes == {
        "c=M": ((4, 2, 3), (4, 2, 5)),
        "b=X": ((2, 4, 3), (2, 4, 5)),
    }
    assert np.array_equal(first, np.broadcast_to(X[:, None] + 1, (2, 4, 3)))
    assert np.array_equal(second, X.sum(axis=1)[:, None, None] * M)


def test_verify_fails_above_tolerance_only():
    out, _ = attc(
        "verify",
        EXAMPLES / "talking_heads.attn",
        "-D",
        "n=9,m=7,d_X=8,d_M=6,d_Y=5,h_k=2,h=3,h_v=4,d_k=4,d_v=3",
    )
    assert out.rstrip().endswith("ok")


def test_verify_reports_rows_and_draws():
    figures = attc_json("verify", EXAMPLES / "dot_product.attn", "-D", "n=40,m=33,d=48")
    assert figures["draws"] == 0
    (output,) = figures["outputs"]
    assert output["ok"] and output["not_judged"] == 0
    assert output["row"]["first"] % 48 == 0
    assert 0 < output["row"]["error"] <= output["row"]["limit"]


def test_verify_tells_of_what_is_no_number():
    source = "def F(X[n], Y[n]):\n    return where(index(n) < 3, X / 0, Y)\n"
    out, _ = attc("verify", "-", "-D", "n=16", stdin=source)
    assert "3 of 16 elements are NaN or infinite, as they have to be" in out
    assert "infinite" not in attc("verify", "-", "-D", "n=16", stdin=source.replace("3", "0"))[0]


OVERFLOWS = "def F(X[n]):\n    return exp(12 * f32(index(n)) + X)\n"


def test_verify_holds_nothing_to_an_overflow_and_the_rest_to_what_it_is():
    out, _ = attc("verify", "-", "-D", "n=16", stdin=OVERFLOWS)
    assert out.splitlines()[0].endswith("ok")
    assert "8 of 16 elements not judged: naive f32 overflows there" in out
    assert "inf" not in out.splitlines()[0]


def test_verify_of_overflows_alone_fails():
    source = OVERFLOWS.replace("+ X", "+ X + 100")
    out, _ = attc("verify", "-", "-D", "n=16", stdin=source, status=1)
    assert out.splitlines()[0].endswith("NOT JUDGED")
    assert "16 of 16 elements" in out


ROOTS = "def F(X[n]):\n    return sum(where(X > 0, sqrt(X), 0), reduced_dim=n)\n"


@pytest.mark.parametrize("first", [0, 2])
def test_verify_of_gradients_without_directions_fails(first, tmp_path):
    np.save(tmp_path / "x.npy", np.array([first, 1, 4], np.float32))
    words = ["verify", "-", "--grad", f"X={tmp_path / 'x.npy'}"]
    out, _ = attc(*words, stdin=ROOTS, status=0 if first else 1)
    lines = out.splitlines()
    assert lines[1].endswith("ok") and ("along random directions  error" in out)
    if first:
        assert lines[-1].endswith("ok")
    else:
        assert lines[-2].endswith("NOT JUDGED")
        assert lines[-1].strip().startswith("3 of 3 directions not judged: derivatives are NaN")
    told, _ = attc(*words, "--json", stdin=ROOTS, status=0 if first else 1)
    directions = json.loads(told)["directions"]
    assert directions["ok"] == bool(first)
    assert directions["oracle_judged"] == directions["compiled_judged"] == (3 if first else 0)


# Forward mode has nothing from what does not move, where the gradient is 0 times what is infinite.
def test_verify_of_gradients_fails_where_only_they_are_not_finite():
    source = "def F(X[n]):\n    return sqrt(X * X * f32(index(n)))\n"
    out, _ = attc("verify", "-", "--grad", "-D", "n=4", stdin=source, status=1)
    along = out.splitlines()[-2]
    assert "1 of 4 elements are NaN or infinite, as they have to be" in out
    assert "error inf of the oracle's gradients" in along and along.endswith("TOO LARGE")


def test_verify_of_gradients_that_overflow_is_along_no_direction():
    out, _ = attc("verify", "-", "--grad", "-D", "n=16", stdin=OVERFLOWS)
    assert "8 of 16 elements not judged: naive f32 overflows there" in out
    assert out.endswith("3 of 3 directions not judged of the compiled ones: "
                        "they are NaN or infinite there\n")


@pytest.mark.parametrize("seed", range(4))
def test_verify_of_whole_numbers_that_floats_are_cut_to(seed):
    values = "i64(exp(X) * 1e6), i32(3 * X), sum(i32(exp(X) * 100), reduced_dim=n), i64(f64(X) / 7)"
    source = f"def F(X[n]):\n    return {values}, argmax(X, reduced_dim=n)\n"
    out, _ = attc("verify", "-", "-D", "n=4096", "--seed", seed, stdin=source)
    lines = out.splitlines()
    assert all(line.endswith("ok") for line in lines) and len(lines) == 5
    assert "limit 0 " in lines[4] and "limit 0 " not in lines[0]


OUTER = "def F(X[n], Y[m]):\n    return X + Y\n"


def test_verify_says_what_a_large_oracle_takes():
    assert attc("verify", "-", "-D", "n=30,m=30", stdin=OUTER)[1] == ""
    _, err = attc("verify", "-", "-D", "n=3000,m=3000", stdin=OUTER)
    told = r"attc: the oracle takes about (\d+) s and ([\d.]+) (M|G)iB; at most (\d+) s, where .*\n"
    plain = re.fullmatch(told, err)
    assert plain and 300 < float(plain[2]) < 500 and int(plain[4]) > int(plain[1])
    _, err = attc("verify", "-", "--grad", "-D", "n=3000,m=3000", stdin=OUTER)
    grad = re.fullmatch(told, err)  # along directions as well
    assert grad and grad[3] == "M" and float(grad[2]) > float(plain[2])
    assert int(grad[1]) > int(plain[1]) and int(grad[4]) > int(plain[4])
    _, err = attc("run", "-", "--oracle", "-D", "n=4500,m=4500", stdin=OUTER)
    assert re.fullmatch(r"attc: the oracle takes about \d s and [\d.]+ MiB\n", err)


@pytest.mark.parametrize("command", [["verify"], ["run", "--oracle"]], ids=str)
def test_an_oracle_that_cannot_be_is_refused(command):
    extents = ["-D", "n=1000000,m=1000000000"]
    _, err = attc(*command, "-", *extents, stdin=OUTER, status=1)
    assert "not enough memory for the oracle: at these extents it needs" in err
    assert "TiB, and there is" in err and "-D m=N" in err


def test_bench_reports_what_the_contract_says():
    figures = attc_json("bench", EXAMPLES / "dot_product.attn", "-D", "n=64,m=64", "--threads", 1)
    for key in (
        "entry",
        "dims",
        "threads",
        "seconds",
        "gflops",
        "peak_gflops",
        "share_of_peak",
        "workspace_bytes",
        "kernels",
    ):
        assert key in figures
    assert figures["threads"] == 1 and 0 < figures["share_of_peak"] < 1.1
    assert figures["share_of_peak"] == pytest.approx(figures["gflops"] / figures["peak_gflops"])
    assert {"name", "seconds", "share"} <= set(figures["kernels"][0])


CORE = ROOT / "tests/bench/cores/multi_head.attn"


def test_bench_of_gradients_times_the_parts_and_both():
    words = [CORE, "-D", "n=256,m=256,h=2", "--threads", 1]
    both = attc_json("bench", *words, "--grad")
    parts = forward, backward, both = both["forward"], both["backward"], both
    assert both["forward_seconds"] == forward["seconds"]
    assert both["backward_seconds"] == backward["seconds"]
    assert both["threads"] == 1 and both["dims"]["n"] == 256 and both["kernels"]
    for part in parts:
        assert 0 < part["share_of_peak"] < 1.1 and part["workspace_bytes"] >= 0
        assert part["share_of_peak"] == pytest.approx(part["gflops"] / both["peak_gflops"])
        assert part["gflops"] == pytest.approx(2e-9 * part["multiplies"] / part["seconds"])
    assert forward["multiplies"] == attc_json("cost", *words)["multiplies"]
    assert both["multiplies"] == attc_json("cost", *words, "--grad")["multiplies"]
    assert forward["multiplies"] + backward["multiplies"] == both["multiplies"]
    # Logits are not saved: the backward part computes them again, of 64 multiplies each.
    assert forward["recomputed_multiplies"] == 0
    assert backward["recomputed_multiplies"] >= 256 * 256 * 2 * 64


def test_bench_counts_what_masks_leave():
    """Of causal attention half, in every call."""
    core = ROOT / "tests/bench/cores/multi_head_causal.attn"
    figures = attc_json("bench", core, "-D", "n=256,m=256,h=2", "--threads", 1, "--grad")
    assert figures["masked_multiplies"] == pytest.approx(
        figures["multiplies"] * (1 - 257 / 512), rel=0.01)
    for part in figures, figures["forward"], figures["backward"]:
        work = part["multiplies"] - part["masked_multiplies"]
        assert 0 < part["masked_multiplies"] < part["multiplies"] / 2
        assert part["gflops"] == pytest.approx(2e-9 * work / part["seconds"])
        fused = max(part["kernels"], key=lambda kernel: kernel["seconds"])
        assert 0 < fused["gflops"] < 1.1 * figures["peak_gflops"]


def test_bench_of_gradients_prints_a_table_for_each_call():
    out, _ = attc("bench", CORE, "-D", "n=64,m=64,h=2", "--threads", 1, "--grad", "--wrt", "Q")
    head, calls, *tables = out.split("\n\n")
    assert re.fullmatch(r"MultiHeadCore and its gradients with 1 thread: peak .*\)", head)
    names = ["forward", "backward", "both"]
    assert [line.split()[0] for line in calls.splitlines()] == ["call", *names]
    assert [table.splitlines()[0] for table in tables] == names


SCALAR = """
def Loss(X[n, d], param W[d]):
    return sum(X[n, d] * W[d], reduced_dim=(n, d))
"""


def test_bench_of_gradients_needs_no_cotangent_of_a_scalar():
    words = ["bench", "-", "-D", "n=64,d=8", "--grad", "--json"]
    assert json.loads(attc(*words, stdin=SCALAR)[0])["backward"]["seconds"] > 0


def test_cost_reports_what_the_contract_says():
    figures = attc_json("cost", EXAMPLES / "dot_product.attn", "-D", "n=64,m=64")
    assert {"entry", "parameters", "multiplies", "flops", "dims", "buffers", "kernels"} <= set(
        figures
    )
    assert {"name", "dims", "bytes", "placement"} <= set(figures["buffers"][0])
    assert figures["multiplies"] == 2 * 64 * 64 * 64
    assert json.dumps(figures["dims"], sort_keys=True) == '{"d": 64, "m": 64, "n": 64}'


LAYERS = """
dim layers = 3, again = 2, d = 8, f = 16

def Ffn(X[n, d]):
    param W_in[d, f], W_out[f, d]
    H[n, f] = relu(einsum(X[n, d], W_in[d, f]))
    return einsum(H[n, f], W_out[f, d] -> [n, d])

def Stack(X[n, d]):
    param mix[d, e]
    for i in layers:
        X = X + Ffn(X) as ffn
        Z[n, e] = einsum(X[n, d], mix[d, e])
        X = X + einsum(Z[n, e], mix[d, e] -> [n, d])
    for i in again shared:
        X = X + Ffn(X)
        X = X + Ffn(X)
    return X
"""


def test_kernels_and_buffers_of_loops_have_names_of_their_own():
    arguments = ["-", "-D", "n=64,e=4", "--json"]
    figures = json.loads(attc("cost", *arguments, stdin=LAYERS)[0])
    for table in ("kernels", "buffers"):
        names = [row["name"] for row in figures[table]]
        assert len(names) == len(set(names)), names
    names = " ".join(kernel["name"] for kernel in figures["kernels"])
    for name in ("i.0.ffn.H", "i.2.ffn.H", "i.1.X_1", "i_1.0.Ffn.H", "i_1.1.Ffn_1.H"):
        assert name in names
    timed = json.loads(attc("bench", *arguments, stdin=LAYERS)[0])
    assert [k["name"] for k in timed["kernels"]] == [k["name"] for k in figures["kernels"]]


def test_names_are_short_where_that_is_enough():
    figures = attc_json("cost", EXAMPLES / "encoder_block.attn", "-D", "b=1,n=64")
    names = {buffer["name"] for buffer in figures["buffers"]}
    assert {"Y", "B", "H", "Z"} <= names and not any("." in name for name in names - {"W"})


def test_cost_says_what_it_counts():
    out, _ = attc("cost", EXAMPLES / "dot_product.attn", "-D", "n=64,m=64")
    assert "multiplies  524288 in einsums (pointwise products count as flops alone)\n" in out


def test_cost_of_huge_extents_says_so():
    out, _ = attc(
        "cost", EXAMPLES / "dot_product.attn", "-D", "n=1000000000,m=1000000000,d=1000000"
    )
    assert "more than 9.2e18" in out


def test_sums_of_huge_figures_say_so():
    extents = ["-D", "n=1000000000,m=1000000000,d=8,h=2,d_k=4", "--plan", "unfused"]
    assert "too many" in attc("cost", EXAMPLES / "multi_head.attn", *extents)[0]
    assert attc_json("cost", EXAMPLES / "multi_head.attn", *extents)["workspace_bytes"] == -1


def test_long_chains_of_values_do_not_overflow_the_stack():
    source = "def F(X[n]):\n    for i in m:\n        X = X + i * X\n    return X\n"
    attc("emit", "-", "--stage=tile", "-D", "m=9000", stdin=source)


def test_an_oracle_without_memory_is_no_internal_error():
    source = "def F(X[n], Y[m]):\n    return sum(X * Y, reduced_dim=(n, m))\n"
    extents = ["-D", "n=1000000,m=100000000"]  # 800 TB for the product
    _, err = attc("run", "-", "--oracle", *extents, stdin=source, status=1)
    assert "not enough memory" in err


@pytest.mark.parametrize("seed", [810, 841, 887])  # naive evaluation is lucky
def test_an_f64_that_f32_was_computed_for_has_errors_of_f32(seed):
    source = "def F(X0[n]: f16):\n    Y[n]: f64 = f64(tanh(f32(X0) + f32(X0)))\n    return Y\n"
    attc("verify", "-", "-D", "n=8", "--seed", seed, stdin=source)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_sum_less_a_running_sum_is_judged_by_sums_in_the_other_order_too(seed):
    """Stick-breaking attention: naive sums that are added up alike cancel to the last digit."""
    source = ("def F(L[n, m]):\n    b = -softplus(L)\n"
              "    return exp(sum(b, reduced_dim=m) - cumsum(b, dim=m) + b + L)\n")
    attc("verify", "-", "-D", "n=64,m=64", "--seed", seed, stdin=source)


LIKE = """
dim m = 5
dim n like m
def F(X[n, d], M[m, d]):
    return einsum(X[n, d], M[m, d] -> [n, m])
"""


@pytest.mark.parametrize("dim", ["n", "m"])
@pytest.mark.parametrize("given", ["n=4", "m=4", "n=4,m=4"])
def test_dynamic_wins_over_the_default_of_the_file(tmp_path, dim, given):
    (tmp_path / "like.attn").write_text(LIKE)
    options = ["--dynamic", dim, "-D", "d=3", "-D", given]
    out, err = attc("run", tmp_path / "like.attn", *options)
    assert "result[n, m]" in out and "shape (4, 4)" in out and err == ""
    graph = attc("emit", tmp_path / "like.attn", "--stage=graph", *options)[0]
    assert "dim d = 3" in graph and "= 4" not in graph and "= 5" not in graph


def test_a_dynamic_dim_has_no_extent_of_its_own(tmp_path):
    (tmp_path / "like.attn").write_text(LIKE)
    _, err = attc("run", tmp_path / "like.attn", "--dynamic", "n", "-D", "d=3", status=1)
    assert "the extent of n is unknown: no file given has it; use -D n=N" in err
    _, err = attc("run", tmp_path / "like.attn", "--dynamic", "n", "-D", "n=4,m=5", status=1)
    assert "-D n=4 and -D m=5 disagree" in err
    np.save(tmp_path / "X.npy", np.ones((3, 2), np.float32))
    files = [f"X={tmp_path}/X.npy", "--dynamic", "n", "-D", "n=4"]
    _, err = attc("run", tmp_path / "like.attn", *files, status=1)
    assert "n is 3 in" in err and "but 4 in -D" in err


def test_subnormal_numbers_count_as_zero(tmp_path):
    source = "def F(X[n], s[n]):\n    return X * s\n"
    (tmp_path / "f.attn").write_text(source)
    np.save(tmp_path / "X.npy", np.array([1e-39, 2e-38, 1e-20], np.float32))
    np.save(tmp_path / "s.npy", np.array([1e30, 1e30, 1e-20], np.float32))
    files = [f"{name}={tmp_path}/{name}.npy" for name in "Xs"]
    attc("run", tmp_path / "f.attn", *files, "-o", tmp_path / "Y.npy")
    Y = np.load(tmp_path / "Y.npy")
    assert Y[0] == 0 and np.isclose(Y[1], 2e-8) and Y[2] == 0
