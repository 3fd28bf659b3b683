"""The text that sbatch gets on its stdin: one kernel, or those of several parts that differ in little."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import takewhile

from builder.backends.slurm.profile import Profile
from builder.errors import RefusedHereError
from builder.templating import render

MOST_BYTES = 3_500_000  # Slurm refuses 4 MiB, with words about a path that is too long


def job_script(profile: Profile, slugs: Sequence[str], kernels: Sequence[str]) -> bytes:
    """Return the job's script: element i of a job array runs `kernels[i]` in the folder `slugs[i]`.

    What the kernels begin and end with in common stands in it once. RefusedHereError when it is too long.
    """
    texts = [text if text.endswith("\n") else text + "\n" for text in kernels]
    head, bodies, tail = _shared(texts)
    script = render(
        "job.sh.j2",
        name=slugs[0],
        slugs=slugs,
        mark=f"END-{hashlib.sha256(''.join(texts).encode()).hexdigest()[:24]}",
        head=head,
        bodies=bodies,
        tail=tail,
        setup=profile.setup,
        python=profile.python,
    ).encode()
    if len(script) > MOST_BYTES:
        raise RefusedHereError(
            f"the job's script has {len(script):,} bytes, and Slurm takes at most {MOST_BYTES:,}",
            "leave files out of the bundle",
        )
    return script


def _shared(texts: Sequence[str]) -> tuple[str, list[str], str]:
    """Split texts, between lines, into what all begin with, what each has alone, and what all end with."""
    if len(texts) == 1:
        return texts[0], [], ""
    lines = [[f"{line}\n" for line in text.split("\n")[:-1]] for text in texts]
    first = _alike(lines)
    last = _alike([own[first:][::-1] for own in lines])
    bodies = ["".join(own[first : len(own) - last]) for own in lines]
    return "".join(lines[0][:first]), bodies, "".join(lines[0][len(lines[0]) - last :])


def _alike(texts: Sequence[Sequence[str]]) -> int:
    """Return how many lines all texts begin with in common."""
    return len([*takewhile(lambda row: len(set(row)) == 1, zip(*texts, strict=False))])
