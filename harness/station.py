"""One card and the two processes on it: a case's life, gate first, timing second. Standard library only."""

from __future__ import annotations

import secrets
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from harness import trials
from harness.cards import Card
from harness.channel import (
    Alone,
    Done,
    Enter,
    Facts,
    Load,
    Look,
    Looked,
    Time,
    Timed,
)
from harness.chatter import Relay
from harness.crew import Crew
from harness.environment import Setting, setting_of, thread_flags
from harness.events import CaseDone, Device, Profile, Samples, Terms
from harness.exchange import Exchange
from harness.gating import Gating
from harness.hardware import as_seen
from harness.limits import CaseFailureError, Limits, Watch
from harness.originals import Originals
from harness.process import ROOT
from harness.shapes import CHOOSING_ROUTES, FRESH_WORKER, Case, parse_settings
from harness.sitting import SEED_BITS, Sitting
from harness.telemetry import Monitor
from harness.verdict import SLOWED_ON_CPU, SLOWED_ON_GPU, TOLD, refuse_slowed, slowdown


class Station:
    """A card, its judge, and the worker of the moment. `say` takes lines of chatter for the log."""

    def __init__(
        self, card: Card, terms: Terms, limits: Limits, scratch: Path, say: Callable[[list[str]], None]
    ) -> None:
        self.card = card
        self._terms = terms
        self._limits = limits
        self._relay = Relay(f"gpu{card.index}| " if card.is_gpu else "cpu| ", say)
        self._exchange = Exchange(scratch)
        self._crew = Crew(card, scratch, self._exchange, self._relay)
        self._unloadable: dict[Setting, CaseFailureError] = {}
        self._before: tuple[Samples, ...] = ()  # of the worker's only case, before there was a candidate
        self._further: tuple[Samples, ...] = ()  # of the case that is timed, taken in doubt
        self._done = CaseDone("", card.index, "unknown")
        self._monitor = Monitor(card)
        self._originals = Originals(ROOT)

    def open(self, first: Case | None) -> Device:
        """Start the judge, and beside it the worker that `first` will need; return what the card is.

        Raises CaseFailureError when no case can ever be carried here: no torch, no working card.
        """
        judge = self._crew.hire_judge()
        if first is not None:
            self._crew.hire_worker(first)
        seen = as_seen(self.card, judge.welcome(Load(self._terms.own_harness), self._watch()))
        # A slice's size is not known before; without one nothing would be infeasible.
        self.card = replace(self.card, memory_bytes=self.card.memory_bytes or seen.memory_mib * 2**20)
        return seen

    def carry(self, case: Case, again: bool = False) -> tuple[tuple[Samples | Profile, ...], CaseDone]:
        """Take one case through its life and return how it ended; only a passed case has samples.

        `again`: compare the baseline with itself, too.
        """
        self._monitor.begin()
        self._done = CaseDone(case.id, self.card.index, "error", flags=self._first_flags(case))
        samples: tuple[Samples, ...] = ()
        profiles: tuple[Profile, ...] = ()
        try:
            watch = self._watch()
            self._refuse_infeasible(case)
            self._gather(case, watch)
            self._gate(case, watch)
            with self._monitor.timing(self._crew.pids):
                timed = self._time(case, watch, again)
            if case.protocol == "strict" and self._crew.worker:
                self._crew.worker.helpers.refuse_on_card(self._monitor.processes)
            profiles = self._look(timed, watch)
            self._refuse_forger()
            self._judge_baseline(case, timed, watch)
            samples = timed.samples
            self._done = replace(
                self._done, status="passed", samples=sum(len(part.values) for part in samples)
            )
        except CaseFailureError as failure:
            self._fail(failure)
        except Exception as error:  # noqa: BLE001 (a fault of our own costs the case, too, and not the run)
            traceback.print_exc()
            self._crew.end_judge()
            words = f"the driver failed, its traceback is in the log: {error}"
            self._fail(CaseFailureError("error", f"driver:{type(error).__name__}", words))
        self._relay.end()
        restored = {"harness_restored": " ".join(touched)} if (touched := self._originals.restore()) else {}
        flags = {**self._done.flags, **self._monitor.flags(), **restored}
        self._done = replace(self._done, flags=flags)
        return (*samples, *profiles), self._done

    def _fail(self, failure: CaseFailureError) -> None:
        self._done = replace(self._done, status=failure.status, error_kind=failure.kind, error=failure.error)

    def tidy(self, case: Case) -> None:
        """After the case's end is told: part with whoever must not serve the next one."""
        if self._done.error_kind.startswith("judge:"):
            self._crew.end_judge()
        # On a GPU what has watched the kernels stays in the process and slows every launch down.
        watched = self._terms.profile and self.card.torch_device == "cuda"
        fresh = case.protocol in FRESH_WORKER or watched
        if fresh or self._done.status not in ("passed", "infeasible"):
            self._crew.end_worker()

    def close(self) -> None:
        """End both processes and remove what they have exchanged."""
        self._crew.end_worker()
        self._crew.end_judge()
        self._relay.end()
        self._monitor.close()
        self._exchange.close()

    # --- a case's life ------------------------------------------------------------------------------------

    def _refuse_infeasible(self, case: Case) -> None:
        # On a CPU the worker's output and the judge's share the memory.
        copies = 1 if self.card.torch_device == "cuda" else 2
        if words := trials.infeasible(case, self.card.memory_bytes, copies):
            raise CaseFailureError("infeasible", "memory", words)

    def _gather(self, case: Case, watch: Watch) -> None:
        """Have judge and worker ready for the case."""
        setting = setting_of(case)
        if setting in self._unloadable:
            raise self._unloadable[setting]
        judge, worker = self._crew.hire_judge(), self._crew.hire_worker(case)
        is_new = self._crew.put_to_use()
        judge.welcome(Load(self._terms.own_harness), watch)
        worker.welcome(Load(self._terms.own_harness), watch)
        if (
            is_new
            and case.protocol in FRESH_WORKER
            and not trials.baseline_lacks(case, self.card.memory_bytes)
        ):
            alone = Alone(case, parse_settings(case.harness_args).seed, secrets.randbits(SEED_BITS))
            self._before = worker.ask(alone, Timed, watch).samples
        elif is_new:
            self._before = ()
        try:
            if is_new:
                worker.ask(Enter(self._terms.model, self._terms.against), Done, watch)
        except CaseFailureError as failure:
            if worker.alive:  # it could say what is wrong: a second try would say the same
                self._unloadable[setting] = failure
            raise

    def _gate(self, case: Case, watch: Watch) -> None:
        """Let the judge compare every output with the reference. Raises CaseFailureError unless all pass."""
        judge, worker = self._crew.judge, self._crew.worker
        assert judge and worker

        def learn(facts: Facts) -> None:
            self._learn(facts)
            self._check_route(case)

        gating = Gating(worker, judge, self._exchange, watch, learn)
        if self._terms.against:
            self._gate_other(case, gating)
        tried = gating.carry_out(trials.plan(case, self._terms.seeds, self.card.memory_bytes))
        whole = [pair for pair in tried if not pair[0].truncated]
        flags = {**self._done.flags, **trials.flags_of(case, tried)}
        self._done = replace(self._done, gate=trials.gate_of(whole or tried), flags=flags)
        if words := trials.verdict(case, tried):
            raise CaseFailureError("failed_gate", "gate", words)

    def _gate_other(self, case: Case, gating: Gating) -> None:
        """The same for the model that the candidate is compared with: a wrong one's time means nothing."""
        tried = gating.carry_out(trials.plan(case, 1, self.card.memory_bytes), "against")
        gate, flags = trials.gate_of(tried), dict(self._done.flags)
        flags |= {
            "against": self._terms.against_name.replace(";", ","),
            "against_gate_share": f"{gate.gate_share:.6g}",
        }
        self._done = replace(self._done, flags=flags)
        if words := trials.verdict(case, tried):
            raise CaseFailureError(
                "failed_gate", "against", f"the model that was to be compared with: {words}"
            )

    def _time(self, case: Case, watch: Watch, again: bool) -> Timed:
        judge, worker = self._crew.judge, self._crew.worker
        assert judge and worker
        lacks = trials.baseline_lacks(case, self.card.memory_bytes)
        again = again and not lacks
        asked = {"baseline": not lacks, "baseline_again": again, "against": self._terms.against}
        sides = (*(side for side, wanted in asked.items() if wanted), "candidate")
        if case.protocol == "strict":
            oracle_s = trials.oracle_s_of_timed(case, self.card.memory_bytes)
            places = (worker, judge, watch, self._exchange)
            sitting = Sitting(case, self._terms, *places, sides, oracle_s, not self.card.is_gpu)
            timed = sitting.carry_out(self._learn)
            in_doubt = slowdown((*self._before, *timed.samples)) > self._most_slowed
            self._further = sitting.once_more() if in_doubt else ()
        else:
            timed = worker.ask(Time(again, not lacks), Timed, watch)
            self._learn(timed.facts)
        self._check_route(case)
        return replace(timed, samples=(*self._before, *timed.samples))

    def _refuse_forger(self) -> None:
        if self._relay.forged:
            words = "the candidate printed a line with the marker of the driver's events"
            raise CaseFailureError("disqualified", "forged_event", words)

    def _judge_baseline(self, case: Case, timed: Timed, watch: Watch) -> None:
        """Compare the baseline's times with those before there was a candidate, and in doubt with new ones.

        Raises CaseFailureError when the candidate has slowed it. Only `strict` can tell: under `official`
        launches are in the times, and whatever else the process has to do.
        """
        strict = case.protocol == "strict"
        samples = (*timed.samples, *self._further) if strict else timed.samples
        ratio = slowdown(samples)
        if ratio > self._most_slowed and strict:
            ratio = slowdown(samples, self._time_alone(case, watch))
        if ratio > TOLD:
            self._done = replace(self._done, flags={**self._done.flags, "baseline_slower": f"{ratio:.2f}x"})
        if strict:
            refuse_slowed(ratio, self._most_slowed)

    @property
    def _most_slowed(self) -> float:
        return SLOWED_ON_GPU if self.card.is_gpu else SLOWED_ON_CPU

    def _time_alone(self, case: Case, watch: Watch) -> tuple[Samples, ...]:
        """Time the baseline in a new process, when the candidate and all that it has started are dead."""
        self._crew.end_worker()
        worker = self._crew.hire_worker(case)
        worker.welcome(Load(self._terms.own_harness), watch)
        alone = Alone(case, parse_settings(case.harness_args).seed, secrets.randbits(SEED_BITS))
        return worker.ask(alone, Timed, watch).samples

    def _look(self, timed: Timed, watch: Watch) -> tuple[Profile, ...]:
        """Let the worker see what really ran. The case is timed: nothing that fails here can cost it."""
        assert self._crew.worker
        try:
            looked = self._crew.worker.ask(Look(timed.call_ms(), self._terms.profile), Looked, watch)
        except CaseFailureError as failure:
            told = " ".join(failure.error.split()).replace(";", ",")[-200:]
            self._done = replace(self._done, flags={**self._done.flags, "looked": f"failed: {told}"})
            self._crew.end_worker()
            return ()
        flags = {**looked.flags, **self._done.flags}  # what is known already is not the candidate's to change
        self._done = replace(self._done, attention_backend=looked.attention_backend, flags=flags)
        return looked.profiles

    def _learn(self, facts: Facts) -> None:
        seen = {**vars(facts), "flags": {**self._done.flags, **facts.flags}}
        self._done = replace(self._done, **seen)

    def _check_route(self, case: Case) -> None:
        ran, note = self._done.route_ran, self._done.route_note
        if case.route not in CHOOSING_ROUTES and ran != case.route:
            what = f"{ran} ran" if ran else "the model does not say that it ran"
            words = f"route {case.route} was asked for by name, {what}{note and ': ' + note}"
            raise CaseFailureError("error", "route", words)

    def _first_flags(self, case: Case) -> dict[str, str]:
        counts = case.counts.shortened(case.shape)
        short = {"timed_short": f"{counts.warmup}/{counts.repeats}/{counts.rounds}"}
        need = trials.baseline_lacks(case, self.card.memory_bytes)
        unable = {"baseline": f"not timed, its scores need {need} bytes"}
        mismatch = {"mismatch": self.card.mismatch.replace(";", ",")}
        return {
            **thread_flags(self.card),
            "isolated": self._crew.isolated,
            **(short if counts != case.counts else {}),
            **(unable if need else {}),
            **(mismatch if self.card.mismatch else {}),
        }

    def _watch(self) -> Watch:
        return Watch(self._limits, self._terms.case_timeout_s)
