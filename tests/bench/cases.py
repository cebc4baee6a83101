# SPDX-License-Identifier: Apache-2.0
"""What is measured: sources, extents, inputs and useful work of every case.

Cores take queries, keys and values; layers begin with X and M and hold the projections. `flops`
counts useful work alone: two per multiply of the cheapest way to compute the result, of masked
positions only what is seen, nothing for the softmax. Peers that do more are not credited for it.
Gradients of a core count 2.5 times that, as is usual for attention whose weights are not stored
(Dao et al. 2022): four products and the logits once more. Those of projections count twice.
"""

import fnmatch
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent.parent / "examples"
RESULTS = ("results",)  # what is timed of a case: its results, or
GRADIENTS = ("forward", "backward", "both")  # these, see differentiable


@dataclass(frozen=True)
class Case:
    name: str
    family: str  # what peers have to compute, see peers.arrange
    source: Path
    entry: str
    extents: dict  # by name of the dim in the source
    shapes: dict  # of the inputs, in the source's order of dims
    flops: float
    causal: bool = False
    deviations: dict = field(default_factory=dict)  # of inputs that are not standard normal
    pairs: int = 0  # elements of one value over queries, memory and heads
    fold_flops: float = 0  # work of the fold of talking heads into wide heads
    projected: float = 0  # the part of flops that is not attention
    chosen: bool = False  # measured when no cases are named
    trained: bool = False  # likewise, with gradients

    @property
    def differentiable(self):
        """Do peers get every input as a tensor of its own?"""
        return self.family != "bilinear"

    def work(self, part):
        backward = 2.5 * (self.flops - self.projected) + 2 * self.projected
        return dict(backward=backward, both=self.flops + backward).get(part, self.flops)

    def inputs(self):
        """The same random inputs every time, aligned to 64 bytes."""
        random = np.random.default_rng(0)
        return {
            name: aligned(random.standard_normal(shape) * self.deviations.get(name, 1.0))
            for name, shape in self.shapes.items()
        }


def aligned(values):
    """A float32 copy at a multiple of 64 bytes, where no contender has to copy it again."""
    memory = np.empty(values.size + 16, np.float32)
    begin = -memory.ctypes.data % 64 // 4
    array = memory[begin : begin + values.size].reshape(values.shape)
    array[...] = values
    return array


def seen(n, m, causal):
    """Pairs of a query and a memory position that the mask leaves."""
    return n * (n + 1) // 2 if causal else n * m


# ---- cores ---------------------------------------------------------------------------------------
def multi_head(h, d, n, m=None, causal=False, **options):
    m = m or n
    kind = "causal-mh" if causal else "mh"
    return Case(
        name=f"{kind}-{h}x{d}-{n}",
        family="multi_head",
        source=HERE / f"cores/multi_head{'_causal' if causal else ''}.attn",
        entry="CausalMultiHeadCore" if causal else "MultiHeadCore",
        extents=dict(n=n, m=m, h=h, d=d, e=d),
        shapes=dict(Q=(n, h, d), K=(m, h, d), V=(m, h, d)),
        flops=4.0 * seen(n, m, causal) * h * d,
        causal=causal,
        pairs=n * m * h,
        **options,
    )


def talking_heads(heads, d, n, causal=False, **options):
    """heads: of keys, of the softmax, of values."""
    h_k, h, h_v = heads
    kind = "causal-th" if causal else "th"
    label = f"{h}" if h_k == h == h_v else f"{h_k}.{h}.{h_v}"
    pairs = seen(n, n, causal)
    return Case(
        name=f"{kind}-{label}x{d}-{n}",
        family="talking_heads",
        source=HERE / f"cores/talking_heads{'_causal' if causal else ''}.attn",
        entry="CausalTalkingHeadsCore" if causal else "TalkingHeadsCore",
        extents=dict(n=n, m=n, h_k=h_k, h=h, h_v=h_v, d=d, e=d),
        shapes=talking_shapes(heads, d, n, n),
        flops=2.0 * pairs * (h_k * d + h_k * h + h * h_v + h_v * d),
        fold_flops=2.0 * pairs * h * (h_k + h_v) * d,
        causal=causal,
        deviations=talking_deviations(heads, d),
        pairs=n * n * max(heads),
        **options,
    )


def talking_shapes(heads, d, n, m):
    h_k, h, h_v = heads
    return dict(Q=(n, h_k, d), K=(m, h_k, d), V=(m, h_v, d), P_l=(h_k, h), P_w=(h, h_v))


def talking_deviations(heads, d):
    return dict(Q=d**-0.5, P_l=heads[0] ** -0.5, P_w=heads[1] ** -0.5)


def dynamic_projections(h, d, n, **options):
    heads = (h, h, h)
    mixing = dict.fromkeys(("R_Xl", "R_Ml", "R_Xw", "R_Mw"), (n, h, h))
    order = ("Q", "K", "V", "P_l", "R_Xl", "R_Ml", "P_w", "R_Xw", "R_Mw")
    shapes = talking_shapes(heads, d, n, n) | mixing
    return Case(
        name=f"dynamic-{h}x{d}-{n}",
        family="dynamic_projections",
        source=HERE / "cores/dynamic_projections.attn",
        entry="DynamicProjectionsCore",
        extents=dict(n=n, m=n, h_k=h, h=h, h_v=h, d=d, e=d),
        shapes={name: shapes[name] for name in order},
        flops=dynamic_flops(h, d, n),
        deviations=talking_deviations(heads, d) | dict.fromkeys(mixing, h**-0.5),
        pairs=n * n * h,
        **options,
    )


def dynamic_flops(h, d, n):
    """The matrices of the queries are added to the static ones; those of the memory mix again."""
    return 4.0 * n * n * (h * d + 2 * h * h)


def bilinear(h, d, n, **options):
    return Case(
        name=f"bilinear-{h}x{d}-{n}",
        family="bilinear",
        source=HERE / "cores/bilinear.attn",
        entry="BilinearCore",
        extents=dict(n=n, m=n, h=h, d=d),
        shapes=dict(Q=(n, h, d), M=(n, d)),
        flops=4.0 * n * n * h * d,
        pairs=n * n * h,
        **options,
    )


def grouped(g, q, d, n, **options):
    return Case(
        name=f"grouped-{g}x{q}x{d}-{n}",
        family="grouped",
        source=HERE / "cores/grouped.attn",
        entry="GroupedCore",
        extents=dict(n=n, m=n, g=g, q=q, d=d, e=d),
        shapes=dict(Q=(n, g, q, d), K=(n, g, d), V=(n, g, d)),
        flops=4.0 * n * n * g * q * d,
        pairs=n * n * g * q,
        **options,
    )


def decode(h, d, m, talking=False, **options):
    shapes = talking_shapes((h, h, h), d, 1, m)
    if not talking:
        shapes = {name: shapes[name] for name in ("Q", "K", "V")}
    shapes["Q"] = (h, d)
    heads = dict(h_k=h, h=h, h_v=h) if talking else dict(h=h)
    return Case(
        name=f"decode-{'th' if talking else 'mh'}-{h}x{d}-{m}",
        family="decode_talking_heads" if talking else "decode",
        source=HERE / f"cores/decode{'_talking_heads' if talking else ''}.attn",
        entry="DecodeTalkingHeadsCore" if talking else "DecodeCore",
        extents=dict(m=m, d=d, e=d, **heads),
        shapes=shapes,
        flops=4.0 * m * h * (d + (h if talking else 0)),
        fold_flops=4.0 * m * h * h * d,
        deviations=talking_deviations((h, h, h), d) if talking else {},
        pairs=m * h,
        **options,
    )


# ---- whole layers and projections ----------------------------------------------------------------
LAYERS = {
    "mh": ("multi_head", "MultiHeadAttention"),
    "th": ("talking_heads", "TalkingHeadsAttention"),
    "dynamic": ("dynamic_projections", "TalkingHeadsAttentionWithDynamicProjections"),
}
GENERATED = ("P_Xl", "P_Ml", "P_Xw", "P_Mw")


def layer(kind, h, k, n, d=768, **options):
    example, entry = LAYERS[kind]
    shapes = dict(X=(n, d), M=(n, d)) | dict.fromkeys(("P_q", "P_k", "P_v", "P_o"), (d, k, h))
    wide = (d * k**0.5) ** -0.5  # keeps logits of order one
    deviations = dict(P_q=wide, P_k=wide, P_v=d**-0.5, P_o=(k * h) ** -0.5)
    flops = projected = 8.0 * n * d * k * h
    heads = dict(h=h)
    if kind == "mh":
        flops += 4.0 * n * n * h * k
    else:
        heads = dict(h_k=h, h=h, h_v=h)
        shapes |= dict(P_l=(h, h), P_w=(h, h))
        deviations |= dict(P_l=h**-0.5, P_w=h**-0.5)
    if kind == "th":
        flops += 4.0 * n * n * h * (k + h)
    if kind == "dynamic":
        shapes |= dict.fromkeys(GENERATED, (d, h, h))
        deviations |= dict.fromkeys(GENERATED, (d * h) ** -0.5)
        projected += 8.0 * n * d * h * h
        flops = projected + dynamic_flops(h, k, n)
    return Case(
        name=f"layer-{kind}-{h}x{k}-{n}",
        family=f"{example}_layer",
        source=EXAMPLES / f"{example}.attn",
        entry=entry,
        extents=dict(n=n, m=n, d_X=d, d_M=d, d_Y=d, d_k=k, d_v=k, **heads),
        shapes=shapes,
        flops=flops,
        deviations=deviations,
        pairs=n * n * h,
        fold_flops=8.0 * n * d * k * h + 4.0 * n * n * h * h * k,
        projected=projected,
        **options,
    )


def projection(n, d, f, **options):
    return Case(
        name=f"projection-{n}x{d}x{f}",
        family="projection",
        source=HERE / "projection.attn",
        entry="Project",
        extents=dict(n=n, d=d, f=f),
        shapes=dict(X=(n, d), P=(d, f)),
        deviations=dict(P=d**-0.5),
        flops=2.0 * n * d * f,
        projected=2.0 * n * d * f,
        **options,
    )


def equal(h):
    return h, h, h


def every_case():
    """In the order of the table; `chosen` are the ones of a plain run, in about a quarter hour."""
    for n in (128, 512, 2048, 8192):
        yield multi_head(12, 64, n, chosen=n != 128, trained=n in (512, 2048))
    for heads, d in ((equal(12), 64), (equal(16), 64), (equal(24), 32), ((6, 24, 6), 128)):
        for n in (512, 2048, 8192):
            square = heads == equal(12)
            yield talking_heads(
                heads, d, n, chosen=n < 2048 or square, trained=square and n < 8192
            )
    for n in (512, 2048):
        yield multi_head(12, 64, n, causal=True, chosen=n == 2048, trained=True)
        yield talking_heads(equal(12), 64, n, causal=True, chosen=n == 2048, trained=True)
    yield bilinear(12, 768, 512, chosen=True)
    for n in (512, 2048):
        yield dynamic_projections(12, 64, n, trained=True)
    yield grouped(4, 3, 64, 512)
    yield grouped(4, 3, 64, 2048)
    yield decode(12, 64, 4096, chosen=True)
    yield decode(12, 64, 4096, talking=True, chosen=True)
    yield multi_head(48, 16, 512)
    yield talking_heads(equal(48), 16, 512, chosen=True)
    yield multi_head(768, 1, 512, chosen=True)
    for kind in LAYERS:
        for n in (512, 2048):
            chosen, trained = n == 512 or kind == "th", kind != "dynamic"
            yield layer(kind, 12, 64, n, chosen=chosen, trained=trained)
    yield layer("th", 24, 32, 512)
    for n, d, f in ((512, 768, 768), (512, 768, 3072), (4096, 768, 768)):
        yield projection(n, d, f, chosen=True)


def choose(patterns, quick, gradients=False):
    """Cases by name or pattern such as 'th-*'; ValueError names a pattern that fits none."""
    cases = [case for case in every_case() if case.differentiable or not gradients]
    if not patterns:
        usual = [case for case in cases if (case.trained if gradients else case.chosen)]
        return [case for case in usual if small(case) or not quick]
    for pattern in patterns:
        if pattern != "all" and not fnmatch.filter([case.name for case in cases], pattern):
            names = " ".join(case.name for case in cases)
            raise ValueError(f"no case is called {pattern}; there are: {names}")
    fits = lambda name: any(p == "all" or fnmatch.fnmatchcase(name, p) for p in patterns)
    return [case for case in cases if fits(case.name)]


def small(case):
    return case.flops < 4e9 and case.pairs < 1e8
