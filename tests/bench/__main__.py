"""Usage: python -m tests.bench [NAME...]   Run all benchmarks, or `bench_NAME.py` only.

The table is printed and written to `runs/bench-latest.md`, with every sample in `runs/bench-latest.json`.
Exit code 1: a figure is beyond its limit.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from harness.cards import find_gpus
from tests.bench.figures import ROOT, Figure


def names() -> list[str]:
    """The benchmarks that there are."""
    return sorted(path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py"))


def measure(name: str) -> list[Figure]:
    """Run one benchmark in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix=f"ferry-bench-{name}-") as folder:
        figures: list[Figure] = importlib.import_module(f"tests.bench.bench_{name}").measure(Path(folder))
    return figures


def machine() -> str:
    """What the figures were taken on."""
    system = f"{platform.system()} {platform.machine()}"
    gpus = "".join(f", {card.name}" for card in find_gpus())
    return f"Python {platform.python_version()}, {system}, {os.cpu_count()} cores{gpus}"


def table(figures: list[Figure]) -> str:
    """The figures as Markdown."""
    rows = [
        f"| {figure.name} | {figure.value:.3g} {figure.unit} | {'≤' if figure.at_most else '≥'} "
        f"{figure.limit:.3g} {figure.unit} | {'yes' if figure.holds else 'NO'} | {figure.sides} |"
        for figure in figures
    ]
    head = "| what | measured | limit | holds | sides: min/median |\n|---|--:|--:|---|---|"
    return "\n".join([f"{machine()}\n", head, *rows, ""])


def main(chosen: list[str]) -> int:
    """Run the chosen benchmarks, or all; return the exit code."""
    unknown = set(chosen) - set(names())
    if unknown:
        print(f"there is no benchmark {', '.join(sorted(unknown))}; there are: {', '.join(names())}")
        return 2
    figures = [figure for name in chosen or names() for figure in measure(name)]
    text = table(figures)
    print(text)
    (ROOT / "runs").mkdir(exist_ok=True)
    (ROOT / "runs" / "bench-latest.md").write_text(text, "utf-8")
    record = {
        "machine": machine(),
        "figures": [{**asdict(figure), "holds": figure.holds} for figure in figures],
    }
    (ROOT / "runs" / "bench-latest.json").write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    return 0 if all(figure.holds for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
