"""10,000 cases over 500 workers that die, straggle and do not answer: what dealing them costs and loses.

Scheduler, run folder, journal, logs and records are the real ones; workers and clock are made up, and no
kernel is built. `scheduling` is the processor time of every decision who gets which case; the host's time in
all is that of the whole sweep: decisions, journal, submissions, and the logs that come, written and read.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.figures import ROOT, Figure

COUNTS = (1_000, 3_000, 10_000)
CASES_A_WORKER = 20
PLAY = """
import collections, sys, time
from builder import crossing
from builder.dealing import Dealer
from builder.standing import Standing
from tests.unit.simulated_places import Luck, play
spent, depth = 0.0, 0
def timed(was):
    def call(*args, **more):
        global spent, depth
        began, depth = time.process_time(), depth + 1
        try:
            return was(*args, **more)
        finally:
            depth -= 1
            spent += 0.0 if depth else time.process_time() - began
    return call
for owner, names in (
    (Dealer, ("take", "offer", "withdraw", "use")),
    (Standing, ("begin", "hold", "finish", "release", "late", "cut", "share")),
):
    for name in names:
        setattr(owner, name, timed(getattr(owner, name)))
count, workers = int(sys.argv[1]), int(sys.argv[2])
played = play(count, workers, Luck())
whole = time.process_time()
rows = crossing.parse(played.run).rows
assert len(rows) == len({row.case_id for row in rows}) == count
statuses = collections.Counter(row.status for row in rows)
assert set(statuses) == {"passed", "failed_gate"}, statuses
assert statuses["failed_gate"] == len(played.farm.failing)
assert played.run.is_finished
lines = open("/proc/self/status").read().splitlines()
peak = next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))
print(played.took_s / played.best_s, peak, 1e3 * spent / count, 1e3 * whole / count)
"""


def play(folder: Path, count: int) -> list[float]:
    """Return a sweep's time over the best, peak MiB, and ms of scheduling and of the host a case."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "FERRY_RUNS": str(folder / "runs")}
    command = [sys.executable, "-c", PLAY, str(count), str(count // CASES_A_WORKER)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return [float(word) for word in done.stdout.split()]


def measure(folder: Path) -> list[Figure]:
    """Play three sizes; what each step writes to disk goes to memory where that is possible."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else folder) as place:
        played = {count: play(Path(place), count) for count in COUNTS}
    over, peak, scheduling_ms, _ = played[COUNTS[-1]]
    scheduling = {str(count): [found[2]] for count, found in played.items()}
    whole = {str(count): [found[3]] for count, found in played.items()}
    growth = played[COUNTS[-1]][3] / played[COUNTS[0]][3]
    what = "10,000 cases over 500 workers"
    return [
        Figure(f"deal {what}: time over the best possible", over, "x", 1.15),
        Figure(f"deal {what}: peak memory", peak, "MiB", 300.0),
        Figure(f"deal {what}: scheduling a case", scheduling_ms, "ms", 1.0, samples=scheduling),
        Figure(f"deal {what}: host's time a case over that of 1,000", growth, "x", 4 / 3, samples=whole),
    ]
