"""Start and stop a Slurm of one's own: munged, slurmctld, a slurmd a node, all children of this process."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from jinja2 import Template

from builder.commands import Answer, Here

NODES = ("n1", "n2")
NEEDED = ("slurmctld", "slurmd", "munged", "sbatch")
START_S = 30.0
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_ROOT = Path(__file__).parents[3]
_TRIAL = "import builder, click, importlib.util; open(importlib.util.find_spec('torch').origin).close()"
_TEMPLATE = Path(__file__).parent / "slurm.conf.j2"


class AsUser(Here):
    """Runs programs on this machine as the cluster's user, with its environment."""

    def __init__(self, cluster: Cluster) -> None:
        self._prefix = [*cluster.prefix, *cluster.assignments()]

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float) -> Answer:
        """Return how a program ended; see `Here`."""
        return super().run([*self._prefix, *argv], stdin=stdin, timeout_s=timeout_s)

    def stream(
        self, argv: Sequence[str], *, stdin: bytes = b"", tick_s: float = 3.0, silence_s: float = 0.0
    ) -> Iterator[bytes]:
        """Yield what a program writes; see `Here`."""
        return super().stream([*self._prefix, *argv], stdin=stdin, tick_s=tick_s, silence_s=silence_s)


class Cluster:
    """A Slurm whose daemons and jobs are of one user: `nobody` where the tests are root's, unless `mine`."""

    def __init__(self, mine: bool = False) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ferry-slurm-", dir="/tmp"))  # every user may enter it
        self.folder.chmod(0o755)
        other = os.geteuid() == 0 and not mine
        self.user = "nobody" if other else pwd.getpwuid(os.geteuid()).pw_name
        self.prefix = _becoming(self.user) if other else []
        self.home = self.folder / "home"
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def environment(self) -> Mapping[str, str]:
        """What a process needs that talks to this cluster."""
        return {"SLURM_CONF": str(self.folder / "slurm.conf"), "HOME": str(self.home), "PATH": _PATH}

    def assignments(self) -> list[str]:
        """Return the beginning of a command line that sets the environment."""
        return ["env", *(f"{name}={value}" for name, value in self.environment.items())]

    def runner(self) -> AsUser:
        """Return what runs the user's commands."""
        return AsUser(self)

    # --- daemons ---

    def start(self, account: Callable[[Cluster], int] | None = None) -> None:
        """Start everything and wait until both nodes would take a job; `account` starts accounting first."""
        self._lay_out()
        munge = self.folder / "munge"
        files = [f"--{key}={munge / name}" for key, name in (("key-file", "key"), ("pid-file", "pid"))]
        files += [f"--{key}={munge / key}" for key in ("log-file", "seed-file")]
        self.launch("munged", "-F", "-S", str(munge / "sock"), *files)
        until_started((munge / "sock").exists)
        self._configure(account(self) if account else 0)
        self.launch_controller()
        for node in NODES:
            self.launch_node(node)
        until_started(self._is_ready)

    def launch_controller(self) -> None:
        """Start the controller, for the first time or again."""
        self.launch("slurmctld", "-D", "-f", self.environment["SLURM_CONF"])

    def launch_node(self, node: str) -> None:
        """Start a node's daemon, for the first time or again."""
        self.launch("slurmd", "-D", "-f", self.environment["SLURM_CONF"], "-N", node, name=node)

    def launch(self, program: str, *arguments: str, name: str = "") -> None:
        """Start a daemon in the foreground, as the cluster's user."""
        log = (self.folder / "log" / f"{name or program}.out").open("ab")
        self.daemons[name or program] = subprocess.Popen(
            [*self.prefix, *self.assignments(), program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=self.folder,
        )
        log.close()

    def kill(self, name: str) -> None:
        """Kill a daemon: `slurmctld` or a node's name."""
        self.daemons[name].kill()
        self.daemons[name].wait()

    def stop(self) -> None:
        """End the daemons, and whatever their jobs have left."""
        for daemon in reversed(self.daemons.values()):
            daemon.kill()
            daemon.wait()
        for _ in range(100):
            if not (left := self._left()):
                break
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _left(self) -> list[int]:
        """The processes whose environment names this cluster's file: those of its jobs."""
        found = []
        for entry in Path("/proc").glob("[1-9]*"):
            with contextlib.suppress(OSError):
                if f"SLURM_CONF={self.folder}/".encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
        return [pid for pid in found if pid != os.getpid()]

    def _lay_out(self) -> None:
        for name in ("munge", "state", "log", "home", *(f"spool.{node}" for node in NODES)):
            (self.folder / name).mkdir(exist_ok=True)
        key = self.folder / "munge" / "key"
        key.write_bytes(secrets.token_bytes(64))
        key.chmod(0o600)
        gpus = [
            f"NodeName={node} Name=gpu Type=t4 File=/dev/{it}" for node in NODES for it in ("null", "zero")
        ]
        (self.folder / "gres.conf").write_text("\n".join(gpus) + "\n")
        self.give(self.folder)

    def _configure(self, accounting_port: int) -> None:
        host = socket.gethostname().partition(".")[0]
        text = Template(_TEMPLATE.read_text(), trim_blocks=True).render(
            host=host,
            user=self.user,
            folder=self.folder,
            ports=free_ports(1 + len(NODES)),
            nodes=NODES,
            accounting_port=accounting_port,
        )
        (self.folder / "slurm.conf").write_text(text)

    def give(self, folder: Path) -> None:
        """Make a folder and all in it the user's own."""
        owner = pwd.getpwnam(self.user)
        for path in (folder, *folder.rglob("*")):
            os.chown(path, owner.pw_uid, owner.pw_gid)

    def _is_ready(self) -> bool:
        for name, daemon in self.daemons.items():
            log = self.folder / "log" / f"{name}.out"
            assert daemon.poll() is None, f"{name} ended: {log.read_text(errors='replace')[-2000:]}"
        answer = self.runner().run(["sinfo", "-h", "-N", "-p", "gpu", "-o", "%T"], timeout_s=30)
        return answer.out.split() == [b"idle"] * len(NODES)


def _becoming(user: str) -> list[str]:
    """Return the beginning of a command line that gives up root for a user's rights.

    Where root keeps this Python to itself the user may read it all the same, by the one capability that lets
    it read, or by the next larger one where there is not even that.
    """
    owner = pwd.getpwnam(user)
    plain = ["setpriv", f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups"]
    for capability in ("dac_read_search", "", "dac_override"):
        extra = [f"--inh-caps=+{capability}", f"--ambient-caps=+{capability}"] if capability else []
        tried = [*plain, *extra, "--", sys.executable, "-c", _TRIAL]
        if subprocess.run(tried, capture_output=True, check=False, cwd=_ROOT).returncode == 0:
            return [*plain, *extra, "--"]
    raise AssertionError(f"{sys.executable} cannot be run by user {user}")


def free_ports(count: int) -> list[int]:
    """Return ports of loopback that nobody listens on."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def until_started(condition: Callable[[], bool]) -> None:
    """Poll until a daemon is there; fail when it never is."""
    end = time.monotonic() + START_S
    while not condition():
        assert time.monotonic() < end, "Slurm did not start"
        time.sleep(0.05)


@contextlib.contextmanager
def running(mine: bool = False, account: Callable[[Cluster], int] | None = None) -> Iterator[Cluster]:
    """Start a cluster for a block. Without Slurm the test is skipped, and fails where CI=true."""
    missing = [name for name in NEEDED if shutil.which(name, path=_PATH) is None]
    if missing:
        why = f"this machine has no {', '.join(missing)}: install slurm-wlm and munge"
        pytest.fail(why) if os.environ.get("CI") == "true" else pytest.skip(why)
    cluster = Cluster(mine)
    try:
        cluster.start(account)
        yield cluster
    finally:
        cluster.stop()
