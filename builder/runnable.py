"""Code blocks that a document marks are run as a reader would: in a fresh copy, with a time limit, offline.

The mark stands before the block: `<!-- ferry audit runs this -->`, with `: exit 3, 20 s` where it must end
otherwise or may take longer. The copy holds what git tracks of the checkout, in a temporary folder.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from builder.markdown import Block, blocks
from builder.mentions import Miss
from builder.terminal import one_line

LIMIT_S = 120.0
_MARK = re.compile(r"<!--\s*ferry audit runs this(?:\s*:\s*([^>]*?))?\s*-->\s*$")
_WORD = re.compile(r"exit (\d+)|(\d+) s")
_SHELLS = ("", "sh", "bash", "shell", "console")
_SECRET = re.compile(r"FERRY_|LEVER_|KAGGLE_|.*(?:TOKEN|SECRET|PASSWORD|_KEY)", re.IGNORECASE)
_NOWHERE = "http://127.0.0.1:9"  # a proxy that nobody is: what asks for the network finds none


@dataclass(frozen=True)
class Runnable:
    """A marked block: its first line in the document, its script, and how it must end."""

    line: int
    script: str
    exit_code: int = 0
    limit_s: float = LIMIT_S


def runnables(text: str) -> Iterator[Runnable | Miss]:
    """Yield a document's marked blocks; a mark with other words, or without a block of shell, is a miss."""
    for block, following in pairwise([*blocks(text), Block(0, "", "prose")]):
        if block.kind == "prose" and (found := _MARK.search(block.text.rstrip())):
            words = [word.strip() for word in (found[1] or "").split(",") if word.strip()]
            line = block.line_of(found.start())
            if wrong := [word for word in words if not _WORD.fullmatch(word)]:
                yield Miss(line, f"{wrong[0]!r} says nothing of how the block ends; as: exit 3, 20 s")
            elif following.kind != "code" or _language(following) not in _SHELLS:
                yield Miss(line, "no block of shell follows")
            else:
                yield _runnable(following, words)


def _language(block: Block) -> str:
    return block.text.split("\n")[0].strip(" `~").partition(" ")[0]


def _runnable(block: Block, words: list[str]) -> Runnable:
    lines = block.text.split("\n")[1:-1]
    if any(line.startswith("$ ") for line in lines):  # the others are what it prints
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    said = [_WORD.fullmatch(word) for word in words]
    codes = [int(found[1]) for found in said if found and found[1]]
    limits = [float(found[2]) for found in said if found and found[2]]
    return Runnable(block.number, "\n".join(lines), *(codes[-1:] or [0]), *(limits[-1:] or [LIMIT_S]))


def misses(text: str, folder: Path, root: Path) -> Iterator[Miss]:
    """Run a document's marked blocks one after another, and yield those that do not end as they must.

    `folder` is the document's, `root` its checkout's. Nothing in either is changed.
    """
    found = list(runnables(text))
    yield from (one for one in found if isinstance(one, Miss))
    if not any(isinstance(one, Runnable) for one in found):
        return
    with TemporaryDirectory(prefix="ferry-audit-") as name:
        checkout = Path(name) / "checkout"
        _copy(root, checkout)
        (here := checkout / folder.relative_to(root)).mkdir(parents=True, exist_ok=True)
        environment = _environment(Path(name), checkout)
        for one in found:
            if isinstance(one, Runnable) and (why := _run(one, here, environment)):
                yield Miss(one.line, f"this block {why}")


def _copy(root: Path, target: Path) -> None:
    """Copy what git tracks, as it is now; of a folder that is no checkout nothing."""
    target.mkdir()
    command = ["git", "-C", str(root), "ls-files", "-z"]
    done = subprocess.run(command, capture_output=True, check=False)
    for name in filter(None, os.fsdecode(done.stdout).split("\0")):
        if (root / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target / name)


def _environment(temporary: Path, checkout: Path) -> Mapping[str, str]:
    """Return what a reader's shell has: `ferry`, this Python, an empty home, no credential, no network."""
    programs = temporary / "programs"
    for folder in (programs, temporary / "home"):
        folder.mkdir()
    python = shlex.quote(sys.executable)
    for name, call in {"ferry": f"{python} -m builder", "python": python, "python3": python}.items():
        (programs / name).write_text(f'#!/bin/sh\nexec {call} "$@"\n', encoding="utf-8")
        (programs / name).chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not _SECRET.match(name)}
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), _NOWHERE)
    return {
        **kept,
        **proxies,
        "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "HOME": str(temporary / "home"),
        "XDG_CONFIG_HOME": str(temporary / "home"),
        "PYTHONPATH": str(Path(__file__).parents[1]),
        "FERRY_RUNS": str(checkout / "runs"),
    }


@cache
def _without_network() -> tuple[str, ...]:
    """Return the words that start a program without any network, where the system allows it."""
    for words in (("unshare", "--net"), ("unshare", "--user", "--map-current-user", "--net")):
        with contextlib.suppress(OSError):
            if subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0:
                return words
    return ()


def _run(one: Runnable, folder: Path, environment: Mapping[str, str]) -> str:
    """Return what went otherwise than it must; empty when nothing did."""
    with subprocess.Popen(
        [*_without_network(), "sh", "-euc", one.script],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=one.limit_s)
        except subprocess.TimeoutExpired:
            return f"takes longer than {one.limit_s:g} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode == one.exit_code:
        return ""
    last = one_line(output.decode(errors="replace").strip().rpartition("\n")[2])
    return f"ends with exit {process.returncode}, not {one.exit_code}: {last or 'it says nothing'}"
