"""What `ferry doctor` looks at: Slurm, its controller, each GPU type, and torch in a short job."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from builder.backends import Finding
from builder.backends.slurm.cluster import Cluster
from builder.backends.slurm.profile import Profile
from builder.commands import Answer
from builder.errors import FerryError, InfrastructureError

START_S = 60  # so long may the short job wait for its node
JOB_S = 120.0  # and so long may all of it take
_TORCH = (
    "import torch; names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]; "
    "print('torch', torch.__version__, 'on', ', '.join(names) or 'no GPU')"
)


def checks(cluster: Cluster, profile: Profile, tries_out: bool) -> Iterator[Finding]:
    """Yield what each look came to, until one says that the others are in vain; raises nothing."""
    try:
        yield from _answers(cluster)
        if tries_out:
            for accelerator in profile.types or ["any"]:
                yield _tried(cluster, profile, accelerator)
            yield _torch(cluster, profile)
    except FerryError as problem:
        yield Finding("slurm", problem.message, problem.hint or "see `scontrol ping` there", absent=True)


def _answers(cluster: Cluster) -> Iterator[Finding]:
    place = cluster.runner.host or "this machine"
    version = cluster.ask(["sbatch", "--version"])
    if version.code:
        raise InfrastructureError(f"Slurm is not set up on {place}: {version.complaint}", "see SLURM_CONF")
    yield Finding("sbatch", f"{version.out.decode().strip()} on {place}")
    cluster.queue()
    yield Finding("controller", f"cluster {cluster.setting('ClusterName')} answers")


def _tried(cluster: Cluster, profile: Profile, accelerator: str) -> Finding:
    """Let sbatch say whether it would take a job with such a GPU."""
    asked = [*profile.request(accelerator), *profile.options()]
    answer = _test(cluster, profile.job(accelerator, 0, 60.0))
    said = f"{' '.join(asked)}: {answer.complaint.removeprefix('sbatch: ')}"
    mend = "see gpu_request, types and partition in the profile" if answer.code else ""
    return Finding(f"accelerator {accelerator}", said, mend)


def outlook(cluster: Cluster, profile: Profile, accelerator: str, devices: int, timeout_s: float) -> str:
    """Say when sbatch would begin with a job, or why it would not; see `TriesOut`."""
    try:
        answer = _test(cluster, profile.job(accelerator, devices, timeout_s))
    except FerryError as problem:
        return problem.message
    if answer.code:
        return f"Slurm would refuse it: {answer.complaint}"
    found = re.search(r"to start at (\S+).* on nodes (\S+)", answer.complaint)
    return f"Slurm would begin at {found[1]} on {found[2]}" if found else answer.complaint


def _test(cluster: Cluster, options: Sequence[str]) -> Answer:
    return cluster.ask(["sbatch", "--test-only", *options, "--wrap=true"])


def _torch(cluster: Cluster, profile: Profile) -> Finding:
    """Import torch in a job of one minute, set up as every job is."""
    accelerator = next(iter(profile.types), "any")
    asked = [*profile.request(accelerator), *profile.options()]
    limits = ["--nodes=1", "--ntasks=1", "--time=1", f"--immediate={START_S}", "--job-name=ferry-doctor"]
    script = "\n".join([*profile.setup, f'{profile.python} -c "$1"'])
    answer = cluster.runner.run(
        ["srun", "--quiet", *limits, *asked, "bash", "-c", script, "bash", _TORCH], timeout_s=JOB_S
    )
    if answer.code:
        return Finding(
            "torch", f"a job could not import it: {answer.complaint}", "see python and setup in the profile"
        )
    said = answer.out.decode(errors="replace").strip().splitlines()
    return Finding("torch", said[-1] if said else "a job printed nothing")
