"""The folder that a job has on the cluster, read with nothing but a shell and the usual small programs.

SCRATCH/<slug>/  job     name of the job and place in its array, written before sbatch is called
                 id      Slurm's id, written by the job when it begins
                 stopped what `stop` leaves behind
  <attempt>/     log  result.json  kernel.py  earlier.jsonl  work/ (the kernel's working folder)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from builder.backends import OutputFile
from builder.commands import Runner
from builder.errors import DeniedError, InfrastructureError
from harness.events import from_plain

READ_S = 60.0
_ATTEMPTS = """cd "$1" && n=1 && while [ -d "$((n + 1))" ]; do n=$((n + 1)); done"""
_LOG = f"""{_ATTEMPTS} || exit 1
for i in $(seq "$n"); do [ "$i" = 1 ] || echo; cat "$i/log"; done"""
_LIST = f"""{_ATTEMPTS} || exit 1
cd "$n/work" 2>/dev/null || exit 0
find . -type f -printf '%s %P\\0'"""
_FILE = f"""{_ATTEMPTS} || exit 1
cat -- "$n/work/$2\""""
_RESULTS = """for folder; do
    n=1; while [ -d "$folder/$((n + 1))" ]; do n=$((n + 1)); done
    if [ -e "$folder/$n/result.json" ]; then cat "$folder/$n/result.json"
    elif [ -e "$folder/stopped" ]; then echo stopped
    else echo; fi
done"""
_SAID = """cd "$1" && read -r name index <job && tail -n 20 "../$name/slurm${index:+-$index}.out" || :"""
# Whether the attempt is over is looked up before its log is read: then nothing is missing of it.
_NEW = """cd "$1" || exit 1
for i in $(seq "$4"); do
    over=$([ -d "$(($2 + 1))" ] && echo next || { [ -e "$2/result.json" ] && echo over; })
    size=$(wc -c <"$2/log" 2>/dev/null || echo 0)
    [ "$size" -gt "$3" ] || [ "$over" ] || [ "$i" = "$4" ] && break
    sleep 1
done
echo "$over"
[ "$size" -le "$3" ] || tail -c +"$(($3 + 1))" "$2/log" | head -c 1000000"""


@dataclass(frozen=True)
class Result:
    """What a job's script has written at its end: the kernel's exit code, and whether it was told to stop."""

    returncode: int
    stopped: bool
    node: str = ""


@dataclass(frozen=True)
class News:
    """What a log has that is new; `over` is empty, `over`, or `next` when another attempt has begun."""

    over: str
    data: bytes


def results(runner: Runner, folders: Sequence[str]) -> list[Result | str]:
    """Return the result in each folder, in one call; where there is none, `stopped` or an empty word."""
    lines = _run(runner, _RESULTS, *folders).decode(errors="replace").splitlines()
    found: list[Result | str] = []
    for line in lines:
        try:
            found.append(from_plain(Result, json.loads(line)))
        except (TypeError, ValueError):
            found.append(line if line == "stopped" else "")
    if len(found) != len(folders):
        raise InfrastructureError("the job folders cannot be read: their answer is not whole")
    return found


def said(runner: Runner, folder: str) -> str:
    """Return the end of what Slurm itself has written about a job; empty where it could not."""
    return _run(runner, _SAID, folder).decode(errors="replace")


def log(runner: Runner, folder: str) -> Iterator[bytes]:
    """Yield the log of every attempt, one after another. DeniedError when there is none."""
    _run(runner, 'test -e "$1/1/log" || { echo "no log in $1" >&2; exit 1; }', folder)
    yield from _blocks(runner, _LOG, folder)


def mark_stopped(runner: Runner, folder: str) -> None:
    """Leave the word that the job was meant to be stopped: Slurm may forget one that had not begun."""
    _run(runner, ': >"$1/stopped"', folder)


def outputs(runner: Runner, folder: str) -> Iterator[OutputFile]:
    """Yield the files of the last attempt's working folder."""
    for line in filter(None, _run(runner, _LIST, folder).split(b"\0")):
        size, _, name = line.decode(errors="replace").partition(" ")
        yield OutputFile(name, int(size))


def output(runner: Runner, folder: str, name: str) -> Iterator[bytes]:
    """Yield a file's bytes."""
    return _blocks(runner, _FILE, folder, name)


def news(runner: Runner, folder: str, attempt: int, offset: int, wait_s: float) -> News:
    """Return what an attempt's log has beyond `offset` bytes, waiting there for up to `wait_s` seconds."""
    looks = max(1, round(wait_s) + 1)
    answer = _run(runner, _NEW, folder, str(attempt), str(offset), str(looks), wait_s=wait_s)
    over, _, data = answer.partition(b"\n")
    return News(over.decode(), data)


def _run(runner: Runner, script: str, *arguments: str, wait_s: float = 0.0) -> bytes:
    answer = runner.run(["sh", "-c", script, "sh", *arguments], timeout_s=READ_S + wait_s)
    if answer.code:
        raise DeniedError(f"the job's folder cannot be read: {answer.complaint}")
    return answer.out


def _blocks(runner: Runner, script: str, *arguments: str) -> Iterator[bytes]:
    blocks = runner.stream(["sh", "-c", script, "sh", *arguments], silence_s=READ_S)
    return (block for block in blocks if block)
