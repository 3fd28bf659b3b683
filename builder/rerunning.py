"""Send a stored kernel again: the code that a run had, whatever lies here today, as a run of its own.

All that changes in the kernel is RUN, which says whose run it is, and, where it goes elsewhere, what the
order asks for. Every other byte is the stored one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from builder import accelerators, announcing, crossing, runs, stored
from builder.backends import Backend
from builder.build import CODE_FILES, as_json, metadata
from builder.clock import Clock
from builder.disk import atomic_write
from builder.errors import UsageError
from builder.kernel import asked, order_text, run_text
from builder.runs import Run, slug
from builder.spec import RunSpec
from harness.events import RunRef


@dataclass(frozen=True)
class Elsewhere:
    """Where a run is to be made again; empty is where it was."""

    backend: str = ""
    accelerator: str = ""
    allow_mismatch: bool = False
    name: str = ""


def spec_for(run: Run, where: Elsewhere) -> RunSpec:
    """Return the spec of a run's repetition. UsageError when the place and the accelerator contradict."""
    old = run.spec
    known = accelerators.lookup(where.accelerator) if where.accelerator else None
    stays = not known and where.backend in ("", old.backend)
    backend = accelerators.choose_backend(
        where.backend or (old.backend if stays else None),
        where.accelerator or (old.accelerator if stays else ""),
    )
    default = old.accelerator if stays else accelerators.default_accelerator(backend)
    return replace(
        old,
        run_id=runs.new_run_id(),
        created_at=runs.now_text(),
        backend=backend,
        accelerator=where.accelerator or default,
        allow_mismatch=where.allow_mismatch or old.allow_mismatch,
        name=where.name or f"again: {run.id}",
    )


def rerun(
    run: Run,
    spec: RunSpec,
    backend: Backend,
    clock: Clock,
    tell: Callable[[str], None],
    rehearsal: bool = False,
    when_free: bool = False,
) -> Run:
    """Send a run's stored kernel as the run of `spec`; return that run once its place has accepted it.

    Raises UsageError when the kernel was altered or is not there, and what `crossing.push` raises.
    """
    backend.account()
    spec = replace(spec, timeout_s=announcing.timeout_s(spec, backend.limits()))
    facts = _intact(run)
    tell(f"the kernel of run {run.id}, bundle {str(facts['bundle_sha256'])[:12]}, as it was stored")
    return crossing.send(
        spec, lambda folder: _write(run, spec, facts, folder), backend, clock, tell, rehearsal, when_free
    )


def _first_part(run: Run) -> Path:
    """The part that has all of a run's cases."""
    parts = run.parts()
    if not parts:
        raise UsageError(f"run {run.id} has no kernel", "push it anew")
    return run.part(parts[0])


def _intact(run: Run) -> Mapping[str, Any]:
    """Return what `bundle.json` says, once the stored kernel is known to be the one that was built."""
    part = _first_part(run)
    try:
        facts: dict[str, Any] = json.loads((part / "bundle.json").read_text(encoding="utf-8"))
        kernel, wanted = part / CODE_FILES[facts["form"]], facts["kernel_sha256"]
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise UsageError(f"{part / 'bundle.json'} cannot be read: {problem!r}", "push it anew") from problem
    if stored.sha256_of(kernel) != wanted:
        raise UsageError(
            f"the kernel {kernel} was altered", "a published copy, or git, may have the true one"
        )
    return facts


def _write(run: Run, spec: RunSpec, facts: Mapping[str, Any], folder: Path) -> None:
    """Write the stored kernel, with a RUN of its own, and what belongs to it."""
    part = _first_part(run)
    ref = RunRef(spec.run_id, crossing.FIRST_PART, spec.git_commit, spec.git_dirty)
    texts = {stored.RUN: run_text(ref), **_order(part / "kernel.py", spec)}
    for name in CODE_FILES.values():
        atomic_write(folder / name, stored.with_texts(part / name, texts))
    told = dict(facts) | {"kernel_sha256": stored.sha256_of(folder / CODE_FILES[spec.form])}
    atomic_write(folder / "bundle.json", as_json(told))
    name = slug(spec.run_id, crossing.FIRST_PART)
    atomic_write(folder / "kernel-metadata.json", as_json(metadata(spec, name)))


def _order(kernel: Path, spec: RunSpec) -> dict[str, str]:
    """Return the order's text where it must ask for something else: an old kernel knows its own terms."""
    plain = json.loads(stored.texts_of(kernel)[stored.ORDER])
    wanted = {name: value for name, value in asked(spec).items() if name in plain["terms"]}
    if plain["terms"] | wanted == plain["terms"]:
        return {}
    return {stored.ORDER: order_text({**plain, "terms": plain["terms"] | wanted})}
