"""Slurm's own programs, each asked with a deadline; their answers as data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from builder.commands import Answer, Runner
from builder.errors import CapacityError, DeniedError, InfrastructureError, RefusedThereError
from builder.terminal import printable

CALL_S = 45.0  # a controller that is down is noticed by Slurm's programs after about 20 s
_NOT_FOUND = 127
_FORMAT = "%i|%T|%r|%j"
_SILENT = re.compile(
    r"unable to contact|timed out|connection refused|temporarily|unexpected message|protocol authentication"
    r"|transport|can't be reached|in standby mode|zero bytes",
    re.IGNORECASE,
)
_FULL = re.compile(r"QOS|Assoc|submit limit|MaxJobCount|too many|limit.*reached", re.IGNORECASE)


@dataclass(frozen=True)
class Job:
    """A submitted job: Slurm's id (`12`, `12_3` in an array), its cluster if that was said, its folder."""

    id: str
    cluster: str
    folder: str

    @classmethod
    def of(cls, reference: str) -> Job:
        """Read what `reference` has written. DeniedError when it is no such thing."""
        found = re.fullmatch(r"(\d+(?:_\d+)?)(?:;([\w.-]+))?:(/.+)", reference)
        if found is None:
            raise DeniedError(f"{reference!r} names no Slurm job")
        return cls(found[1], found[2] or "", found[3])

    @property
    def reference(self) -> str:
        """What it takes to ask for the job another day."""
        return f"{self.id}{';' + self.cluster if self.cluster else ''}:{self.folder}"


@dataclass(frozen=True)
class Seen:
    """What Slurm says of a job: its words for state and reason, and `STATUS:SIGNAL` once it is over."""

    id: str
    word: str
    reason: str = ""
    exit_code: str = ""
    name: str = ""


class Cluster:
    """One cluster's commands on the machine that `runner` reaches.

    InfrastructureError: no answer, in time or at all.
    """

    def __init__(self, runner: Runner) -> None:
        self.runner = runner

    def ask(self, argv: Sequence[str], stdin: bytes = b"") -> Answer:
        """Return how a program ended; what says that Slurm itself is away is no answer."""
        answer = self.runner.run(argv, stdin=stdin, timeout_s=CALL_S)
        place = self.runner.host or "this machine"
        if answer.code == _NOT_FOUND:
            raise InfrastructureError(
                f"{place} has no Slurm: {answer.complaint}",
                "name a login node: host in the backend's profile",
            )
        if answer.code and _SILENT.search(answer.err.decode(errors="replace")):
            raise InfrastructureError(f"Slurm's controller does not answer {place}: {answer.complaint}")
        return answer

    def queue(self, cluster: str = "", name: str = "") -> list[Seen]:
        """Return all that Slurm still remembers of the user's jobs, or of those of one name."""
        named = [f"--name={name}"] if name else []
        argv = ["squeue", *_on(cluster), "--me", "-h", "-r", "-t", "all", *named, "-o", _FORMAT]
        answer = self.ask(argv)
        if answer.code:
            raise InfrastructureError(f"squeue failed: {answer.complaint}")
        lines = (line.split("|", 3) for line in answer.out.decode(errors="replace").splitlines())
        return [Seen(line[0], line[1], line[2], name=line[3]) for line in lines if len(line) == 4]

    def past(self, ids: Iterable[str], cluster: str = "") -> list[Seen]:
        """Return what the accounting has of jobs; nothing where there is none, or none that answers."""
        return self._accounted([*_on(cluster), "-j", ",".join(ids)])

    def past_named(self, name: str, cluster: str = "") -> list[Seen]:
        """Return what the accounting has of jobs with a name, the oldest first."""
        return self._accounted([*_on(cluster), "-S", "now-30days", f"--name={name}"])

    def _accounted(self, which: Sequence[str]) -> list[Seen]:
        argv = ["sacct", "-X", "-n", "-P", "-o", "JobID,State,ExitCode", *which]
        answer = self.runner.run(argv, timeout_s=CALL_S)
        lines = (line.split("|") for line in answer.out.decode(errors="replace").splitlines())
        found = [line for line in lines if len(line) == 3] if not answer.code else []
        return [Seen(job, (state.split() or [""])[0], exit_code=code) for job, state, code in found]

    def remembered(self, job: Job) -> Seen | None:
        """Return what the controller knows of one job, and None when it knows no such job."""
        answer = self.ask(["scontrol", *_on(job.cluster), "-o", "show", "job", job.id])
        text = answer.out.decode(errors="replace")
        word, reason, code = (_field(name, text) for name in ("JobState", "Reason", "ExitCode"))
        return Seen(job.id, word, reason, code) if word and not answer.code else None

    def cancel(self, job: Job) -> None:
        """End a job. DeniedError for one that Slurm does not know: scancel itself is silent about it."""
        if self.remembered(job) is None:
            raise DeniedError(f"Slurm knows no job {job.id}")
        answer = self.ask(["scancel", *_on(job.cluster), job.id])
        if answer.code:
            raise InfrastructureError(f"scancel failed: {answer.complaint}")

    def setting(self, name: str) -> str:
        """Return one of the controller's settings; empty when it has none of that name."""
        found = re.search(rf"^{name} *= *(\S+)", self._config(), re.MULTILINE)
        return found[1] if found else ""

    def _config(self) -> str:
        answer = self.ask(["scontrol", "show", "config"])
        if answer.code:
            raise InfrastructureError(f"scontrol failed: {answer.complaint}")
        return answer.out.decode(errors="replace")


def refuse(answer: Answer) -> None:
    """Raise what an unsuccessful sbatch amounts to: CapacityError or RefusedThereError."""
    if not answer.code:
        return
    lines = answer.err.decode(errors="replace").replace("sbatch: ", "").replace("error: ", "").splitlines()
    said = printable("; ".join(dict.fromkeys(filter(None, lines[-3:])))) or answer.complaint
    if _FULL.search(said):
        raise CapacityError(
            f"Slurm takes no more jobs: {said}", "wait for others to end, or ask for another QOS"
        )
    raise RefusedThereError(
        f"Slurm refused the job: {said}", "ferry doctor --backend slurm:PROFILE tries it out"
    )


def _on(cluster: str) -> list[str]:
    return [f"--clusters={cluster}"] if cluster else []


def _field(name: str, text: str) -> str:
    found = re.search(rf"\b{name}=(\S+)", text)
    return found[1] if found else ""
