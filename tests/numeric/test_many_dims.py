# SPDX-License-Identifier: Apache-2.0
"""Programs over more dims than one kernel has: several kernels against NumPy, and what is refused
because one value, or one scan, has them all."""

import numpy as np
import pytest

from attc import attc, write

DIMS = 64  # of a kernel
MANY = 70
WAYS = [[], ["--interpret"], ["--plan", "unfused"]]


def extent(i):
    return 1 + i % 5


def join(form, count=MANY, by=", "):
    """The form once for each number, as i, and its extent, as e."""
    return by.join(form.format(i=i, e=extent(i)) for i in range(count))


def draw(count=MANY, shape=lambda i: (extent(i),)):
    random = np.random.default_rng(7)
    return [random.standard_normal(shape(i)).astype(np.float32) for i in range(count)]


def named(**lists):
    return {f"{name}{i}": x for name, list_ in lists.items() for i, x in enumerate(list_)}


def run(folder, source, arrays, *options):
    out = folder / "out.npy"
    attc("run", "-", "-w", *write(arrays, folder), "-o", out, *options, stdin=source)
    return np.load(out)


def concat_source(count):
    total = sum(map(extent, range(count)))
    return (f"dim {join('a{i} = {e}', count)}, m = {total}\n"
            f"def F({join('A{i}[a{i}]', count)}):\n"
            f"    C[m] = concat({join('A{i}', count)}, dim=m)\n"
            f"    return 2 * C\n")


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
def test_all_dims_of_a_kernel(tmp_path, way):
    a = draw(DIMS - 1)  # and that of the result
    got = run(tmp_path, concat_source(DIMS - 1), named(A=a), *way)
    np.testing.assert_array_equal(got, 2 * np.concatenate(a))


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
def test_two_concats(tmp_path, way):
    count = 40
    a, b = draw(count), draw(count)[::-1]
    total = sum(map(extent, range(count)))
    source = (f"dim {join('a{i} = {e}', count)}, m = {total}\n"
              + "dim " + ", ".join(f"b{i} = {len(x)}" for i, x in enumerate(b)) + "\n"
              + f"def F({join('A{i}[a{i}], B{i}[b{i}]', count)}):\n"
              + f"    C[m] = concat({join('A{i}', count)}, dim=m)\n"
              + f"    D[m] = concat({join('B{i}', count)}, dim=m)\n"
              + "    return C * D\n")
    got = run(tmp_path, source, named(A=a, B=b), *way)
    np.testing.assert_array_equal(got, np.concatenate(a) * np.concatenate(b))


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
@pytest.mark.parametrize("count", [20, MANY])
def test_positions(tmp_path, count, way):
    """One position of each of many tensors, added up, in a sum of rows too."""
    a = draw(count, lambda i: (9, extent(i)))
    source = (f"dim n = 9, {join('a{i} = {e}', count)}\n"
              f"def F({join('A{i}[n, a{i}]', count)}):\n"
              f"    return sum({join('A{i}[n, 0]', count, ' + ')}, reduced_dim=n)\n")
    got = run(tmp_path, source, named(A=a), *way)
    np.testing.assert_allclose(got, sum(x[:, 0] for x in a).sum(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
def test_extents_of_run_time(tmp_path, way):
    a = draw()
    x = np.arange(6, dtype=np.float32)
    source = (f"def F(X[n], {join('A{i}[a{i}]')}):\n"
              f"    s[] = {join('f32(a{i})', by=' + ')}\n"
              f"    t[] = {join('sum(A{i} * s, reduced_dim=a{i})', by=' + ')}\n"
              "    return X * s + t\n")
    s = sum(map(extent, range(MANY)))
    got = run(tmp_path, source, {"X": x, **named(A=a)}, *way)
    np.testing.assert_allclose(got, x * s + s * sum(y.sum() for y in a), rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
@pytest.mark.parametrize("count", [20, MANY])
def test_sums_of_logits(tmp_path, count, way):
    """Logits over many dims, in one streamed kernel or (70) not."""
    random = np.random.default_rng(5)
    q, k = draw(count, lambda i: (24, extent(i))), draw(count, lambda i: (32, extent(i)))
    q = [x / 8 for x in q]
    v = random.standard_normal((32, 8)).astype(np.float32)
    source = (f"dim n = 24, m = 32, e = 8, {join('d{i} = {e}', count)}\n"
              f"def F({join('Q{i}[n, d{i}], K{i}[m, d{i}]', count)}, V[m, e]):\n"
              f"    L[n, m] = {join('einsum(Q{i}, K{i})', count, ' + ')}\n"
              "    return einsum(softmax(L, reduced_dim=m), V -> [n, e])\n")
    logits = sum(x.astype(float) @ y.T for x, y in zip(q, k))
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    want = weights @ v / weights.sum(axis=1, keepdims=True)
    got = run(tmp_path, source, {**named(Q=q, K=k), "V": v}, *way)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("way", [[], ["--grad"], ["--plan", "unfused"]], ids=" ".join)
def test_concat_of_too_many(way):
    _, said = attc("build", "-", "-o", "/dev/null", *way, stdin=concat_source(DIMS), status=1)
    assert said.startswith("<stdin>:3:5: error: this concat takes more than the 64 dims that one "
                           "kernel has\n")
    assert said.count("error:") == 1
    assert "hint: put some parts together first" in said


def test_concat_in_two_steps(tmp_path):
    a = draw()
    first, second = a[:35], a[35:]
    one, two = (sum(map(len, part)) for part in (first, second))
    names = [f"A{i}" for i in range(MANY)]
    source = (f"dim {join('a{i} = {e}')}, m1 = {one}, m2 = {two}, m = {one + two}\n"
              f"def F({join('A{i}[a{i}]')}):\n"
              f"    A = concat({', '.join(names[:35])}, dim=m1)\n"
              f"    B = concat({', '.join(names[35:])}, dim=m2)\n"
              "    return concat(A, B, dim=m)\n")
    np.testing.assert_array_equal(run(tmp_path, source, named(A=a)), np.concatenate(a))


def test_scan_of_too_many():
    source = (f"dim n = 6, {join('d{i} = {e}')}\n"
              f"def F({join('X{i}[n, d{i}], H{i}[d{i}]')}):\n"
              + "".join(f"    S{i}[d{i}] = H{i}\n" for i in range(MANY))
              + "    scan t in n:\n"
              + "".join(f"        S{i}[d{i}] = X{i}[t, d{i}] * max(S{(i + 1) % MANY}, "
                        f"reduced_dim=d{(i + 1) % MANY})\n" for i in range(MANY))
              + f"    return {join('S{i}')}\n")
    for options, count in ([], 1), (["--grad"], 2):
        _, said = attc("build", "-", "-o", "/dev/null", *options, stdin=source, status=1)
        assert said.startswith("<stdin>:73:5: error: this scan takes more than the 64 dims that "
                               "one kernel has\n")
        assert said.count("error:") == count
        assert said.count("error: the gradient of this scan takes more than") == count - 1
        assert "hint: states that do not read each other" in said


# ---- einsums: two operands that are multiplied have at most 16 dims together -------------------
def listed(name, *others, count=8):
    return ", ".join([f"{name}{i}" for i in range(count)] + list(others))


WIDE = {
    # 19 dims; what one operand alone has is summed before
    "alone": ([listed("a", "s", "t"), listed("b", "s", "u"), "t, u, a0, b0"], "a0, b0"),
    # two of the orders do, and the first pair does not
    "one order": ([listed("a", "s", "t"), listed("b", "s", "u"), listed("a", "t", "u"),
                   listed("b")], "a0, b0"),
}


@pytest.mark.parametrize("operands, result", WIDE.values(), ids=WIDE)
def test_einsums_that_have_an_order(operands, result):
    dims = sorted({dim for operand in operands for dim in operand.split(", ")})
    names = [f"X{i}" for i in range(len(operands))]
    text = (f"def F({', '.join(f'{x}[{o}]' for x, o in zip(names, operands))}):\n"
            f"    return einsum({', '.join(names)} -> [{result}])\n")
    given = ",".join(f"{dim}=2" for dim in dims)
    attc("verify", "-", "-w", "-D", given, "--grad", stdin=text)
