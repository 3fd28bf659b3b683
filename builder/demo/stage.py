"""Where a scene is played: a folder and an environment of its own, in which commands are really run."""

from __future__ import annotations

import json
import os
import re
import signal
import site
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from builder.backends.local import Local
from builder.demo.loopback import TOKEN, USER, Loopback
from builder.ending import end_group
from builder.errors import InfrastructureError
from builder.templating import ROOT, TEMPLATES

PUSHED = r"^Kernel version .* pushed\."  # what Kaggle's client says of a good push, without the address
LIMIT_S = 300.0  # for one command
GOODBYE_S = 20.0  # for an interrupted `ferry run` to stop its kernel
LIB = "lib"
# What may lead a command to the user's own account, runs, settings or another network.
_NOT_ON_STAGE = re.compile(r"KAGGLE_|FERRY_(?!PYTHON$)|LEVER_|.*_PROXY$", re.IGNORECASE)
# Kaggle's own command line, as its users start it; the script of that name may not be on the PATH.
_KAGGLE = "import sys; sys.argv[0] = 'kaggle'; from kaggle.cli import main; main()"
_FERRY = "import sys; sys.path.insert(0, sys.argv.pop(1)); from builder.__main__ import main; main()"
_SETTINGS = 'shapes = "1"\nas = "script"\nno_rehearsal = true\n'


@dataclass(frozen=True)
class Act:
    """One command that was run, the usual way or by ferry: as it is typed, what it said, how it ended.

    `told` is what matters of it here, line by line; `expected` is the exit code that the scene is about.
    """

    by: str
    command: str
    said: str
    exit_code: int
    expected: int
    told: tuple[str, ...]


class Stage:
    """One scene's folder, and the ways to run something in it. `service` is what Kaggle is here."""

    def __init__(self, folder: Path, service: Loopback) -> None:
        self.folder = folder
        self.service = service
        self._environment = _environment(folder, service.address)
        service.environment = self._environment
        (folder / "tmp").mkdir()
        (folder / LIB).mkdir()
        (folder / LIB / "harness").symlink_to(ROOT / "harness")  # another Python may not have gpuferry
        (folder / "ferry.toml").write_text(_SETTINGS, "utf-8")

    def prop(self, name: str, folder: str = "") -> Path:
        """Lay a file of `templates/demo/` into the stage's folder, or one in it; return where it is."""
        (source,) = (TEMPLATES / "demo").glob(f"{name}*")
        target = self.folder / folder / name
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(source.read_bytes())
        return target

    def kernel(self, name: str) -> None:
        """Lay down a folder that Kaggle's client can push: a script that reports a time."""
        about = {"id": f"{USER}/{name}", "title": name, "code_file": self.prop("train.py", name).name}
        about |= {"language": "python", "kernel_type": "script"}
        (self.folder / name / "kernel-metadata.json").write_text(json.dumps(about), "utf-8")

    def hardware(self, cards: Sequence[Mapping[str, object]]) -> None:
        """Let the service's sessions find these cards: the way in which tests make hardware up."""
        file = self.folder / "hardware.json"
        file.write_text(json.dumps({"cards": cards}), "utf-8")
        self.service.environment = {**self._environment, "FERRY_TEST_HARDWARE": str(file)}

    def kaggle(self, words: str, tells: str = ".+", expected: int = 0) -> Act:
        """Run Kaggle's own client."""
        command = [sys.executable, "-c", _KAGGLE, *words.split()]
        return self._run("usual", f"kaggle {words}", command, tells, expected)

    def script(self, words: str, tells: str = ".+", expected: int = 0) -> Act:
        """Run a Python program the usual way."""
        return self._run("usual", f"python {words}", [python(), *words.split()], tells, expected)

    def ferry(self, words: str, tells: str = ".+", expected: int = 0) -> Act:
        """Run this `ferry`."""
        command = [sys.executable, "-c", _FERRY, str(ROOT), *words.split()]
        return self._run("ferry", f"ferry {words}", command, tells, expected)

    def _run(self, by: str, typed: str, command: Sequence[str], tells: str, expected: int) -> Act:
        """Run a command to its end; whatever interrupts this, nothing of the command is left running."""
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        try:
            said, _ = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            raise InfrastructureError(
                f"`{typed}` had not ended after {LIMIT_S:g} s", "is this machine very busy? try again"
            ) from None
        finally:
            end_group(process, signal.SIGINT, GOODBYE_S)
        said = said.replace(f"{self.folder}/", "")
        told = tuple(filter(None, (_told(line, tells) for line in said.splitlines())))
        return Act(by, typed, said, process.returncode, expected, told)


def _told(line: str, tells: str) -> str:
    """Return what of a line matters; a cut end shows."""
    found = re.search(tells, line)
    return f"{found[0].strip()}{' …' if line[found.end() :].strip() else ''}" if found else ""


def python() -> str:
    """Return the interpreter of everyday scripts, which is that of local runs."""
    return Local().python


def _environment(folder: Path, service: str) -> dict[str, str]:
    """Return what commands find: all of this process's but the user's credentials, runs and proxies."""
    kept = {name: value for name, value in os.environ.items() if not _NOT_ON_STAGE.match(name)}
    return {
        **kept,
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "PYTHONUSERBASE": site.getuserbase(),  # or else packages below the real home would be out of sight
        "PYTHONPATH": os.pathsep.join(filter(None, [str(folder / LIB), os.environ.get("PYTHONPATH", "")])),
        "PYTHONUTF8": "1",
        "TMPDIR": str(folder / "tmp"),
        "FERRY_RUNS": str(folder / "runs"),
        "KAGGLE_API_ENVIRONMENT": "LOCALHOST",
        "KAGGLE_API_TOKEN": TOKEN,
        "HTTP_PROXY": service,
        "HTTPS_PROXY": service,
    }
