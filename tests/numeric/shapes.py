# SPDX-License-Identifier: Apache-2.0
"""Extents that the examples are tested at."""

# Every dim that an example names. Derived dims (d_half, d_k of d / h) are left out when given.
ONES = dict.fromkeys("n m b d d_X d_M d_Y d_ff h h_k h_v g q r v d_k d_v d_p buckets e".split(), 1)
SHAPES = {
    "ones": ONES,
    "primes": dict(
        n=7,
        m=5,
        b=2,
        d=11,
        d_X=11,
        d_M=13,
        d_Y=17,
        h=3,
        h_k=2,
        h_v=5,
        g=2,
        q=3,
        r=3,
        d_k=7,
        d_v=5,
        d_p=19,
        d_ff=23,
        v=29,
        buckets=8,
        e=5,
    ),
    "vectors": dict(
        n=33,
        m=67,
        b=3,
        d=48,
        d_X=40,
        d_M=24,
        d_Y=56,
        h=4,
        h_k=6,
        h_v=8,
        g=3,
        q=2,
        r=10,
        d_k=16,
        d_v=24,
        d_p=20,
        d_ff=96,
        v=64,
        buckets=32,
        e=8,
    ),
    "long": dict(
        n=131,
        m=257,
        b=1,
        d=64,
        d_X=64,
        d_M=48,
        d_Y=80,
        h=6,
        h_k=4,
        h_v=6,
        g=2,
        q=3,
        r=8,
        d_k=32,
        d_v=16,
        d_p=33,
        d_ff=100,
        v=256,
        buckets=32,
        e=6,
    ),
}
# What an example needs to differ in, so that its derived dims come out whole.
ADJUST = {
    "multi_head_scaled": {
        "ones": dict(d=1),
        "primes": dict(d=21),
        "vectors": dict(d=48),
        "long": dict(d=66),
    },
    "fused_qkv": {
        "ones": dict(d=1),
        "primes": dict(d=21),
        "vectors": dict(d=48),
        "long": dict(d=66),
    },
    "rotary": {"ones": dict(d_k=2), "primes": dict(d_k=14)},
    "relative_bias": {"ones": dict(buckets=4)},
    "topk_attention": {"ones": dict(m=8), "primes": dict(m=13)},
    "mixture_of_experts": {"ones": dict(e=2)},
    "expert_choice": {"ones": dict(n=4)},
}
# Extents that the source derives from others.
DERIVED = {
    "multi_head_scaled": ["d_k"],
    "rotary": ["d_half"],
    "fused_qkv": ["d_k", "d_qkv", "three", "d'", "n'"],
}
# Dims whose extents the source computes with at compile time: they cannot be read at run time.
STATIC = {"rotary": ["d_k", "d_half"], "multi_head_scaled": ["d", "h", "d_k"]}


def extents(example, shape, dims):
    """Extents of the dims of an example for a shape, without the derived ones."""
    table = dict(SHAPES[shape], **ADJUST.get(example, {}).get(shape, {}))
    return {dim: table[dim] for dim in dims if dim not in DERIVED.get(example, [])}


def with_derived(sizes):
    """Also those that sources derive from others, which arguments may have."""
    sizes = dict(sizes)
    if "h" in sizes and "d" in sizes:
        sizes.setdefault("d_k", sizes["d"] // sizes["h"])
    sizes.setdefault("d_k", 1)
    if "d" in sizes:
        sizes.update({"three": 3, "d_qkv": 3 * sizes["d"], "d'": sizes["d"]})
    return sizes
