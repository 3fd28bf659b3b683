"""A cluster that Slurm runs, from its login node or through ssh; profiles say how to use it.

A job's own result file has the last word: a scheduler that says COMPLETED has not seen a result. What the
scheduler says of the others is in `words`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from builder import config
from builder.backends import Finding, Intent, Limits, OutputFile, State, Status, Submission, Unmetered
from builder.backends.slurm import examination, folder, words
from builder.backends.slurm.cluster import Cluster, Job, Seen, refuse
from builder.backends.slurm.folder import Result
from builder.backends.slurm.profile import Profile
from builder.backends.slurm.script import job_script
from builder.commands import Runner, runner
from builder.errors import InfrastructureError, RefusedHereError
from builder.runs import atomic_write

REFUSED = "BadConstraints"  # a job that sbatch was told no about is remembered like one that failed
GRACE_S = 30.0  # an sbatch whose answer was lost has ended by then
FORGETS_S = 120.0  # accounting and shared disks lag behind by less
LOOK_S = 30.0  # a look at a log waits for more of it, but no longer
_SUBMIT = """set -e
mkdir -p "{scratch}"; cd "{scratch}"; pwd -P
name=$1; array=$2; shift 2; index=0
while [ "$1" != -- ]; do
    mkdir -p "$1"; echo "$name${{array:+ $index}}" >"$1/job"; index=$((index + 1)); shift
done
shift; exec "$@\""""
_FIND = (
    """cd "{scratch}" 2>/dev/null && pwd -P && cd "$1" 2>/dev/null && cat job && cat id 2>/dev/null || :"""
)


class Slurm(Unmetered):
    """The cluster that `profile` describes, by commands that `run` runs on its login node."""

    def __init__(
        self, profile: Profile | None = None, name: str = "slurm", run: Runner | None = None
    ) -> None:
        self.name = name
        self.profile = profile or Profile()
        self.runner = run or runner(self.profile.host)
        self.cluster = Cluster(self.runner)

    # --- submitting ---

    def submit(self, intent: Intent) -> Submission:
        """Hand one kernel to sbatch, on its stdin.

        Raises RefusedHereError for one that is too long and for an accelerator that the profile has not,
        RefusedThereError and CapacityError.
        """
        return self._submit([intent])[0]

    def submit_all(self, intents: Sequence[Intent]) -> list[Submission]:
        """Hand several parts over as job arrays, as few as the cluster allows, each with `throttle` at once.

        They want the same hardware, and the longest limit holds for each. Raises what `submit` does; arrays
        before the one that it is about were accepted, and `find` tells.
        """
        most = int(self.cluster.setting("MaxArraySize") or 1)
        chunks = [intents[start : start + most] for start in range(0, len(intents), most)]
        return [submission for chunk in chunks for submission in self._submit(chunk)]

    def _submit(self, intents: Sequence[Intent]) -> list[Submission]:
        """Hand over one job, or one array: two where one script would be too long."""
        slugs = [intent.slug for intent in intents]
        kernels = [(intent.folder / "kernel.py").read_bytes().decode() for intent in intents]
        try:
            script = job_script(self.profile, slugs, kernels)
        except RefusedHereError:
            if len(intents) == 1:
                raise
            half = len(intents) // 2
            return [*self._submit(intents[:half]), *self._submit(intents[half:])]
        array = _array(len(intents), self.profile.throttle)
        longest = max(intents, key=lambda intent: intent.timeout_s or float("inf"))
        options = self.profile.job(longest.accelerator, longest.devices, longest.timeout_s)
        # Options here go before those in the user's environment; a name is how a lost answer is found again.
        outlet = f"--output={slugs[0]}/slurm{'-%a' if array else ''}.out"  # of Slurm's own words
        sbatch = ["sbatch", "--parsable", f"--job-name={slugs[0]}", outlet, "--open-mode=append", *array]
        argv = self._sh(_SUBMIT, slugs[0], "".join(array), *slugs, "--", *sbatch, *options)
        answer = self.cluster.ask(argv, script)
        refuse(answer)
        return self._accepted(answer.out.decode(errors="replace").split("\n"), slugs)

    def _accepted(self, lines: Sequence[str], slugs: Sequence[str]) -> list[Submission]:
        """Read the scratch folder and sbatch's answer, `ID` or `ID;CLUSTER`."""
        said = next(filter(None, (re.fullmatch(r"(\d+)(?:;(\S+))?", line) for line in lines[1:])), None)
        if said is None:
            raise InfrastructureError("sbatch did not say what it made of the job")
        many = len(slugs) > 1
        return [
            self._submission(f"{said[1]}_{index}" if many else said[1], said[2] or "", lines[0], slug)
            for index, slug in enumerate(slugs)
        ]

    def outlook(self, accelerator: str, devices: int, timeout_s: float) -> str:
        """Say what `sbatch --test-only` says to a part, now."""
        return examination.outlook(self.cluster, self.profile, accelerator, devices, timeout_s)

    def find(self, intent: Intent) -> Submission | None:
        """Look for a job by its name: in its folder, the queue, the accounting."""
        answer = self.cluster.ask(self._sh(_FIND, intent.slug))
        scratch, job, own_id = [*answer.out.decode(errors="replace").splitlines(), "", "", ""][:3]
        if not job:
            return None
        (name, _, index), cluster = job.partition(" "), self.profile.cluster
        queued = self.cluster.queue(cluster, name) if not own_id else []
        known = [own_id] if own_id else [seen.id for seen in queued if seen.reason != REFUSED]
        known = known or [seen.id for seen in self.cluster.past_named(name, cluster)]
        mine = [found for found in known if found.partition("_")[2] == index]
        return self._submission(mine[-1], cluster, scratch, intent.slug) if mine else None

    def _submission(self, job: str, cluster: str, scratch: str, slug: str) -> Submission:
        return Submission(self.name, Job(job, cluster, f"{scratch}/{slug}").reference, slug)

    def _sh(self, text: str, *arguments: str) -> list[str]:
        return ["sh", "-c", text.format(scratch=self.profile.folder()), "sh", *arguments]

    # --- asking ---

    def status(self, submissions: Sequence[Submission]) -> list[Status]:
        """Ask the queue once about all; of what is over the result, the accounting, the controller."""
        jobs = [Job.of(submission.reference) for submission in submissions]
        queued = {
            (cluster, seen.id): seen
            for cluster in dict.fromkeys(job.cluster for job in jobs)
            for seen in self.cluster.queue(cluster)
        }
        found = {job: _seen(job, queued) for job in jobs}
        active = ((job, seen) for job, seen in found.items() if seen and _goes_on(seen))
        known = {job: words.pending(seen.word, seen.reason) for job, seen in active}
        known |= self._ends([job for job in jobs if job not in known], found)
        return [known[job] for job in jobs]

    def _ends(self, jobs: Sequence[Job], found: Mapping[Job, Seen | None]) -> dict[Job, Status]:
        if not jobs:
            return {}
        results = dict(zip(jobs, folder.results(self.runner, [job.folder for job in jobs]), strict=True))
        silent = [job for job in jobs if not isinstance(results[job], Result)]
        told = self._recalled([job for job in silent if found[job] is None])
        for job in silent:
            told[job] = told.get(job) or self.cluster.remembered(job) or found[job]
        return {job: self._end(job, results[job], told.get(job) or found[job]) for job in jobs}

    def _end(self, job: Job, result: Result | str, seen: Seen | None) -> Status:
        """Return what a job that is over has come to."""
        if isinstance(result, Result) and not result.stopped:
            failed = f"the kernel ended with status {result.returncode} on {result.node}"
            return Status(State.FAILED, failed) if result.returncode else Status(State.DONE)
        if seen is None and result == "":
            nothing = f"Slurm knows nothing of job {job.id} any more, and there is no result in {job.folder}"
            return Status(State.UNKNOWN, nothing)
        stopped = Status(State.CANCELLED, "stopped")
        if seen is None:
            return stopped
        said = folder.said(self.runner, job.folder) if seen.word == "FAILED" else ""
        status = words.ended(seen.word, seen.reason, seen.exit_code, said)
        # A kernel is told to stop by a requeue, which shows as COMPLETING, its time limit, or somebody.
        return stopped if isinstance(result, Result) and status.state is State.UNKNOWN else status

    def _recalled(self, jobs: Sequence[Job]) -> dict[Job, Seen | None]:
        """Return what the accounting has of jobs that the queue has forgotten, if it has their ends."""
        past = {
            (cluster, seen.id): seen
            for cluster in dict.fromkeys(job.cluster for job in jobs)
            for seen in self.cluster.past((job.id for job in jobs if job.cluster == cluster), cluster)
            if not _goes_on(seen)
        }
        return {job: past.get((job.cluster, job.id)) for job in jobs}

    def active(self) -> list[str]:
        """Return the names of ferry's jobs that wait or run."""
        names = (seen.name for seen in self.cluster.queue() if _goes_on(seen))
        return [name for name in names if name.startswith("ferry-")]

    def stop(self, submission: Submission) -> None:
        """Cancel the job; the kernel closes its records first. DeniedError when Slurm does not know it."""
        job = Job.of(submission.reference)
        folder.mark_stopped(self.runner, job.folder)
        self.cluster.cancel(job)

    def limits(self) -> Limits:
        """Say what the profile says."""
        profile = self.profile
        return Limits(
            sessions=profile.throttle,
            session_s=profile.longest_s(),
            poll_s=profile.poll,
            grace_s=GRACE_S,
            forgets_s=FORGETS_S,
            streams=True,
        )

    def checks(self) -> Iterator[Finding]:
        """Look whether Slurm answers; with a profile, also whether it would take its jobs, and runs torch."""
        return examination.checks(self.cluster, self.profile, tries_out=self.name != "slurm")

    # --- fetching ---

    def follow_log(self, submission: Submission) -> Iterator[bytes]:
        """Yield each attempt's log as it grows, one after another; it ends when the job is over."""
        job = Job.of(submission.reference)
        attempt, offset, over = 1, 0, False
        patience_s = min(self.profile.poll, LOOK_S)
        while True:
            news = folder.news(self.runner, job.folder, attempt, offset, 0.0 if over else patience_s)
            offset += len(news.data)
            yield news.data
            if news.data:
                continue
            if news.over == "next":
                attempt, offset = attempt + 1, 0
                yield b"\n"
            elif over or news.over:
                return
            else:
                over = self.status([submission])[0].state.is_over

    def fetch_log(self, submission: Submission, target: Path) -> None:
        """Write the logs of all attempts, one after another. DeniedError when the job has left none."""
        blocks = folder.log(self.runner, Job.of(submission.reference).folder)
        atomic_write(target, b"".join(blocks))

    def list_outputs(self, submission: Submission) -> Iterator[OutputFile]:
        """Yield the files of the working folder of the last attempt, which carries on the others' results."""
        return folder.outputs(self.runner, Job.of(submission.reference).folder)

    def fetch_output(self, submission: Submission, file: OutputFile) -> Iterator[bytes]:
        """Yield a file's bytes."""
        return folder.output(self.runner, Job.of(submission.reference).folder, file.name)


def _array(count: int, throttle: int) -> list[str]:
    if count == 1:
        return []
    return [f"--array=0-{count - 1}{f'%{throttle}' if throttle else ''}"]


def _seen(job: Job, queue: Mapping[tuple[str, str], Seen]) -> Seen | None:
    """Return what the queue has of a job: elements cancelled before they began are one there, the array."""
    own, array = (queue.get((job.cluster, name)) for name in (job.id, job.id.partition("_")[0]))
    return own or (array if array and not _goes_on(array) else None)


def _goes_on(seen: Seen) -> bool:
    """Whether Slurm says that a job is not over. One that completes may have left its result already."""
    return seen.word != "COMPLETING" and not words.STATES.get(seen.word, State.UNKNOWN).is_over


def profiled(name: str) -> Slurm:
    """Return the backend for the profile `slurm:name` of ferry.toml. UsageError when there is none."""
    return Slurm(config.profile("slurm", name, Profile), f"slurm:{name}")


BACKEND = Slurm
