"""What a side's device time goes to, by stage: the longest kernels, sorted by what their names say."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from harness.events import Profile

# The first that fits. A name says what a kernel is, not what it is for: a product may be any linear layer's.
_STAGES = {
    "attention": r"flash|fmha|attention|sdpa|efficient",
    "products": r"gemm|gemv|nvjet|cublas|cutlass|addmm|matmul|bmm|\bmm\b|linear|dot",
    "softmax": r"softmax",
    "layer norm": r"layer.?norm",
    "copies and fills": r"memcpy|memset|copy|(?<!masked_)fill|clone|cat\b",
    "elementwise": r"elementwise|vectorized|\badd|\bmul|gelu|relu|where|mask|triu|tril|triton",
}
REST = "all else"
NAMES = (*_STAGES, REST)


@dataclass(frozen=True)
class Stage:
    """A stage's share of a side's work, and by how much the side could gain at most were it free."""

    name: str
    share: float

    @property
    def most(self) -> float:
        """Amdahl's bound: 1/(1 - share)."""
        return 1 / (1 - self.share) if self.share < 1 else float("inf")


def stages_of(profile: Profile) -> list[Stage]:
    """Return the shares of the stages, the largest first; they add up to 1."""
    total = max(1, profile.total_ns)
    spent: Counter[str] = Counter()
    for work in profile.top:
        spent[_stage(work.name)] += max(0, min(work.ns, total))
    spent[REST] += max(0, total - sum(spent.values()))
    whole = max(1, sum(spent.values()))
    return [Stage(name, ns / whole) for name, ns in spent.most_common() if ns]


def _stage(name: str) -> str:
    fits = (stage for stage, pattern in _STAGES.items() if re.search(pattern, name, re.IGNORECASE))
    return next(fits, REST)
