"""What could be wrong on this machine: gpuferry's own needs, then those of each place."""

from __future__ import annotations

import platform
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from builder import backends
from builder.backends import Finding
from builder.runs import runs_root

LEAST_GIB = 1.0
_NEED = re.compile(r"([\w.-]+)[^;]*?>=([\d.]+)[^;]*$")  # of those without a condition


def examine(places: Sequence[str]) -> Iterator[tuple[str, Finding]]:
    """Yield (`ferry` or the place's name, what a check came to), the general ones first."""
    for finding in (_versions(), *_folders()):
        yield "ferry", finding
    for place in places:
        for finding in backends.load(place).checks():
            yield place, finding


def _versions() -> Finding:
    python = f"Python {platform.python_version()}"
    try:
        here, needs = f"gpuferry {version('gpuferry')}, {python}", requires("gpuferry") or []
    except PackageNotFoundError:
        return Finding("versions", f"gpuferry from its sources, not installed, {python}")
    wrong = [found for line in needs if (found := _unfit(line))]
    if wrong:
        return Finding("versions", f"{here}; {'; '.join(wrong)}", "pip install --upgrade gpuferry")
    return Finding("versions", here)


def _unfit(need: str) -> str:
    """Say what is wrong with the package that a line such as `click>=8.2` needs; empty when it is there."""
    found = _NEED.match(need)
    if found is None:
        return ""
    name, least = found.groups()
    try:
        has = version(name)
    except PackageNotFoundError:
        return f"{name} is not installed"
    return "" if _numbers(has) >= _numbers(least) else f"{name} {has}, {least} is needed"


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)[:3]]


def _folders() -> Iterator[Finding]:
    for what, folder in (("runs", runs_root()), ("temporary files", Path(tempfile.gettempdir()))):
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        try:
            with tempfile.TemporaryFile(dir=there):
                free_gib = shutil.disk_usage(there).free / 2**30
        except OSError as problem:
            yield Finding(
                what, f"{there} cannot be written to: {problem.strerror}", "FERRY_RUNS or TMPDIR name another"
            )
            continue
        mend = "" if free_gib >= LEAST_GIB else "make room, or let FERRY_RUNS or TMPDIR name another disk"
        yield Finding(what, f"{folder}, {free_gib:.1f} GiB free", mend)
