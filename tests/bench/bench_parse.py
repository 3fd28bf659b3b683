"""How fast a log becomes records, and in how much memory; counting its line ends is the yardstick."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from harness.events import Body, End, Event, Name, Note, Plan, RunRef, Terms, encode
from tests.bench.figures import ROOT, Figure, interleave

MEGABYTES = 200

RUN = "20260101-000000-abcdef"
BODIES: tuple[Body, ...] = (
    Plan(RunRef(RUN), Terms("bundle", "harness", "model"), 0, "2026-01-01T00:00:00"),
    Note("half-way"),
    End("complete", {}, 1.0),
)

PARSE = """
from builder.records import read_records
def work(log):
    assert read_records([log]).end_reasons == ("complete",)
"""
COUNT = """
def work(log):
    with log.open("rb") as file:
        while block := file.read(262_144):
            block.count(b"\\n")
"""
TIMED = """
import sys, time
from pathlib import Path
began = time.perf_counter()
work(Path(sys.argv[1]))
seconds = time.perf_counter() - began
status = Path("/proc/self/status")
lines = status.read_text().splitlines() if status.exists() else []
print(seconds, next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0))
"""


def lines(line: str, size: int) -> Iterator[str]:
    """Yield `size` bytes of a line over and over, an event at the start, in the middle and at the end."""
    first, middle, last = (encode(Event(Name(RUN, 1, 1, n), 0.0, body)) for n, body in enumerate(BODIES, 1))
    count = size // 80
    yield first
    yield from (line for _ in range(count // 2))
    yield middle
    yield from (line for _ in range(count // 2))
    yield last


def plain_text(size: int) -> Iterator[str]:
    """Lines of 80 bytes."""
    return (f"{line}\n" for line in lines(f"step 00000123  loss 0.123456 {'.' * 50}", size))


def json_array(size: int) -> Iterator[str]:
    """Kaggle's form, in records of about 80 bytes."""
    yield "["
    for number, line in enumerate(lines("step 00000123  loss 0.12345", size)):
        data = json.dumps(f"{line}\n")
        yield f'{"," * bool(number)}{{"stream_name":"stdout","time":{number / 1e3:.3f},"data":{data}}}\n'
    yield "]"


# Form, its writer, and the least megabytes a second.
FORMS: dict[str, tuple[Callable[[int], Iterator[str]], float]] = {
    "plain text": (plain_text, 100.0),
    "JSON records": (json_array, 30.0),
}


def in_a_process(code: str, log: Path) -> tuple[float, float]:
    """Seconds of `work(log)` and the peak MiB of a process that does nothing else."""
    command = [sys.executable, "-c", code + TIMED, str(log)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    seconds, peak_mib = map(float, done.stdout.split())
    return seconds, peak_mib


def measure(folder: Path) -> list[Figure]:
    """Parse 200 MB of each form three times, in turns with counting its line ends."""
    return [figure for form in FORMS for figure in measure_form(form, folder / "log.raw")]


def measure_form(form: str, log: Path) -> list[Figure]:
    """Speed and peak memory of one form."""
    write, least = FORMS[form]
    with log.open("w", encoding="utf-8") as file:
        file.writelines(write(MEGABYTES * 1_000_000))
    peaks: list[float] = []

    def parse() -> float:
        seconds, peak_mib = in_a_process(PARSE, log)
        peaks.append(peak_mib)
        return seconds

    samples = interleave({"parse": parse, "wc -l": lambda: in_a_process(COUNT, log)[0]}, rounds=3)
    speed = log.stat().st_size / 1e6 / median(samples["parse"])
    return [
        Figure(f"parse {form}", speed, "MB/s", least, at_most=False, samples=samples),
        Figure(f"parse {form}, peak memory", max(peaks), "MiB", 64.0, samples={"MiB": peaks}),
    ]
