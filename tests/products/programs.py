# SPDX-License-Identifier: Apache-2.0
"""What several test files build."""

# Attention in two layers with a loss: the second's queries are made of the first's results.
LOSS = """
dim d = 24, h = 3, k = 8, m like n
def Attend(X[n, d], param P_q[d, k, h], param P_k[d, k, h], param P_v[d, k, h]):
    L[n, m, h] = einsum(X[n, d], P_q[d, k, h], X[m, d], P_k[d, k, h])
    W[n, m, h] = softmax(L, reduced_dim=m)
    return merge(einsum(W[n, m, h], X[m, d], P_v[d, k, h] -> [n, h, k]), h k -> d)
def Loss(X[n, d], T[n, d], param P_q[d, k, h], param P_k[d, k, h], param P_v[d, k, h]):
    A[n, d] = tanh(X + Attend(X, P_q, P_k, P_v))
    B[n, d] = A + Attend(A, P_q, P_k, P_v)
    return mean((B - T) ** 2, reduced_dim=(n, d))
"""
