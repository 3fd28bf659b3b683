"""How a cluster is used: the keys of a table `[backends.slurm.NAME]`, and the options of sbatch they make."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from builder.config import DURATION
from builder.errors import RefusedHereError

SPARE_S = 120.0  # a job's time beyond the kernel's own limit: the kernel is to end first
_DAY_S = 86_400.0


@dataclass(frozen=True)
class Profile:
    """One way to use a cluster.

    `host` is the login node, as for ssh, empty when this machine is one; `cluster` is for sites whose login
    nodes serve several. `python` and `setup` are shell text
    of the job; `scratch` is a folder that login node and nodes share, below the home unless it is absolute.
    `gpu_request` are options of sbatch in which `{type}` and `{n}` stand for what `types` makes of the
    accelerator and for the number of GPUs, which is `gpus` unless `--devices` says it. `extra` are further
    options of sbatch. `throttle` is how many jobs of a sweep run at once, 0 for any number; `time_limit` the
    longest that a job may take there, `poll` the time between two questions, in seconds.
    """

    host: str = ""
    cluster: str = ""
    partition: str = ""
    account: str = ""
    qos: str = ""
    python: str = "python3"
    setup: tuple[str, ...] = ()
    scratch: str = "ferry-jobs"
    extra: tuple[str, ...] = ()
    gpu_request: str = "--gres=gpu:{type}:{n}"
    types: dict[str, str] = field(default_factory=dict)
    gpus: int = 1
    requeue: bool = False
    throttle: int = 0
    time_limit: float = field(default=_DAY_S, metadata=DURATION)
    poll: float = field(default=10.0, metadata=DURATION)

    def folder(self) -> str:
        """Return the scratch folder as text for a shell on the cluster, to stand within double quotes.

        RefusedHereError for a name that would not stay within them.
        """
        if not re.fullmatch(r"[^\"`\\\n]+", self.scratch) or "$(" in self.scratch:
            raise RefusedHereError(
                f"scratch {self.scratch!r} is no name of a folder", "write a path; $USER may stand in it"
            )
        below_home = self.scratch.removeprefix("~/")
        return below_home if below_home.startswith(("/", "$")) else f"$HOME/{below_home}"

    def options(self) -> list[str]:
        """Return the options of sbatch, salloc and srun that hold for every job of the profile."""
        named = {"clusters": self.cluster, "partition": self.partition}
        named |= {"account": self.account, "qos": self.qos}
        return [*(f"--{key}={value}" for key, value in named.items() if value), *self.extra]

    def request(self, accelerator: str, devices: int = 0) -> list[str]:
        """Return the options that ask for GPUs. RefusedHereError for an accelerator that the profile has not.

        For `any` without a single type those parts of the request are left out that name one.
        """
        if accelerator == "cpu":
            return []
        values = {"type": self._type(accelerator), "n": str(devices or self.gpus)}
        try:
            words = [_filled(word, values) for word in shlex.split(self.gpu_request)]
        except ValueError as problem:
            raise RefusedHereError(
                f"gpu_request {self.gpu_request!r} does not make options: {problem}",
                "for example --gres=gpu:{type}:{n}",
            ) from problem
        return list(filter(None, words))

    def _type(self, accelerator: str) -> str:
        if accelerator in ("", "any"):
            return next(iter(self.types.values())) if len(self.types) == 1 else ""
        if not self.types:
            return accelerator.lower()
        types = {pattern.lower(): name for pattern, name in self.types.items()}
        if accelerator.lower() not in types:
            raise RefusedHereError(
                f"the profile has no GPU type for accelerator {accelerator!r}",
                f"its types: {', '.join(self.types)}",
            )
        return types[accelerator.lower()]

    def longest_s(self) -> float:
        """Return the longest limit that a kernel may have in a job there, in seconds."""
        return max(60.0, self.time_limit - SPARE_S)

    def job(self, accelerator: str, devices: int, timeout_s: float) -> list[str]:
        """Return what sbatch is told of a part's job: one task on one node, GPUs, time."""
        requeue = "--requeue" if self.requeue else "--no-requeue"
        limit = [f"--time={math.ceil((timeout_s + SPARE_S) / 60)}"] if timeout_s else []
        one = ["--nodes=1", "--ntasks=1"]
        return [requeue, *one, *limit, *self.request(accelerator, devices), *self.options()]


def _filled(word: str, values: Mapping[str, str]) -> str:
    """Fill in a word of the request; one that is about an unknown type says less, or nothing."""
    if not values["type"]:
        word = word.replace(":{type}", "")
    if "{type}" in word and not values["type"]:
        return ""
    try:
        return word.format(**values)
    except (KeyError, IndexError) as problem:
        raise ValueError(f"{problem} is not known in it") from problem
