# SPDX-License-Identifier: Apache-2.0
"""The main job, end to end: a language model with talking heads is compiled to a native program,
which trains on text of this machine and writes some; then an encoder block is run over the README.

usage: demo.py ATTC OUTPUT_FOLDER [STEPS]
Prints how the loss falls, a sample, and the encoder block's cost, time, share of the machine's peak
and error against the double-precision oracle. Programs, checkpoints, logs and pictures stay there.
"""

import csv
import json
import math
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "examples"))
from models import with_attention  # noqa: E402

MODEL = ROOT / "examples" / "lm.attn"
SMALL = "layers=2,d=128,d_ff=512,h=8,d_k=16,n=128"  # trains in about a minute on two cores
STEPS, BATCH = 500, 16
SAMPLE = 300  # bytes
SOURCE = ROOT / "examples" / "encoder_block.attn"
ENTRY = "EncoderBlock"
WINDOW = 512  # bytes of text that see each other
WINDOWS = 32
CHECKED = 48  # bytes of the window that is compared with the oracle
PICTURE = 48, 3  # bytes shown, and the head


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          errors="replace")
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout, done.stderr


def read_text(folder):
    """The beginning of the README as windows of bytes."""
    text = (ROOT / "README.md").read_bytes()[: WINDOWS * WINDOW]
    tokens = np.frombuffer(text, np.uint8).reshape(WINDOWS, WINDOW)
    np.save(folder / "tokens.npy", tokens.astype(np.int32))
    return tokens


def draw_parameters(attc, folder):
    """Initial parameters as a trainer would draw them: .npy files by name."""
    manifest = json.loads(run(folder / "encoder", "--manifest")[0])
    extents = {dim["name"]: dim["extent"] for dim in manifest["dims"]}
    random, files = np.random.default_rng(1), []
    for tensor in manifest["tensors"]:
        if not tensor.get("is_param"):
            continue
        name, shape = tensor["name"], [extents[dim] for dim in tensor["dims"]]
        if name.startswith("gain"):
            array = np.ones(shape, np.float32)
        elif len(shape) == 1:
            array = np.zeros(shape, np.float32)
        else:
            fan_in = {"E": 1, "P_o": np.prod(shape[1:])}.get(name, shape[0])
            array = (random.standard_normal(shape) / np.sqrt(fan_in)).astype(np.float32)
        np.save(folder / f"{name}.npy", array)
        files.append(f"{name}={folder / name}.npy")
    return files


def shown(byte):
    character = chr(byte) if 32 < byte < 127 else "·"
    return {"<": "&lt;", "&": "&amp;", ">": "&gt;"}.get(character, character)


def draw_picture(path, text, weights):
    """weights[n, m] of one head as a grid of squares, darker is larger, with the text at both
    sides."""
    count, cell, margin = len(weights), 12, 40
    size = margin + count * cell + 10
    top = weights.max()
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size}" height="{size}" '
        'font-family="monospace" font-size="10">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{margin}" y="14">attention weights of head {PICTURE[1]}: row = query, column = '
        "memory</text>",
    ]
    for i in range(count):
        at = margin + i * cell
        parts.append(
            f'<text x="{margin - 10}" y="{at + 10}" text-anchor="middle">{shown(text[i])}</text>'
        )
        parts.append(
            f'<text x="{at + 6}" y="{margin - 6}" text-anchor="middle">{shown(text[i])}</text>'
        )
        for j in range(count):
            shade = 255 - int(round(255 * weights[i, j] / top))
            parts.append(
                f'<rect x="{margin + j * cell}" y="{at}" width="{cell}" height="{cell}" '
                f'fill="rgb({shade},{shade},255)"/>'
            )
    path.write_text("\n".join(parts + ["</svg>\n"]))


# ---- a language model ----------------------------------------------------------------------------
def training_text():
    """Licences that are on every Debian machine, and what this project says about itself."""
    licences = sorted(path for path in Path("/usr/share/common-licenses").glob("*")
                      if path.is_file() and not path.is_symlink())
    return [*licences, ROOT / "README.md", ROOT / "grammar" / "language.md"]


def talking_heads(folder):
    """The example with the other attention: one line is changed."""
    (folder / "lm.attn").write_text(with_attention(MODEL.read_text(), "TalkingHeads"))
    return folder / "lm.attn"


def read_log(path):
    with open(path) as file:
        return list(csv.DictReader(file))


def train_model(attc, folder, steps):
    source, run_folder = talking_heads(folder), folder / "run"
    shutil.rmtree(run_folder, ignore_errors=True)
    begun = time.time()
    run(attc, "build", source, "-D", SMALL, "--entry", "Loss", "--exe", "-o", folder / "lm")
    info = json.loads(run(folder / "lm", "info", "--json")[0])
    print(
        f"built {folder / 'lm'} in {time.time() - begun:.2f} s: a language model with talking "
        f"heads, {info['parameters']} parameters"
    )

    text = training_text()
    size = sum(path.stat().st_size for path in text)
    print(f"training {steps} steps of {BATCH} x 128 bytes, on {size} bytes of licences and of this "
          "project's documents")
    begun = time.time()
    run(folder / "lm", "train", "--data", *text, "--steps", steps, "--batch", BATCH, "--lr", 0.003,
        "--warmup", 50, "--eval-every", max(steps // 5, 1), "--out", run_folder)
    seconds = time.time() - begun
    first = float(read_log(run_folder / "log.csv")[0]["loss"]) / math.log(2)
    print(f"bits per byte: {first:.2f} at first; on text that was held out", end="")
    for row in read_log(run_folder / "eval.csv"):
        print(f", {float(row['bits_per_byte']):.2f} after {row['step']} steps", end="")
    print(f"\n{steps * BATCH * 128 / seconds:.0f} bytes a second for {seconds:.0f} s; "
          f"loss curve: {run_folder / 'loss.svg'}")
    sample, _ = run(
        folder / "lm", "generate", "--weights", run_folder / "latest", "--tokens", SAMPLE,
        "--prompt", "The program ", "--temperature", 0.7, "--seed", 1,
    )
    print("a sample:\n")
    print(textwrap.indent(sample.strip(), "    "))
    run(
        folder / "lm", "heads", "--data", *text, "--weights", run_folder / "latest",
        "--examples", 8, "--quick", "--out", folder / "heads",
    )
    print(f"\nwhat the heads do, and what mixes them: {folder / 'heads'}/heads.svg, mixing.svg")


# ---- an encoder block ----------------------------------------------------------------------------
def run_encoder(attc, folder):
    tokens = read_text(folder)

    begun = time.time()
    run(attc, "build", SOURCE, "--entry", ENTRY, "--exe", "-o", folder / "encoder")
    print(f"built {folder / 'encoder'} in {time.time() - begun:.2f} s\n")

    cost = json.loads(
        run(attc, "cost", SOURCE, "--entry", ENTRY, "-D", f"b={WINDOWS},n={WINDOW}", "--json")[0]
    )
    print(
        f"{ENTRY} over {WINDOWS} windows of {WINDOW} bytes: {cost['parameters']} parameters, "
        f"{cost['multiplies']:.4g} multiplies"
    )

    files = draw_parameters(attc, folder)
    _, timing = run(
        folder / "encoder",
        f"tokens={folder / 'tokens.npy'}",
        *files,
        "--time",
        "-o",
        f"Z={folder / 'Z.npy'}",
        "-o",
        f"W={folder / 'W.npy'}",
    )
    print(f"native program on the beginning of the README ({tokens.size} bytes): {timing.strip()}")
    weights = np.load(folder / "W.npy", mmap_mode="r")
    rows = np.abs(weights[0].sum(axis=-1) - 1).max()
    print(f"attention weights {weights.shape} sum to one within {rows:.1e}")

    bench = json.loads(
        run(attc, "bench", SOURCE, "--entry", ENTRY, "-D", f"b=1,n={WINDOW}", "--json")[0]
    )
    print(
        f"one window with {bench['threads']} threads: {1e3 * bench['seconds']:.2f} ms, "
        f"{bench['gflops']:.1f} GFLOP/s, {100 * bench['share_of_peak']:.1f}% of this machine's "
        f"{bench['peak_gflops']:.1f} GFLOP/s"
    )

    print(f"\nagainst the double-precision oracle on {CHECKED} bytes:")
    print(run(attc, "verify", SOURCE, "--entry", ENTRY, "-D", f"b=1,n={CHECKED}")[0], end="")

    count, head = PICTURE
    picture = folder / "attention.svg"
    draw_picture(picture, tokens[0], np.asarray(weights[0, :count, head, :count]))
    print(f"\npicture of one head's attention weights: {picture}")


def main():
    attc, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    train_model(attc, folder, int(sys.argv[3]) if len(sys.argv) > 3 else STEPS)
    print()
    run_encoder(attc, folder)


if __name__ == "__main__":
    main()
