# SPDX-License-Identifier: Apache-2.0
"""The main job, end to end: an encoder block compiled to a native program, run over the README.

usage: demo.py ATTC OUTPUT_FOLDER
Prints the layer's cost, time, share of the machine's peak and error against the double-precision
oracle, and leaves the program, its outputs and a picture of one head's attention weights there.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCE = ROOT / "examples" / "encoder_block.attn"
ENTRY = "EncoderBlock"
WINDOW = 512  # bytes of text that see each other
WINDOWS = 32
CHECKED = 48  # bytes of the window that is compared with the oracle
PICTURE = 48, 3  # bytes shown, and the head


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
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


def main():
    attc, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
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


if __name__ == "__main__":
    main()
