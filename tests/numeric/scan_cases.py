# SPDX-License-Identifier: Apache-2.0
"""Programs with scans, and NumPy loops that say what their results are."""
import numpy as np

B, H, N, D, E, M = 2, 3, 7, 5, 6, 4
rng = np.random.default_rng(11)


def draw(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def delta(Q, K, V, beta, S0):
    Y, S = np.empty_like(V), np.broadcast_to(S0, (B, H, D, E)).copy()
    for t in range(N):
        v = V[:, :, t] - np.einsum("bhd,bhde->bhe", K[:, :, t], S)
        S = S + np.einsum("bhd,bhe,bh->bhde", K[:, :, t], v, beta[:, :, t])
        Y[:, :, t] = np.einsum("bhd,bhde->bhe", Q[:, :, t], S)
    return Y, S


def recurrent(X, s, W):
    Y = []
    for t in range(N):
        s = np.tanh(s @ W + X[:, t])
        Y.append(s * t)
    return np.stack(Y, 1), s


def swapped(X, A):
    Y = []
    for t in range(N):
        A = A.T * X[t, :, None] + 0.5 * A
        Y.append(A @ X[t])
    return np.stack(Y), A


def exchange(X, a, b):
    Y = []
    for t in range(N):
        c = a + b * X[t]
        a, b = b, c if t % 2 == 0 else c / 2
        logits = X @ b
        Y.append(softmax(np.where(np.arange(N) <= t, logits, -np.inf)) @ X)
    return np.stack(Y), a, b


def nested(X, Z, a):
    Y, P = [], np.empty((N, M, D))
    for t in range(N):
        s = a * X[t]
        for u in range(M):
            s = s * 0.5 + Z[u] * a
            P[t, u] = s + X[t]
        a = np.tanh(s + P[t].sum(0))
        Y.append(a)
    return np.stack(Y), P, a


def moves(X, a, E_):
    ids, rows = [], []
    for t in range(N):
        r = np.concatenate([a[2:], a[:2]])
        ids.append(np.argmax(E_ @ r))
        a = np.tanh(r + E_[ids[-1]] + np.concatenate([[0], X[t, :-1]]) * a[0])
        rows.append(np.cumsum(a))
    return np.array(ids, np.int32), np.stack(rows), a


def independent(X, Z, a):
    """The inner scan depends on nothing that the outer one carries."""
    Y = []
    for t in range(N):
        s = X[t]
        for u in range(M):
            s = s * 0.5 + Z[u]
        a = a * 0.5 + s
        Y.append(a)
    return np.stack(Y), a


def table(C, a):
    """Rows that an inner scan writes, from the row before; and what nothing carries."""
    row, P = np.zeros(M), np.empty((N, M))
    for t in range(N):
        left = 0.0
        for u in range(M):
            left = max(left, row[u]) + C[t, u]
            P[t, u] = C[t, u] + t * u
            row[u] = left
        row = row + P[t] * a[t // 2]
    return row, P, a[np.arange(N) // 2]


def three_deep(X):
    """One carry that three scans pass on, with a row of each."""
    s, Y, Z = np.zeros(D), np.empty((N, H, D)), np.empty((N, H, M, D))
    for t, u in np.ndindex(N, H):
        for v in range(M):
            s = s * 0.5 + X[t, u, v]
            Z[t, u, v] = s
        Y[t, u] = s
    return s, Y, Z


def positions(*sizes):
    """Some positions of a dim as large as the last size, and one behind them."""
    count = int(np.prod(sizes[:-1]))
    return (np.arange(count) * 7 % sizes[-1]).astype(np.int32).reshape(sizes[:-1])


def sums_at_positions(X, ids, A):
    s, rows = A.copy(), []
    for t in range(X.shape[1]):
        at = ids[t] + np.arange(X.shape[2]) % 2
        x = np.tanh(X[:, t] + s.sum(1, keepdims=True))
        hits = at[:, None] == np.arange(s.shape[1])
        s = 0.5 * s + x @ hits
        rows.append(s)
    return np.array(rows), s


def reversed_scans(X, Z, a):
    """The outer one and what it holds from the last position to the first."""
    Y, P = np.empty_like(X), np.empty((*Z.shape[:2], D), np.float32)
    for t in reversed(range(X.shape[0])):
        r = np.tanh(a)
        for u in reversed(range(Z.shape[1])):
            r = r * 0.5 + Z[t, u] * u
            P[t, u] = r
        a = a * 0.5 + X[t] * t + r
        Y[t] = a
    return Y, P, a


def sorted_inside(X):
    """Inner scans that sort and roll what they carry."""
    c, a = np.zeros(D), np.zeros(D)
    for t in range(N):
        for u in range(M):
            c = np.sort(c) + X[t, u]
        for u in range(M):
            a = np.roll(a, -2) * 0.5 + np.sort(c * X[t, u])
    return c, a


def shared_inside(X, V):
    """An innermost carry that the scan around it does not reach, beside one that it does."""
    s = np.zeros(D)
    for t in range(N):
        a = np.tanh(s)
        for u in range(H):
            c, e = a, s
            for v in range(M):
                c = c * 0.5 + V[t, v] + np.cumsum(a) * 0.1
                e = e * 0.5 + c * X[t, u]
            s = np.tanh(s + e)
    return (s,)


def columns(M, X, a, h):
    """Positions at any place: columns, diagonals, a row of what the step itself makes."""
    s, c = a, np.zeros(N)
    Y, Z, R, T = np.empty((D, N)), np.empty((N, N)), np.empty((D, N, H)), np.empty((N, N))
    for t in range(N):
        s = s * 0.5 + M[:, t] * M[t, t]
        c = c + M[t]
        P = np.outer(s, c)
        Y[:, t] = X[:, t] * s[t]
        Z[:, t] = P[t] - P[:, t] + P[t, t]
        R[:, t] = X[:, t, None] * h + c[t]
        T[t] = M[t] - M[:, t]
    return Y, Z, R, T, s


def pairs(M, X):
    """Two scans over one class of positions: elements of a matrix, and of what they write."""
    s, F, G = 0.0, np.empty((N, N)), np.empty((N, N))
    for t in range(N):
        a = M[t, t]
        for u in range(N):
            a = a * 0.5 + M[t, u] - M[u, t] * X[u]
            F[t, u] = a
            G[u, t] = a * X[t]
        s = s + F[t, t] * G[:, t].sum()
    return F, G, s


STEP = """
def Step(S[d, e], k[d], v[e], q[d], beta[]):
    old[e] = einsum(k[d], S[d, e])
    T[d, e] = S + beta * einsum(k[d], v[e] - old)
    return T, einsum(q[d], T[d, e] -> [e])
"""
INPUTS = {"Q": draw(B, H, N, D), "K": draw(B, H, N, D) / 2, "V": draw(B, H, N, E)}
INPUTS |= {"beta": draw(B, H, N), "S0": draw(D, E)}
ONE = {"X": draw(N, D), "A": draw(D), "Z": draw(M, D)}

# name -> (text, results, arrays, what the results are)
CASES = {
    "delta": (
        """
def Main(Q[b, h, n, d], K[b, h, n, d], V[b, h, n, e], beta[b, h, n], S0[d, e]):
    S[b, h, d, e] = S0[d, e] + 0 * einsum(Q[b, h, n, d], V[b, h, n, e])
    scan t in n:
        v[b, h, e] = V[b, h, t, e] - einsum(K[b, h, t, d], S[b, h, d, e])
        S = S + einsum(K[b, h, t, d], v[b, h, e], beta[b, h, t] -> [b, h, d, e])
        Y[b, h, t, e] = einsum(Q[b, h, t, d], S[b, h, d, e])
""",
        "Y[b, h, n, e], S[b, h, d, e]",
        INPUTS,
        delta(*INPUTS.values()),
    ),
    "mapped": (
        STEP
        + """
def Delta(Q[n, d], K[n, d], V[n, e], beta[n], S0[d, e]):
    S[d, e] = S0
    scan t in n:
        S, Y[t, e] = Step(S, K[t, d], V[t, e], Q[t, d], beta[t])
    return Y, S
def Main(Q[b, h, n, d], K[b, h, n, d], V[b, h, n, e], beta[b, h, n], S0[d, e]):
    Y, S = Delta(Q, K, V, beta, S0)
""",
        "Y[b, h, n, e], S[b, h, d, e]",
        INPUTS,
        delta(*INPUTS.values()),
    ),
    "recurrent": (
        """
def Main(X[b, n, d], s0[b, d], W[d, d']):
    s[b, d] = s0
    scan t in n:
        u[b, d'] = tanh(einsum(s[b, d], W[d, d']) + X[b, t, d'])
        s[b, d] = u[b, d]
        Y[b, t, d] = s * t
""",
        "Y[b, n, d], s[b, d]",
        (case := {"X": draw(B, N, D), "s0": draw(B, D), "W": draw(D, D)}),
        recurrent(*case.values()),
    ),
    "exchange": (
        """
def Main(X[n, d], A[d], C[d]):
    a = A
    b = C
    scan t in n:
        c[d] = a + b * X[t, d]
        a = b
        b = where(t % 2 == 0, c, c / 2)
        L[n'] = einsum(X[n', d], b[d])
        W[n'] = softmax(where(index(n') <= t, L, -inf), reduced_dim=n')
        Y[t, d] = einsum(W[n'], X[n', d])
""",
        "Y[n, d], a[d], b[d]",
        (case := {"X": draw(N, D), "A": draw(D), "C": draw(D)}),
        exchange(*case.values()),
    ),
    "swapped": (
        """
def Main(X[n, d], C[d, d']):
    A[d, d'] = C
    scan t in n:
        A = swap(A, d, d') * X[t, d] + 0.5 * A
        Y[t, d] = einsum(A[d, d'], X[t, d'] -> [d])
""",
        "Y[n, d], A[d, d']",
        (case := {"X": draw(N, D), "C": draw(D, D)}),
        swapped(*case.values()),
    ),
    "swapped-only": (
        """
def Main(X[n], C[d, d']):
    A[d, d'] = C
    scan t in n:
        A = swap(A, d, d') * X[t]
""",
        "A[d, d']",
        (case := {"X": draw(N), "C": draw(D, D)}),
        ((case["C"].T if N % 2 else case["C"]) * np.prod(case["X"]),),
    ),
    "nested": (
        """
def Main(X[n, d], Z[m, d], A[d]):
    a[d] = A
    scan t in n:
        s[d] = a * X[t, d]
        scan u in m:
            s = s * 0.5 + Z[u, d] * a
            P[t, u, d] = s + X[t, d]
        a = tanh(s + sum(P[t, m, d], reduced_dim=m))
        Y[t, d] = a
""",
        "Y[n, d], P[n, m, d], a[d]",
        {"X": ONE["X"], "Z": ONE["Z"], "A": ONE["A"]},
        nested(ONE["X"], ONE["Z"], ONE["A"]),
    ),
    "independent": (
        """
def Main(X[n, d], Z[m, d], A[d]):
    a[d] = A
    scan t in n:
        s[d] = X[t, d]
        scan u in m:
            s = s * 0.5 + Z[u, d]
        a = a * 0.5 + s
        Y[t, d] = a
""",
        "Y[n, d], a[d]",
        {"X": ONE["X"], "Z": ONE["Z"], "A": ONE["A"]},
        independent(ONE["X"], ONE["Z"], ONE["A"]),
    ),
    "table": (
        """
def Main(C[n, m], a[n]):
    row[m] = zeros[m]
    scan t in n:
        left = 0.0
        Q[t] = gather(a, t // 2, dim=n)
        scan u in m:
            left = max(left, row[u]) + C[t, u]
            P[t, u] = C[t, u] + t * u
            new[u] = left
        row[m] = new[m] + P[t, m] * Q[t]
""",
        "row[m], P[n, m], Q[n]",
        (case := {"C": draw(N, M), "a": draw(N)}),
        table(*case.values()),
    ),
    "moves": (
        """
dim d = 5, front = 2, back = 3
def Main(X[n, d], A[d], T[v, d]):
    a[d] = A
    scan t in n:
        f[front] = slice(a, d, 0, front)
        g[back] = slice(a, d, front, d)
        r[d] = concat(g, f, dim=d)
        id = argmax(einsum(T[v, d], r[d] -> [v]), reduced_dim=v)
        a = tanh(r + gather(T, id, dim=v) + shift(X[t, d], d, 1) * a[0])
        ids[t] = id
        Y[t, d] = cumsum(a, dim=d)
""",
        "ids[n], Y[n, d], a[d]",
        (case := {"X": draw(N, D), "A": draw(D), "T": draw(M, D)}),
        moves(*case.values()),
    ),
    "three deep": (
        """
def Main(X[n, h, m, d]):
    s = zeros[d]
    scan t in n:
        scan u in h:
            scan v in m:
                s = s * 0.5 + X[t, u, v, d]
                Z[t, u, v, d] = s
            Y[t, u, d] = s
""",
        "s[d], Y[n, h, d], Z[n, h, m, d]",
        (case := {"X": draw(N, H, M, D)}),
        three_deep(*case.values()),
    ),
    "sorted inside": (
        """
dim d = 5, front = 2, back = 3
def Main(X[n, m, d]):
    c = zeros[d]
    a = zeros[d]
    scan t in n:
        scan u in m:
            c = sort(c, dim=d) + X[t, u, d]
        scan u in m:
            f[front] = slice(a, d, 0, front)
            g[back] = slice(a, d, front, d)
            a = concat(g, f, dim=d) * 0.5 + sort(c * X[t, u, d], dim=d)
""",
        "c[d], a[d]",
        (case := {"X": draw(N, M, D)}),
        sorted_inside(*case.values()),
    ),
    "sums at positions": (
        """
dim w = 4
def Main(X[h, n, d], ids[n, d]: i32, A[h, w]):
    S = A
    scan t in n:
        at = ids[t, d] + i32(index(d)) % 2
        P[h, w] = scatter_add(tanh(X[h, t, d] + sum(S, reduced_dim=w)), at, dim=w, reduced_dim=d)
        S = 0.5 * S + P
        Y[t, h, w] = S
""",
        "Y[n, h, w], S[h, w]",
        (case := {"X": draw(H, N, D), "ids": positions(N, D, 4), "A": draw(H, 4)}),
        sums_at_positions(*case.values()),
    ),
    "reversed": (
        """
def Main(X[n, d], Z[n, m, d], A[d]):
    a = A
    scan t in n reversed:
        r = tanh(a)
        scan u in m reversed:
            r = r * 0.5 + Z[t, u, d] * u
            P[t, u, d] = r
        a = a * 0.5 + X[t, d] * t + r
        Y[t, d] = a
""",
        "Y[n, d], P[n, m, d], a[d]",
        (case := {"X": draw(N, D), "Z": draw(N, M, D), "A": draw(D)}),
        reversed_scans(*case.values()),
    ),
    "shared inside": (
        """
def Main(X[n, h, d], V[n, m, d]):
    s = zeros[d]
    scan t in n:
        a = tanh(s)
        scan u in h:
            c = a
            e = s
            scan v in m:
                c = c * 0.5 + V[t, v, d] + cumsum(a, dim=d) * 0.1
                e = e * 0.5 + c * X[t, u, d]
            s = tanh(s + e)
""",
        "s[d]",
        (case := {"X": draw(N, H, D), "V": draw(N, M, D)}),
        shared_inside(*case.values()),
    ),
    "columns": (
        """
def Main(M[n, n'], X[d, n], A[n], H[h]):
    s[n] = A
    c[n] = zeros[n]
    scan t in n':
        s[n] = s[n] * 0.5 + M[n, t] * M[t, t]
        c[n] = c + M[t, n]
        P[n, n'] = s[n] * c[n']
        Y[d, t] = X[d, t] * s[t]
        Z[n, t] = P[t, n] - P[n, t] + P[t, t]
        R[d, t, h] = X[t, d] * H[h] + c[t]
        T[t, n] = M[t, n] - M[n, t]
        W[n, t] = zeros[t, n] + Z[n, t]
""",
        "Y[d, n'], W[n, n'], R[d, n', h], T[n', n], s[n]",
        (case := {"M": draw(N, N), "X": draw(D, N), "A": draw(N), "H": draw(H)}),
        columns(*case.values()),
    ),
    "pairs": (
        """
def Main(M[n, n'], X[n]):
    s[] = 0.0
    scan t in n:
        a = M[t, t]
        scan u in n':
            a = a * 0.5 + M[t, u] - M[u, t] * X[u]
            F[t, u] = a
            G[u, t] = a * X[t]
        s = s + F[t, t] * sum(G[n', t], reduced_dim=n')
""",
        "F[n, n'], G[n', n], s[]",
        (case := {"M": draw(N, N), "X": draw(N)}),
        pairs(*case.values()),
    ),
    "rows of what is carried": (
        """
def Main(X[n, d], A[n, d]):
    S[n, d] = A
    scan t in n:
        S = S + X[t, d] * S[t, d]
        last[d] = X[t, d]
        Y[t, d] = S[t, d] + last
""",
        "Y[n, d], S[n, d]",
        (case := {"X": draw(N, D) / 4, "A": draw(N, D)}),
        None,
    ),
}


def rows(X, S):
    Y = []
    for t in range(N):
        S = S + X[t] * S[t]
        Y.append(S[t] + X[t])
    return np.stack(Y), S


CASES["rows of what is carried"] = (*CASES["rows of what is carried"][:3], rows(*case.values()))
EXTENTS = {"b": B, "h": H, "n": N, "d": D, "e": E, "m": M}
