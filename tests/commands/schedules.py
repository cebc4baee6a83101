# SPDX-License-Identifier: Apache-2.0
"""Entries of the database of schedules for tests, and its text."""

import json

HEAD = {"attc_schedules": 1, "schedule_version": 4}
STREAM = {"kind": "stream", "plan": "resident", "rows": 24, "piece": 512,
          "prefetch": "rule", "blocks": [{"rows": 12, "cols": 0, "lanes": 32, "sum": 0}]}
CONTRACT = {"kind": "contract", "transposed": 0, "contiguous_rows": 1, "task_batch": 1,
            "task_rows": 64, "task_lanes": 384, "block_k": 256, "block_rows": 48, "row_block": 8,
            "lane_block": 48, "pack_a": 0, "pack_b": 1, "prefetch": "rule", "blocks": []}
TASKS = {"kind": "tasks", "tasks": 4, "step_points": 0, "rows": 2, "prefetch": "rule", "blocks": []}
NONE = {"kind": "none", "prefetch": "rule", "blocks": []}


def entry(number=0, **changes):
    """Entries of different numbers have different keys; a text has its keys in this order."""
    whole = {
        "group": f"{number * 0x9E3779B97F4A7C15 % 2**64:016x}",
        "extents": "512 64 ~12",
        "target": "x86-64-v4",
        "machine": 'Some "CPU" é @ 3 GHz',
        "threads": 2,
        "name": f"Y{number}",
        "schedule": STREAM,
        "seconds": 0.000123,
        "default_seconds": 0.00015,
        "confidence": 0.99,
        "date": "2026-11-24T19:00:00Z",
    }
    assert set(changes) <= set(whole)
    return whole | changes


def text_of(*entries, head=HEAD):
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in (head, *entries))


def read(text):
    """The entries of a text."""
    head, *lines = text.splitlines()
    assert json.loads(head) == HEAD
    return [json.loads(line) for line in lines]
