# SPDX-License-Identifier: Apache-2.0
"""Results as an SVG: per case the share of the machine's peak, a bar for attc and a mark for each
peer. Colours follow the reader's choice of light or dark, marks differ in shape as well."""

from xml.sax.saxutils import escape

from report import label, milliseconds, share

ROW, LABEL, WIDE, MARGIN, TITLE, AXIS = 20, 210, 620, 16, 26, 30

STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2328; }
.quiet { fill: #656d76; } .title { font-weight: 600; }
.page { fill: #ffffff; } .grid { stroke: #d0d7de; } .band { fill: #f6f8fa; }
.attc { fill: #0072b2; } .mark { stroke: #ffffff; stroke-width: 0.8; }
.c0 { fill: #d55e00; } .c1 { fill: #b8860b; } .c2 { fill: #009e73; } .c3 { fill: #cc79a7; }
.c4 { fill: #8250df; } .c5 { fill: #1f2328; } .c6 { fill: #57606a; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; } .quiet { fill: #8d96a0; }
  .page { fill: #0d1117; } .grid { stroke: #30363d; } .band { fill: #161b22; }
  .attc { fill: #3a9bdc; } .mark { stroke: #0d1117; }
  .c0 { fill: #ff8a4c; } .c1 { fill: #f0c808; } .c2 { fill: #2ec4a0; } .c3 { fill: #f2a6d0; }
  .c4 { fill: #b392f0; } .c5 { fill: #e6edf3; } .c6 { fill: #8d96a0; }
}
"""

# Marks around the origin, by the number of the peer.
SHAPES = (
    "M-5,0 A5,5 0 1 1 5,0 A5,5 0 1 1 -5,0 Z",
    "M-4.5,-4.5 H4.5 V4.5 H-4.5 Z",
    "M0,-6 L6,0 L0,6 L-6,0 Z",
    "M0,-6 L5.5,4.5 H-5.5 Z",
    "M0,6 L5.5,-4.5 H-5.5 Z",
    "M-2,-6 H2 V-2 H6 V2 H2 V6 H-2 V2 H-6 V-2 H-2 Z",
    "M-2,-6 H2 V6 H-2 Z",
)


def text(x, y, words, kind="", anchor="start"):
    place = f'x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}"'
    return f"<text {place}>{escape(words)}</text>"


def mark(x, y, number, title):
    return (
        f'<path d="{SHAPES[number]}" transform="translate({x:.1f} {y:.1f})" '
        f'class="mark c{number}"><title>{escape(title)}</title></path>'
    )


def told(result, name):
    seconds = result["times"][name]["seconds"]
    return f"{name}: {milliseconds(seconds)} ms, {share(result, name):.0%} of the peak"


def draw_row(result, peers, y, even):
    middle = y + ROW / 2
    parts = [text(LABEL - 8, middle + 4, label(result), anchor="end")]
    if even:
        parts.insert(0, f'<rect x="{LABEL}" y="{y}" width="{WIDE}" height="{ROW}" class="band"/>')
    mine = share(result, "attc")
    if mine is not None:
        parts.append(
            f'<rect x="{LABEL}" y="{y + 5}" width="{WIDE * mine:.1f}" height="{ROW - 10}" '
            f'class="attc"><title>{escape(told(result, "attc"))}</title></rect>'
        )
    for number, name in enumerate(peers):
        theirs = share(result, name)
        if theirs is not None:
            parts.append(mark(LABEL + WIDE * theirs, middle, number, told(result, name)))
    return parts


def draw_panel(results, peers, y):
    """The cases of one number of threads below y; gives the parts and where they end."""
    threads = results[0]["threads"]
    bottom = y + TITLE + ROW * len(results)
    peak = max(result["peak_gflops"] for result in results)
    title = f"{threads} thread{'s' if threads > 1 else ''}, peak {peak:.0f} GFLOP/s"
    parts = [text(LABEL, y + 16, title, "title")]
    for i, result in enumerate(results):
        parts += draw_row(result, peers, y + TITLE + ROW * i, i % 2 == 0)
    grid = []
    for percent in range(0, 101, 20):
        x = LABEL + WIDE * percent / 100
        grid.append(f'<line x1="{x}" x2="{x}" y1="{y + TITLE}" y2="{bottom}" class="grid"/>')
        parts.append(text(x, bottom + 16, f"{percent}%", "quiet", "middle"))
    return grid + parts, bottom + AXIS


def draw_legend(peers, y):
    x = LABEL
    parts = [f'<rect x="{x}" y="{y - 9}" width="14" height="10" class="attc"/>']
    parts.append(text(x + 20, y, "attc"))
    for number, name in enumerate(peers):
        x += 72
        parts += [mark(x + 6, y - 4, number, name), text(x + 16, y, name)]
    return parts


def chart(results, contenders):
    peers = contenders[1:]
    parts, y = draw_legend(peers, MARGIN + 40), MARGIN + 52
    parts.append(text(LABEL, MARGIN + 12, "Useful work as a share of the machine's peak", "title"))
    for threads in dict.fromkeys(result["threads"] for result in results):
        panel, y = draw_panel([r for r in results if r["threads"] == threads], peers, y)
        parts += panel
    width, height = LABEL + WIDE + 2 * MARGIN, y + MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}">',
            f"<style>{STYLE}</style>",
            f'<rect width="{width}" height="{height}" class="page"/>',
            *parts,
            "</svg>\n",
        ]
    )
