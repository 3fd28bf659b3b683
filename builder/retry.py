"""Asking a place again after it gave no answer. For reads alone: a push is looked for, not just repeated."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar

from builder.clock import Clock
from builder.errors import DeniedError, InfrastructureError

T = TypeVar("T")

TRIES = 4
FIRST_S = 2.0
LONGEST_S = 60.0


def pause_s(error: InfrastructureError, failures: int) -> float:
    """Return how long to wait after the `failures`th failure in a row.

    Twice as long each time, a random half of it less so that many hosts do not come back together; never
    shorter than the place asks for.
    """
    longest = min(FIRST_S * 2.0 ** (failures - 1), LONGEST_S)
    return max(error.retry_after_s, longest * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, no secret


def read(ask: Callable[[], T], clock: Clock, tries: int = TRIES) -> T:
    """Return what `ask` returns, asking up to `tries` times. A denial is not asked about again."""
    failures = 0
    while True:
        try:
            return ask()
        except DeniedError:
            raise
        except InfrastructureError as error:
            failures += 1
            if failures == tries:
                raise
            clock.sleep(pause_s(error, failures))
