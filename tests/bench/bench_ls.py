"""How long a listing of 10,000 runs takes and in how much memory, with and without an index."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

from builder.index import FILE
from tests.bench.figures import ROOT, Figure, interleave, wall_s

RUNS = 10_000
FILES = ("spec.json", "journal.jsonl", "results.csv")  # what a row of the index is made from
PEAK = """
import sys
from pathlib import Path
from builder.__main__ import main
try:
    main()
finally:
    lines = Path("/proc/self/status").read_text().splitlines()
    print(next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), file=sys.stderr)
"""


def lay_out(root: Path, count: int) -> None:
    """Write `count` run folders, each the copy of a published run under an id of its own."""
    published = [path for path in sorted((ROOT / "runs" / "published").iterdir()) if path.name[:2] == "20"]
    texts = [{name: (path / name).read_text("utf-8") for name in FILES} for path in published]
    sources = itertools.cycle(zip(published, texts, strict=True))
    for number, (path, own) in enumerate(itertools.islice(sources, count)):
        run_id = f"2026{number // 800 % 12 + 1:02}{number % 28 + 1:02}-{number:06}-abcdef"
        (root / run_id).mkdir(parents=True)
        for name, text in own.items():
            (root / run_id / name).write_text(text.replace(path.name, run_id), "utf-8")


def peak_mib(folder: Path, *arguments: str) -> float:
    """Return the peak MiB of a `ferry` process."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "FERRY_RUNS": str(folder / "runs")}
    command = [sys.executable, "-c", PEAK, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True)
    return float(done.stderr.split()[-1])


def measure(folder: Path) -> list[Figure]:
    """List all runs without an index twice, then with it, in turns with a bare interpreter's start."""
    lay_out(folder / "runs", RUNS)
    index = folder / "runs" / FILE

    def listed(*arguments: str) -> float:
        return wall_s("-m", "builder", "ls", *arguments, cwd=folder)

    def cold() -> float:
        index.unlink(missing_ok=True)
        return listed()

    cold_s = [cold() for _ in range(2)]
    listed()
    sides = {
        "python": lambda: wall_s("-c", "pass", cwd=folder),
        "ls": listed,
        "ls --device h200 --route compiled": lambda: listed("--device", "h200", "--route", "compiled"),
        "ls --json": lambda: listed("--json"),
    }
    warm = interleave(sides, rounds=7)
    peaks = {"people": [peak_mib(folder, "ls")], "--json": [peak_mib(folder, "ls", "--json")]}
    index.unlink()
    peaks["no index"] = [peak_mib(folder, "ls")]
    return [
        Figure("ferry ls, 10,000 runs", median(warm["ls"]), "s", 0.3, samples=warm),
        Figure("ferry ls, 10,000 runs, no index yet", median(cold_s), "s", 30.0, samples={"ls": cold_s}),
        Figure("ferry ls, peak memory", max(max(peaks.values())), "MiB", 100.0, samples=peaks),
    ]
