# SPDX-License-Identifier: Apache-2.0
"""attc against its peers on the same inputs, alternating, in one run. Prints medians and ratios.

usage: peers.py ATTC [--threads 1,2] [--rounds 15] [CASE ...]
Peers are used when they can be imported: torch (2.13, CPU), jax, numpy. Every result is first
compared with attc's, so that no one is timed for something else. attc runs as a library built by
`attc build`, called through ctypes; peers run as their users would (torch.compile is left out).
"""

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent.parent
CHILD = "ATTC_PEERS_CHILD"  # set in the process that measures
SETTLE = 0.02  # seconds between two contenders


# ---- attc
# ----------------------------------------------------------------------------------------------
class Library:
    """A shared library of attc and its entry, called with NumPy arrays."""

    def __init__(self, attc, source, entry, threads, folder, extents):
        path = folder / f"{entry}.so"
        options = ["-D", ",".join(f"{k}={v}" for k, v in extents.items())]
        subprocess.run(
            [attc, "build", source, "--entry", entry, "--shared", *options, "-o", path], check=True
        )
        self.lib = ctypes.CDLL(str(path))
        self.lib.att_context_new.restype = ctypes.c_void_p
        self.lib.att_message.restype = ctypes.c_char_p
        self.call = getattr(self.lib, entry)
        manifest = getattr(self.lib, f"{entry}_manifest")
        manifest.restype = ctypes.c_char_p
        self.manifest = json.loads(manifest())
        self.context = ctypes.c_void_p(self.lib.att_context_new(threads))
        self.extents = {d["name"]: d["extent"] for d in self.manifest["dims"]}

    def prepare(self, inputs):
        """The entry as a function without arguments on these inputs, and its outputs by name."""
        tensors = [t for t in self.manifest["tensors"] if t["role"] in ("input", "output")]
        arrays = {}
        for tensor in tensors:
            shape = [self.extents[d] for d in tensor["dims"]]
            arrays[tensor["name"]] = (
                np.ascontiguousarray(inputs[tensor["name"]])
                if tensor["role"] == "input"
                else np.empty(shape, np.float32)
            )
        words = [0] + [arrays[t["name"]].ctypes.data for t in tensors] + [0, 0]
        words[0] = 8 * len(words)
        block = (ctypes.c_int64 * len(words))(*words)

        def run():
            if self.call(self.context, block):
                raise RuntimeError(self.lib.att_message(self.context).decode())

        return run, {t["name"]: arrays[t["name"]] for t in tensors if t["role"] == "output"}


# ---- cases: source, entry, extents, and the same for each peer
# ------------------------------------------------
def random_inputs(shapes):
    random = np.random.default_rng(0)
    return {
        name: (
            random.standard_normal(shape) * shape[0] ** -0.5
            if len(shape) > 2 or name[0] == "P"
            else random.standard_normal(shape)
        ).astype(np.float32)
        for name, shape in shapes.items()
    }


def projection(n, d, f):
    return dict(
        source=ROOT / "tests/bench/projection.attn",
        entry="Project",
        extents=dict(n=n, d=d, f=f),
        shapes=dict(X=(n, d), P=(d, f)),
        multiplies=n * d * f,
        result="Y",
        torch=lambda torch, t: t["X"] @ t["P"],
        numpy=lambda t: t["X"] @ t["P"],
        jax=lambda jnp, t: t["X"] @ t["P"],
    )


def attention_shapes(n, m, d, h, k, talking):
    shapes = dict(X=(n, d), M=(m, d), P_q=(d, k, h), P_k=(d, k, h), P_v=(d, k, h), P_o=(d, k, h))
    return shapes | (dict(P_l=(h, h), P_w=(h, h)) if talking else {})


def multi_head_torch(torch, t):
    n, d = t["X"].shape
    k, h = t["P_q"].shape[1:]
    split = lambda T, P: (T @ P.permute(0, 2, 1).reshape(d, h * k)).view(-1, h, k).transpose(0, 1)
    O = torch.nn.functional.scaled_dot_product_attention(
        split(t["X"], t["P_q"])[None],
        split(t["M"], t["P_k"])[None],
        split(t["M"], t["P_v"])[None],
        scale=1.0,
    )[0]
    return O.transpose(0, 1).reshape(n, h * k) @ t["P_o"].permute(2, 1, 0).reshape(h * k, d)


def talking_torch(torch, t):
    d = t["X"].shape[1]
    k, h = t["P_q"].shape[1:]
    split = lambda T, P: (T @ P.permute(0, 2, 1).reshape(d, h * k)).view(-1, h, k).transpose(0, 1)
    J = split(t["X"], t["P_q"]) @ split(t["M"], t["P_k"]).transpose(1, 2)
    mix = lambda P, T: (P.T @ T.reshape(h, -1)).view(h, *T.shape[1:])
    U = mix(t["P_w"], torch.softmax(mix(t["P_l"], J), dim=-1))
    O = U @ split(t["M"], t["P_v"])
    return O.transpose(0, 1).reshape(-1, h * k) @ t["P_o"].permute(2, 1, 0).reshape(h * k, d)


def attention_jax(jnp, t):
    import jax

    Q, K, V = (
        jnp.einsum("nd,dkh->hnk", t[x], t[p]) for x, p in (("X", "P_q"), ("M", "P_k"), ("M", "P_v"))
    )
    L = jnp.einsum("hnk,hmk->hnm", Q, K)
    if "P_l" in t:
        L = jnp.einsum("inm,ih->hnm", L, t["P_l"])
    W = jax.nn.softmax(L, axis=-1)
    if "P_w" in t:
        W = jnp.einsum("hnm,hj->jnm", W, t["P_w"])
    return jnp.einsum("hnm,hmk,ykh->ny", W, V, t["P_o"])


def attention(example, entry, h, k, talking, n=512, d=768):
    heads = dict(h_k=h, h=h, h_v=h) if talking else dict(h=h)
    layer = 2 * k * h * (2 * n * d + n * n) + (2 * n * n * h * h if talking else 0)
    return dict(
        source=ROOT / f"examples/{example}.attn",
        entry=entry,
        extents=dict(n=n, m=n, d_X=d, d_M=d, d_Y=d, d_k=k, d_v=k, **heads),
        shapes=attention_shapes(n, n, d, h, k, talking),
        multiplies=layer,
        result="Y",
        torch=talking_torch if talking else multi_head_torch,
        jax=attention_jax,
    )


CASES = {
    "projection-512-768-768": projection(512, 768, 768),
    "projection-512-768-3072": projection(512, 768, 3072),
    "projection-4096-768-768": projection(4096, 768, 768),
    "multi-head-12": attention("multi_head", "MultiHeadAttention", 12, 64, False),
    "talking-heads-12": attention("talking_heads", "TalkingHeadsAttention", 12, 64, True),
    "talking-heads-24": attention("talking_heads", "TalkingHeadsAttention", 24, 32, True),
}


# ---- measuring
# ------------------------------------------------------------------------------------------------
def contenders(case, inputs, library, threads):
    """name -> (function to time, function that gives the result as an array)."""
    run, outputs = library.prepare(inputs)
    found = {"attc": (run, lambda: outputs[case["result"]])}
    try:
        import torch

        torch.set_num_threads(threads)
        tensors = {k: torch.from_numpy(v) for k, v in inputs.items()}
        compute = lambda: case["torch"](torch, tensors)
        found["torch"] = compute, lambda: compute().numpy()
    except ImportError:
        pass
    try:
        import jax

        arrays = {k: jax.numpy.asarray(v) for k, v in inputs.items()}
        compiled = jax.jit(lambda t: case["jax"](jax.numpy, t))
        found["jax"] = (
            (lambda: compiled(arrays).block_until_ready()),
            lambda: np.asarray(compiled(arrays)),
        )
    except ImportError:
        pass
    if "numpy" in case:
        found["numpy"] = (lambda: case["numpy"](inputs)), lambda: case["numpy"](inputs)
    return found


def peak_gflops(attc, threads):
    figures = subprocess.run(
        [
            attc,
            "bench",
            ROOT / "tests/bench/projection.attn",
            "-D",
            "n=64,d=64,f=64",
            "--threads",
            str(threads),
            "--json",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(figures.stdout)["peak_gflops"]


def measure(name, case, attc, threads, rounds):
    inputs = random_inputs(case["shapes"])
    with tempfile.TemporaryDirectory() as folder:
        library = Library(
            attc, case["source"], case["entry"], threads, Path(folder), case["extents"]
        )
        found = contenders(case, inputs, library, threads)
        for run, _ in found.values():
            run()
        mine = found["attc"][1]().copy()
        for peer, (_, result) in found.items():
            error = np.abs(result() - mine).max() / np.abs(mine).max()
            assert error < 1e-4, f"{peer} computes something else: {error}"
        times = {peer: [] for peer in found}
        for _ in range(rounds):
            for peer, (run, _) in found.items():
                time.sleep(SETTLE)
                begun = time.perf_counter()
                run()
                times[peer].append(time.perf_counter() - begun)
    peak = peak_gflops(attc, threads)
    medians = {peer: statistics.median(values) for peer, values in times.items()}
    cells = [
        f"{peer} {1e3 * seconds:8.3f} ms ({2e-9 * case['multiplies'] / seconds:6.1f} GFLOP/s, "
        f"{medians[peer] / medians['attc']:.2f}x)"
        for peer, seconds in medians.items()
    ]
    print(
        f"{name:26} {threads} thread{'s' if threads > 1 else ' '}  {'  '.join(cells)}  "
        f"attc at {2e-9 * case['multiplies'] / medians['attc'] / peak:.0%} of {peak:.0f} GFLOP/s",
        flush=True,
    )


def run_child(args, threads):
    """Libraries take their number of threads from the environment and the affinity when they are
    loaded, so each number has a process of its own; nobody's threads may spin after their work."""
    env = dict(os.environ, OMP_WAIT_POLICY="PASSIVE", KMP_BLOCKTIME="0", **{CHILD: "1"})
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        env[variable] = str(threads)
    cores = sorted(os.sched_getaffinity(0))[:threads]
    command = [sys.executable, __file__, args.attc, *args.cases]
    subprocess.run(
        [*command, "--threads", str(threads), "--rounds", str(args.rounds)],
        env=env,
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
        check=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("attc")
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_intermixed_args()
    counts = [int(count) for count in args.threads.split(",")]
    if CHILD not in os.environ:
        for threads in counts:
            run_child(args, threads)
        return
    for name in args.cases or CASES:
        measure(name, CASES[name], args.attc, counts[0], args.rounds)


if __name__ == "__main__":
    main()
