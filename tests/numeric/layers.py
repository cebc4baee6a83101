# SPDX-License-Identifier: Apache-2.0
"""Programs of several layers, whose gradients keep or compute again."""

# BLOCK: a round of the loop.
ATTENTION = """dim layers = 3, n = 40, d = 32, h = 4, k = 8, f = 96
dim m like n
def Norm(X[n, d]):
    c[n, d] = X[n, d] - mean(X[n, d], reduced_dim=d)
    return c[n, d] * rsqrt(mean(c[n, d] * c[n, d], reduced_dim=d) + 1e-5)
def Block(X[n, d], seed[]: i64):
    param P_q[d, h, k] ~ glorot, P_k[d, h, k] ~ glorot, P_v[d, h, k] ~ glorot, P_o[h, k, d] ~ glorot
    param W[d, f] ~ glorot, V[f, d] ~ glorot
    N[n, d] = Norm(X)
    Q[n, h, k] = einsum(N[n, d], P_q)
    K[m, h, k] = einsum(N[m, d], P_k)
    U[m, h, k] = einsum(N[m, d], P_v)
    L[n, m, h] = einsum(Q, K) * k ** -0.5
    A[n, m, h] = softmax(where(index(m) <= index(n), L, -inf), reduced_dim=m)
    O[n, h, k] = einsum(A, U)
    Y[n, d] = X + einsum(O, P_o)
    B[n, d] = Norm(Y)
    H[n, f] = gelu(einsum(B, W))
    return Y + dropout(einsum(H, V -> [n, d]), rate=0.1, seed=seed)
def Main(X[n, d], seed[]: i64):
    for layer in layers:
        X = BLOCK
    return X
"""
RECURRENT = """dim n = 12, d = 16, e = 8, layers = 2
def Block(X[n, d]):
    param W[d, e] ~ glorot, V[e, d] ~ glorot
    s[d] = zeros[d]
    scan t in n:
        h[e] = tanh(einsum(s[d], W[d, e]))
        s = tanh(einsum(h[e], V[e, d]) + X[t, d])
        Y[t, d] = s * X[t, d]
    return X[n, d] + Y[n, d]
def Main(X[n, d]):
    for layer in layers:
        X = Block(X)
    return X[n, d]
"""
# Sums of whole numbers are exact in any order.
EXACT = """dim n = 24, d = 16, f = 40, layers = 4
def Main(X[n, d], param W[layers, d, f], param V[layers, f, d]):
    for layer in layers:
        H[n, f] = relu(einsum(X[n, d], W[layer, d, f] -> [n, f]))
        X[n, d] = einsum(H[n, f], V[layer, f, d] -> [n, d]) % 5 - 2
    Y[n, d] = X
    return Y[n, d]
"""
