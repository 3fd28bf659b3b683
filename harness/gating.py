"""The driver's half of the gate: one output after the other from the worker to the judge. Stdlib only."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.channel import Build, Check, Done, Facts, Figures, Forward, Output, Rest
from harness.exchange import Exchange
from harness.limits import Watch
from harness.process import Child
from harness.sitting import taken
from harness.trials import Trial, Tried


class Gating:
    """The gate of one case, in a conversation with worker and judge; `learn` is told each output's facts."""

    def __init__(
        self, worker: Child, judge: Child, exchange: Exchange, watch: Watch, learn: Callable[[Facts], None]
    ) -> None:
        self._worker = worker
        self._judge = judge
        self._exchange = exchange
        self._watch = watch
        self._learn = learn
        self._built: Build | None = None

    def carry_out(self, plan: Sequence[Trial], side: str = "candidate") -> Tried:
        """Have every trial's output gated; return each with its figures. CaseFailureError ends it early."""
        tried: Tried = []
        for trial in plan:
            figures = self._try(trial, side)
            tried.append((trial, figures))
            if trial.truncated and not figures.passed:
                break  # the rest would take minutes
        self._judge.ask(Rest(), Done, self._watch)
        self._built = None
        return tried

    def _try(self, trial: Trial, side: str) -> Figures:
        build = Build(trial.case, trial.weight_seed)
        if build != self._built:
            self._judge.ask(build, Done, self._watch)
            self._worker.ask(build, Done, self._watch)
            self._built = build
        forward = Forward(trial.input_seed, self._exchange.folders, side)
        output = self._worker.ask(forward, Output, self._watch)
        if side == "candidate":
            self._learn(output.facts)
        path = taken(self._exchange, output)
        check = Check(trial.input_seed, path, output.dtype, trial.oracle_s, trial.recompute)
        return self._judge.ask(check, Figures, self._watch)
