"""What a kernel is told: whose run it is, on which terms, and which cases. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass

from harness.shapes import Case


@dataclass(frozen=True)
class RunRef:
    """Whose events these are. Empty in a built kernel; a push fills it; the driver makes up a missing id."""

    run_id: str = ""
    part: int = 1
    git_commit: str = ""
    git_dirty: bool = False


@dataclass(frozen=True)
class Terms:
    """What holds for every case of an order.

    `asked_accelerator` is a pattern of the device's name, `any` GPU, `cpu`, or empty for whatever is there;
    `devices` is how many cards to use at most, 0 for all; `seeds` is the number of weight seeds in the gate.
    `asked_count` is how many such cards must have come, as far as `devices` would use them, and
    `asked_capability` is theirs, as `7.5`; 0 and empty are no rule. `model` is the module to import the
    candidate from. Times are in seconds; 0 is no limit. `profile` asks for each case's top kernels.
    `target_ci` is the half-width of the speed-up's interval that `strict` samples for, as a share; 0 is a
    fixed number. `against` is the module of a second model that the candidate is compared with, which lies
    in a folder of its own, and `against_name` what people call it.
    """

    bundle_sha256: str
    harness_sha256: str
    model_sha256: str
    model: str = "model"
    own_harness: bool = False
    asked_accelerator: str = ""
    allow_mismatch: bool = False
    devices: int = 0
    seeds: int = 1
    timeout_s: float = 0.0
    case_timeout_s: float = 1800.0
    asked_count: int = 0
    asked_capability: str = ""
    profile: bool = False
    target_ci: float = 0.0
    against: str = ""
    against_name: str = ""


@dataclass(frozen=True)
class Order:
    """What a kernel carries out: terms and cases. One without cases is a probe: it only looks around."""

    terms: Terms
    cases: tuple[Case, ...]

    @property
    def is_probe(self) -> bool:
        """Whether it only reports what machine it finds."""
        return not self.cases
