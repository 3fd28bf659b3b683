"""What a run is asked to do: frozen data, resolved from flags, environment and configuration files."""

from __future__ import annotations

from dataclasses import dataclass

from harness.shapes import Case


@dataclass(frozen=True)
class RunSpec:
    """One run, as asked. Written to `spec.json` before anything is pushed and never changed.

    `model_path` and `harness_path` are empty for gpuferry's own; `accelerator` is what was asked for, empty
    for whatever the machine has; `form` is `notebook` or `script`; `device_packages` are import names that
    the user says are installed where the kernel runs. Times are in seconds, 0 is no limit.
    """

    suite: str
    cases: tuple[Case, ...]
    run_id: str = ""
    created_at: str = ""
    git_commit: str = ""
    git_dirty: bool = False
    name: str = ""
    backend: str = "local"
    profile: str = ""
    accelerator: str = ""
    allow_mismatch: bool = False
    devices: int = 0
    seeds: int = 1
    timeout_s: float = 0.0
    case_timeout_s: float = 1800.0
    model_path: str = ""
    harness_path: str = ""
    form: str = "notebook"
    device_packages: tuple[str, ...] = ()
