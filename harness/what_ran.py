"""What really ran in a case: seen by running it again once it is timed, so that looking disturbs nothing.

On a GPU torch's profiler leaves a process slower than it was, and the worker of a `short` case serves the
next one: there the kernels are watched only where somebody asks for a profile. Without it nobody knows of
such a case which attention backend fired, whether TF32 kernels or graphs ran, or who waited for whom.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor, nn

from harness import attention, observing
from harness.events import Profile, Work
from harness.profiling import Seen, watch
from harness.serving import is_out_of_memory
from harness.shapes import FRESH_WORKER, Case

T = TypeVar("T")

HOST_BOUND_BELOW = 0.8  # of a call's time: when the device works for less of it, it waits for the host
LOOK_S = 0.3  # how much of a side's calls is watched
LONGEST_CALL_S = 10.0  # of a longer one only `--profile` asks for another
MOST_CALLS = 5
TOP = 10
_UNWATCHED = "none: the kernels of a short case are watched only with --profile"
NAME_CHARACTERS = 120
_LIMIT = re.compile(r"(recompile|cache.?size).?limit")
# cuBLAS: s1688 is the tensor cores' TF32 step; Hopper's `nvjet` names its operands, s is float32.
_TF32 = re.compile(r"tf32|s1688gemm|nvjet_(sm\d+_)?s", re.IGNORECASE)


@dataclass(frozen=True)
class Side:
    """One side, `baseline` or `candidate`, and its time for one call in milliseconds.

    `enter` sets the process up as it was while the side was timed.
    """

    name: str
    model: nn.Module
    call_ms: float
    enter: Callable[[], object] = list

    @property
    def is_long(self) -> bool:
        """Whether only somebody who asked waits for one more call."""
        return self.call_ms > LONGEST_CALL_S * 1e3


@dataclass
class Findings:
    """What was seen; `profiles` only when they were asked for."""

    attention_backend: str
    flags: dict[str, str]
    profiles: list[Profile]


def look(case: Case, sides: Sequence[Side], x: Tensor, mask: Tensor, full: bool) -> Findings:
    """Watch the sides, the candidate last, on x [B,S,D] and mask [B,S]; `full` asks for the top work.

    Nothing that goes wrong here is a failure of the case: the flags say what could not be seen.
    """
    found = Findings("", compilation(), [])
    for side in sides:
        _look_at(side, found, case, x, mask, full)
    if x.is_cuda:
        found.flags |= {} if full or case.protocol in FRESH_WORKER else {"profile": _UNWATCHED}
        could = guarded(found.flags, "sdpa_eligible", partial(_eligible, sides[-1], case, x, mask))
        found.flags |= could.flags() if could else {}
    return found


def _look_at(side: Side, found: Findings, case: Case, x: Tensor, mask: Tensor, full: bool) -> None:
    prefix = "" if side.name == "candidate" else f"{side.name}_"
    side.enter()
    before = observing.precision_state()
    watched = full or not x.is_cuda or case.protocol in FRESH_WORKER
    look = partial(_watch, side, x, mask, full)
    seen = guarded(found.flags, f"{prefix}profile", look) if watched else None
    if x.is_cuda:
        after = observing.precision_state()
        found.flags[f"{prefix}precision"] = before if before == after else f"{before} to {after}"
    if seen is None:
        return
    found.flags |= {f"{prefix}{name}": text for name, text in told(seen, side, x.is_cuda).items()}
    found.profiles += [top(case.id, side, seen)] if full else []
    if side.name == "candidate" and seen.work:
        found.attention_backend = attention.fired(seen.names)


def _eligible(side: Side, case: Case, x: Tensor, mask: Tensor) -> attention.Eligible:
    query = partial(_query, x, case.shape.heads)
    if side.is_long:
        return attention.supposed(query, case.shape.causal)
    return attention.eligible(lambda: side.model(x, mask), query, case.shape.causal)


def _watch(side: Side, x: Tensor, mask: Tensor, full: bool) -> Seen:
    if side.is_long and not full:
        raise TooLongError(f"a call takes {side.call_ms / 1e3:.3g} s, --profile looks all the same")
    calls = min(MOST_CALLS, max(1, int(LOOK_S * 1e3 / side.call_ms)))
    return watch(lambda: side.model(x, mask), calls, x.device)


def _query(x: Tensor, heads: int) -> Tensor:
    """A query of the case's sizes: [1,H,S,D/H]."""
    _, seq_len, width = x.shape
    return torch.zeros(1, heads, seq_len, width // heads, dtype=x.dtype, device=x.device)


class TooLongError(Exception):
    """One more call would take too long."""


def guarded(flags: dict[str, str], name: str, find: Callable[[], T]) -> T | None:
    """Return what `find` returns; when it fails, None, and the flag of this name says why."""
    try:
        with torch.inference_mode():
            return find()
    except Exception as error:  # noqa: BLE001 (looking costs no case, whatever a candidate or a profiler raises)
        first = str(error).strip().partition("\n")[0].replace(";", ",")[:NAME_CHARACTERS]
        kind = "out of memory" if is_out_of_memory(error) else f"{type(error).__name__}: {first}"
        flags[name] = f"none: {first if isinstance(error, TooLongError) else kind}"
        return None


# --- what it comes to -------------------------------------------------------------------------------------


def told(seen: Seen, side: Side, on_gpu: bool) -> dict[str, str]:
    """Return what a row says of one side's kernels; of a CPU's operators there is nothing to say."""
    if not on_gpu:
        return {}
    if not seen.work:
        return {"profile": "none: the profiler saw no kernel"}
    share = seen.busy_ms / side.call_ms
    return {
        "gpu_ms": f"{seen.busy_ms:.6g}",
        "host_bound": "yes" if share < HOST_BOUND_BELOW else "no",
        "tf32_ran": "yes" if any(map(_TF32.search, seen.names)) else "no",
        **({"cuda_graphs": f"{seen.graph_launches / seen.calls:g} a call"} if seen.graph_launches else {}),
    }


def top(case_id: str, side: Side, seen: Seen) -> Profile:
    """Return the longest work of one side as an event."""
    total = sum(work.ns for work in seen.work)
    cut = (Work(work.name[:NAME_CHARACTERS], work.count, work.ns) for work in seen.work[:TOP])
    return Profile(case_id, side.name, seen.calls, total, tuple(cut))


def compilation() -> dict[str, str]:
    """Return what torch's compiler has counted since the last case; nothing when it was never called."""
    utils = sys.modules.get("torch._dynamo.utils")
    if utils is None:
        return {}
    counters = utils.counters
    graphs, breaks = counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())
    reasons = " ".join(str(reason) for counter in tuple(counters.values()) for reason in counter).lower()
    told = [f"{graphs} graphs"]
    told += [f"{breaks} graph breaks"] if breaks else []
    told += ["recompile limit hit"] if _LIMIT.search(reasons) else []
    called = graphs or counters["frames"]["total"]  # a function compiled as one graph is no frame
    counters.clear()
    return {"compiled": ", ".join(told)} if called else {}
