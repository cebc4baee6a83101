# SPDX-License-Identifier: Apache-2.0
"""generate: a text is what the logits of the whole model say, position by position."""

import subprocess

import numpy as np
import pytest

from attc import SANITIZED, attc

pytestmark = pytest.mark.skipif(SANITIZED, reason="programs of a sanitizer build do not link")

MODEL = """
dim v = 260, d = 16, h = 2, k = 8, n = 12, layers = 2

param E[v, d] ~ normal(std=1)

def Attend(X[n, d]):
    param P_q[d, k, h] ~ normal(std=0.5), P_k[d, k, h] ~ normal(std=0.5)
    param P_v[d, k, h] ~ normal(std=0.5), P_o[k, h, d] ~ normal(std=0.5)
    Q[n, k, h] = rotary(einsum(X[n, d], P_q[d, k, h] -> [n, k, h]), d=k)
    K[n, k, h] = rotary(einsum(X[n, d], P_k[d, k, h] -> [n, k, h]), d=k)
    L[n, n', h] = einsum(Q[n, k, h], K[n', k, h]) / sqrt(k)
    W[n, n', h] = softmax(where(index(n') <= index(n), L, -inf), reduced_dim=n')
    return einsum(W[n, n', h], X[n', d'], P_v[d', k, h], P_o[k, h, d] -> [n, d])

def Logits(tokens[b, n]: i32):
    X[b, n, d] = gather(E[v, d], tokens[b, n], dim=v)
    for layer in layers:
        X = X + Attend(norm(X))
    Y = norm(X)
    return einsum(Y[b, n, d], E[v, d] -> [b, n, v])

def Loss(tokens[b, n]: i32, labels[b, n]: i32):
    return mean(cross_entropy(Logits(tokens), labels), reduced_dim=(b, n))
"""
TEXT = "to be or not to be, that is the question: " * 20


def program(folder, name, source):
    (folder / f"{name}.attn").write_text(source)
    (folder / "text").write_text(TEXT)
    return attc("build", folder / f"{name}.attn", "--exe", "-o", folder / name)[1]


def run(folder, *arguments, status=0):
    done = subprocess.run([folder / "lm", *map(str, arguments)], cwd=folder, capture_output=True,
                          timeout=60)
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr.decode()


def generate(folder, *arguments, status=0):
    return run(folder, "generate", "--weights", folder / "out/step-00000001.safetensors",
               *arguments, status=status)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("generate")
    assert program(folder, "lm", MODEL) == ""
    run(folder, "train", "--data", "text", "--batch", 2, "--steps", 1, "--out", "out")
    return folder


def logits(folder, tokens):
    """Of the whole model, for some tokens: the last of them alone is of use."""
    padded = np.zeros((1, 12), np.int32)
    padded[0, : len(tokens)] = tokens
    np.save(folder / "tokens.npy", padded)
    attc("run", folder / "lm.attn", "--entry", "Logits", f"tokens={folder}/tokens.npy", "-D", "b=1",
         "--weights", folder / "out/step-00000001.safetensors", "-o", folder / "logits.npy")
    return np.load(folder / "logits.npy")[0, : len(tokens)]


def test_a_program_of_the_logits_alone(made):
    """It does not train, and has trained tensors by the path that the loss calls them by."""
    wanted = logits(made, [111, 114])
    attc("build", made / "lm.attn", "--entry", "Logits", "--exe", "-o", made / "logits")
    words = ["tokens=tokens.npy", "--weights", "out/step-00000001.safetensors", "-o", "again.npy"]
    subprocess.run([made / "logits", *words], cwd=made, check=True)
    assert np.allclose(np.load(made / "again.npy")[0, :2], wanted, rtol=1e-5, atol=1e-5)
    done = subprocess.run([made / "logits", *words[:1], "--weights", "text", *words[3:]], cwd=made,
                          capture_output=True, text=True)
    assert done.returncode == 1 and "text: " in done.stderr


def test_every_token_is_the_likeliest(made):
    text = generate(made, "--tokens", 8, "--prompt", "111 114", "--temperature", 0, "--form",
                    "numbers")
    tokens = [int(word) for word in text.split()]
    assert tokens[:2] == [111, 114] and len(tokens) == 10
    assert list(logits(made, tokens)[1:-1].argmax(axis=1)) == tokens[2:]


def test_the_last_half_begins_again(made):
    """What comes after the 12th token is made from the last 6 before it and itself."""
    text = generate(made, "--tokens", 11, "--prompt", "be", "--temperature", 0, "--form", "text")
    tokens = list(text)
    assert tokens[:2] == [98, 101] and len(tokens) == 13
    assert logits(made, tokens[:12])[-1].argmax() == tokens[12]
    longer = list(generate(made, "--tokens", 12, "--prompt", "be", "--temperature", 0))
    assert longer[:13] == tokens and logits(made, tokens[6:13])[-1].argmax() == longer[13]


def test_draws_are_of_the_seed_alone(made):
    draws = [generate(made, "--tokens", 40, "--seed", seed, "--threads", threads)
             for seed, threads in ((1, 1), (1, 2), (2, 1))]
    assert draws[0] == draws[1] != draws[2]


def test_draws_follow_the_probabilities(made):
    p = np.exp(logits(made, [111])[0].astype(float) / 3)
    p /= p.sum()
    likely = np.argsort(-p)[:2]
    made_of = [int(generate(made, "--tokens", 1, "--prompt", "111", "--form", "numbers",
                            "--temperature", 3, "--top-k", 2, "--seed", seed).split()[1])
               for seed in range(100)]
    share = p[likely[0]] / p[likely].sum()
    assert set(made_of) <= set(likely)
    assert abs(made_of.count(likely[0]) / 100 - share) < 0.2
    few = {int(generate(made, "--tokens", 1, "--prompt", "111", "--form", "numbers",
                        "--top-p", 0.0001, "--seed", seed).split()[1]) for seed in range(5)}
    assert few == {likely[0]}


def test_what_is_wrong_is_told(made):
    assert "the prompt has token 300, the vocabulary has 260" in generate(
        made, "--form", "numbers", "--prompt", "300", status=1)
    assert "'x' is no token" in generate(made, "--form", "numbers", "--prompt", "1 x", status=1)
    assert "--weights" in run(made, "generate", status=2)
    (made / "none").write_text("no tensors")
    assert "none" in run(made, "generate", "--weights", "none", status=1)


def test_a_model_that_sees_later_positions(tmp_path):
    source = MODEL.replace("where(index(n') <= index(n), L, -inf)", "L").replace(
        "layers = 2", "layers = 1")
    remark = program(tmp_path, "lm", source)
    assert "the program does not generate: the softmax over n' sees positions after n" in remark
    run(tmp_path, "train", "--data", "text", "--batch", 2, "--steps", 1, "--out", "out")
    assert "Loss has no step to generate with" in generate(tmp_path, status=1)


def test_a_vocabulary_that_is_no_text(tmp_path):
    source = MODEL.replace("v = 260", "v = 300, b = 2").replace("layers = 2", "layers = 1")
    source = source.replace("tokens[b, n]: i32)", "tokens[b, n]: i32, seed[]: i64)").replace(
        "Logits(tokens)", "Logits(tokens, seed)").replace(
        "X + Attend(norm(X))", "X + dropout(Attend(norm(X)), rate=0.5, seed=seed)").replace(
        "labels[b, n]: i32):", "labels[b, n]: i32, seed[]: i64):").replace(
        "Loss(tokens[b, n]: i32, seed[]: i64,", "Loss(tokens[b, n]: i32,")
    assert program(tmp_path, "lm", source) == ""
    run(tmp_path, "train", "--data", "text", "--steps", 1, "--out", "out")
    same = [generate(tmp_path, "--tokens", 5, "--form", "numbers", "--temperature", 0)
            for _ in range(2)]
    assert same[0] == same[1] and len(same[0].split()) == 5
