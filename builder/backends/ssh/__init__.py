"""A machine of your own, or several alike, over ssh: no scheduler, nothing installed there but Python.

`ssh:NAME` is a profile `[backends.ssh.NAME]` of ferry.toml; without one of that name it is a host as
`ssh NAME` knows it. A submission's reference is `host:folder`. The states are told by
`templates/there/desk.py`, which has the table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from builder import config
from builder.backends import Finding, Intent, Limits, OutputFile, State, Status, Submission, Unmetered
from builder.backends.ssh import calls, checks
from builder.backends.ssh.calls import Busy, Calls, Listing, Profile, States
from builder.commands import Runner, runner
from builder.errors import DeniedError, FerryError, InfrastructureError, RefusedHereError, UsageError
from builder.runs import atomic_write
from builder.terminal import one_line

SUBMIT_S = 180.0
STOP_S = 120.0  # a kernel has its time to end by itself
CHOSEN = "host.txt"  # in the part's folder, before anything is sent: where to look for it


class Ssh(Unmetered):
    """Runs kernels on the machines of a profile; `connect` makes the way to one of them."""

    def __init__(
        self, name: str = "", profile: Profile | None = None, connect: Callable[[str], Runner] = runner
    ) -> None:
        self.name = f"ssh:{name}" if name else "ssh"
        self._profile = profile or Profile()
        self._hosts = self._profile.hosts or tuple(filter(None, [self._profile.host or name]))
        self._connect = connect
        self._calls: dict[str, Calls] = {}
        self._followed: dict[str, bytearray] = {}  # the logs as far as they have come

    def account(self) -> str:
        """There is none, but there must be a machine. Raises UsageError."""
        if not self._hosts:
            known = ", ".join(config.profiles("ssh")) or "none yet"
            raise UsageError(
                "ssh needs a machine: --backend ssh:HOST",
                f"profiles in ferry.toml: {known}; or a host's name",
            )
        return ""

    # --- submitting ---

    def submit(self, intent: Intent) -> Submission:
        """Send the kernel and have it started, once, however often this is called.

        With several hosts the least busy one that answers gets it. Raises RefusedThereError when the machine
        cannot take it, RefusedHereError when it cannot be asked to until somebody mends something.
        """
        try:
            return self._send(intent, self._least_busy())
        except UsageError as problem:
            raise RefusedHereError(problem.message, problem.hint) from problem

    def _send(self, intent: Intent, host: str) -> Submission:
        atomic_write(intent.folder / CHOSEN, host)
        kernel = (intent.folder / "kernel.py").read_bytes()
        job = {
            "accelerator": intent.accelerator,
            "devices": intent.devices,
            "cards": list(self._profile.devices),
            "timeout_s": intent.timeout_s,
            "environment": self._profile.environment,
        }
        sha256 = hashlib.sha256(kernel).hexdigest()
        arguments = (self._profile.folder, intent.slug, sha256, job)
        reply = self._at(host).ask(calls.Path, "submit", *arguments, stdin=kernel, timeout_s=SUBMIT_S)
        return self._submission(intent, host, reply.path)

    def find(self, intent: Intent) -> Submission | None:
        """Ask the machine that an earlier `submit` had chosen; what has chosen none has sent nothing."""
        chosen = intent.folder / CHOSEN
        if not chosen.exists():
            return None
        host = chosen.read_text()
        reply = self._at(host).ask(calls.Path, "find", self._profile.folder, intent.slug)
        return self._submission(intent, host, reply.path) if reply.path else None

    def _submission(self, intent: Intent, host: str, path: str) -> Submission:
        return Submission(self.name, f"{host}:{path}", intent.slug)

    def _least_busy(self) -> str:
        """Return the host with the fewest runs a card. Raises what the last one said when none answers."""
        self.account()
        if len(self._hosts) == 1:
            return self._hosts[0]
        with ThreadPoolExecutor(len(self._hosts)) as pool:
            found = list(pool.map(self._load, self._hosts))
        loads = {host: load for host, load in zip(self._hosts, found, strict=True) if isinstance(load, float)}
        if not loads:
            raise next(problem for problem in reversed(found) if isinstance(problem, FerryError))
        return min(loads, key=lambda host: loads[host])

    def _load(self, host: str) -> float | FerryError:
        try:
            busy = self._at(host).ask(Busy, "busy", self._profile.folder)
        except FerryError as problem:
            return problem
        return busy.runs / max(1, busy.cards)

    # --- asking ---

    def status(self, submissions: Sequence[Submission]) -> list[Status]:
        """Ask each machine once about all that it has."""
        places = [_place(submission) for submission in submissions]
        told: dict[tuple[str, str], Status] = {}
        for host in dict.fromkeys(host for host, _ in places):
            paths = [path for there, path in places if there == host]
            reply = self._at(host).ask(States, "states", paths)
            for path, (state, message) in zip(paths, reply.states, strict=True):
                told[host, path] = Status(State(state), one_line(message))
        return [told[place] for place in places]

    def follow_log(self, submission: Submission) -> Iterator[bytes]:
        """Yield the log; what an earlier connection has brought comes from here, not over the wire again."""
        host, path = _place(submission)
        had = self._followed.setdefault(submission.reference, bytearray())
        yield bytes(had)
        for block in self._at(host).stream("follow", path, len(had), silence_s=0.0):
            had += block
            yield block

    def fetch_log(self, submission: Submission, target: Path) -> None:
        """Write the log, all or nothing. DeniedError where the run has left none."""
        host, path = _place(submission)
        size = self._at(host).ask(Listing, "listing", path).log
        if size < 0:
            raise DeniedError(f"the run left no log on {host}")
        log = b"".join(self._at(host).stream("read", path, ""))
        if len(log) < size:
            raise InfrastructureError(f"the log came with {len(log):,} of its {size:,} bytes")
        atomic_write(target, log)

    def list_outputs(self, submission: Submission) -> Iterator[OutputFile]:
        """Yield the files of the working folder."""
        host, path = _place(submission)
        for name, size in self._at(host).ask(Listing, "listing", path).files:
            yield OutputFile(name, size)

    def fetch_output(self, submission: Submission, file: OutputFile) -> Iterator[bytes]:
        """Yield a file's bytes. InfrastructureError when there are fewer than were listed."""
        host, path = _place(submission)
        came = 0
        for block in self._at(host).stream("read", path, file.name):
            came += len(block)
            yield block
        if came < file.size:
            raise InfrastructureError(f"{file.name} came with {came:,} of its {file.size:,} bytes")

    def stop(self, submission: Submission) -> None:
        """End the kernel and all that it has started; it is gone when this returns."""
        host, path = _place(submission)
        self._at(host).ask(States, "stop", path, timeout_s=STOP_S)

    def limits(self) -> Limits:
        """As many runs as somebody likes: they wait for cards there."""
        return Limits(poll_s=5.0, streams=True)

    def checks(self) -> Iterator[Finding]:
        """Look at each machine; without a profile's name at those of all profiles."""
        for host in self._hosts:
            yield from checks.machine(self._at(host))
        if not self._hosts:
            yield from _every_profile()

    def _at(self, host: str) -> Calls:
        if host not in self._calls:
            self._calls[host] = Calls(self._profile, self._connect(host))
        return self._calls[host]


def _place(submission: Submission) -> tuple[str, str]:
    """Return host and folder of a submission; a folder begins with a slash."""
    host, _, path = submission.reference.partition(":/")
    return host, f"/{path}"


def _every_profile() -> Iterator[Finding]:
    try:
        names = config.profiles("ssh")
    except FerryError as problem:
        yield checks.trouble("profiles", problem)
        return
    if not names:
        yield Finding("profiles", "ferry.toml has no machine", "add [backends.ssh.NAME]", absent=True)
    for name in names:
        try:
            place = profiled(name)
        except FerryError as problem:
            yield checks.trouble(f"profile {name}", problem)
        else:
            yield from place.checks()


def profiled(name: str) -> Ssh:
    """Return the backend for a profile, or for the host of that name. UsageError for a wrong profile."""
    known = name in config.profiles("ssh")
    return Ssh(name, config.profile("ssh", name, Profile) if known else None)


BACKEND = Ssh
