"""What a card does before, while and after a case is timed, asked of nvidia-smi. Standard library only.

The driver asks, not the candidate's process. A card that does not answer costs no case: the row says so. To
start the program takes long on a machine of many cards: one repeats its query for all cases, and another
lists the processes once a case, while it is timed.
"""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from harness.cards import Card
from harness.sampler import Sampler

CLOCK_BAND = 0.05  # an SM clock that moves by more of its highest value while a case is timed is flagged
PERIOD_MS = 500
DEADLINE_S = 3.0
_FRESH_S = 2.0  # so old a reading may be and stand for the moment

_FIELDS = "clocks.sm,clocks.mem,temperature.gpu,power.draw,utilization.gpu"
# The second is the first one's name before driver 535; some drivers know neither.
_REASONS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active", "")
_FORMAT = "--format=csv,noheader,nounits"
# NVML's bits. Idle is no throttling.
_IDLE = 0x1
_THROTTLES = {
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}


class SilentCardError(Exception):
    """The card cannot be asked; the text says why."""


# --- one moment -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reading:
    """One moment of a card; None for what it does not say. `reasons` holds NVML's bits for its clocks."""

    sm_mhz: float | None = None
    mem_mhz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    busy_percent: float | None = None
    reasons: int | None = None

    @property
    def idle(self) -> bool:
        """Whether the card lowers its clocks because it has nothing to do."""
        return bool((self.reasons or 0) & _IDLE)

    def __str__(self) -> str:
        """What is known, each with its unit."""
        values = (
            (self.sm_mhz, "{:.0f} MHz"),
            (self.mem_mhz, "memory {:.0f} MHz"),
            (self.temperature_c, "{:.0f} C"),
            (self.power_w, "{:.0f} W"),
            (self.busy_percent, "{:.0f} % busy"),
        )
        known = [form.format(value) for value, form in values if value is not None]
        return ", ".join(known) or "says nothing"


def parse_reading(line: str) -> Reading | None:
    """Return the reading on a line of nvidia-smi's CSV, or None when it is none."""
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) not in (5, 6):
        return None
    sm, mem, temperature, power, busy = map(_number, cells[:5])
    reading = Reading(sm, mem, temperature, power, busy, _bits(cells[5]) if len(cells) == 6 else None)
    return None if reading == Reading() else reading


def _number(cell: str) -> float | None:
    with contextlib.suppress(ValueError):  # `[N/A]`, `[Not Supported]`, `ERR!` and whatever comes next
        return float(cell)
    return None


def _bits(cell: str) -> int | None:
    with contextlib.suppress(ValueError):
        return int(cell, 16)
    return None


def parse_processes(text: str) -> set[int]:
    """Return the process ids that nvidia-smi lists, one on a line."""
    return {int(line) for line in map(str.strip, text.splitlines()) if line.isdigit()}


# --- one case ---------------------------------------------------------------------------------------------


class Monitor:
    """Watches one card, case after case. On a CPU it has nothing to say."""

    def __init__(self, card: Card) -> None:
        self._card = card
        self._silent = "" if not card.pin.startswith("MIG-") else "a slice of a card has no clocks of its own"
        self._reasons = list(_REASONS)
        self._before: Reading | None = None
        self._during: list[Reading] = []
        self._after: Reading | None = None
        self._sampler: Sampler[Reading] | None = None
        self._listing: threading.Thread | None = None
        self._listed: set[int] = set()
        self._ours: set[int] = set()

    def begin(self) -> None:
        """A case begins: take a reading."""
        self._during, self._after, self._listing, self._listed = [], None, None, set()
        recent = self._sampler.since(time.monotonic() - _FRESH_S) if self._sampler else []
        if recent:
            self._before = recent[-1]
            return
        self.close()
        self._before = self._read()
        if self._talks:
            self._sampler = Sampler(self._query(f"--loop-ms={PERIOD_MS}"), parse_reading)

    @contextlib.contextmanager
    def timing(self, ours: Collection[int]) -> Iterator[None]:
        """Take readings as long as the block lasts, and one at its end; see who is there beside `ours`."""
        self._ours = set(ours)
        self._list_processes()
        begin = time.monotonic()
        try:
            yield
        finally:
            self._during = self._sampler.since(begin) if self._sampler else []
            self._after = self._during[-1] if self._during else self._read()

    @property
    def processes(self) -> set[int]:
        """The processes that were on the card when the timing began."""
        if self._listing is not None:
            self._listing.join(DEADLINE_S)
        return set(self._listed)

    def close(self) -> None:
        """End the program that repeats the query."""
        if self._sampler is not None:
            self._sampler.stop()
        self._sampler = None

    def flags(self) -> dict[str, str]:
        """Return what the row says of the card."""
        if self._card.torch_device != "cuda":
            return {}
        if self._before is None and self._after is None:
            return {"telemetry": f"none: {self._silent or 'nothing was asked'}"}
        flags = {"card_before": str(self._before or self._silent)}
        if self._after is None:
            return flags | ({"card_after": self._silent} if self._silent else {})
        flags |= {"card_after": str(self._after), "clocks": clocks(self._during)}
        flags["throttle"] = throttle(self._during or [self._after])
        return flags | {"other_processes": others(self.processes, self._ours)}

    # --- asking -------------------------------------------------------------------------------------------

    @property
    def _talks(self) -> bool:
        return self._card.torch_device == "cuda" and not self._silent

    def _read(self) -> Reading | None:
        while self._talks:
            try:
                lines = ask(self._query()).splitlines()
                return next(filter(None, map(parse_reading, lines)), Reading())
            except SilentCardError as problem:
                self._reasons.pop(0)
                self._silent = "" if self._reasons and "not a valid field" in str(problem) else str(problem)
        return None

    def _query(self, *more: str) -> list[str]:
        fields = ",".join(filter(None, (_FIELDS, *self._reasons[:1])))
        return ["nvidia-smi", f"--id={self._card.pin}", f"--query-gpu={fields}", _FORMAT, *more]

    def _list_processes(self) -> None:
        """List the processes, in a thread: the timing does not wait for it."""
        query = ["nvidia-smi", f"--id={self._card.pin}", "--query-compute-apps=pid", _FORMAT]
        listed: set[int] = set()

        def list_them() -> None:
            with contextlib.suppress(SilentCardError):
                listed.update(parse_processes(ask(query)))

        self._listed = listed
        if self._talks:
            with contextlib.suppress(RuntimeError):  # no thread to be had
                self._listing = threading.Thread(target=list_them, daemon=True)
                self._listing.start()


def ask(command: Sequence[str]) -> str:
    """Return what the program prints. Raises SilentCardError when it fails or takes longer than it may."""
    try:
        return subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", timeout=DEADLINE_S, check=True
        ).stdout
    except subprocess.TimeoutExpired:
        raise SilentCardError(f"nvidia-smi did not answer within {DEADLINE_S:g} s") from None
    except subprocess.CalledProcessError as problem:
        said = " ".join(f"{problem.stdout} {problem.stderr}".split()).replace(";", ",")
        raise SilentCardError(f"nvidia-smi ended with {problem.returncode}: {said[:120]}") from None
    except OSError as problem:
        raise SilentCardError(f"nvidia-smi cannot be run: {problem.strerror}") from None


# --- what it comes to -------------------------------------------------------------------------------------


def clocks(during: Sequence[Reading]) -> str:
    """Return whether the SM clock kept within CLOCK_BAND: of readings under load, first against last third.

    A dip between them counts, too: what is compared with the band is the highest and the lowest reading.
    """
    loaded = [reading.sm_mhz for reading in during if reading.sm_mhz and not reading.idle]
    if len(loaded) < 2:
        return f"unseen, {len(loaded)} readings under load"
    third = max(1, len(loaded) // 3)
    first, last = statistics.median(loaded[:third]), statistics.median(loaded[-third:])
    low, high = min(loaded), max(loaded)
    moved = high - low > CLOCK_BAND * high
    return f"{'moved' if moved else 'steady'} {first:.0f}>{last:.0f} MHz, {low:.0f} to {high:.0f}"


def throttle(readings: Sequence[Reading]) -> str:
    """Return why the card held its clocks back, each reason with its share of the readings, or `none`."""
    known = [reading.reasons for reading in readings if reading.reasons is not None]
    if not known:
        return "unknown"
    counts = {name: sum(bool(reasons & bit) for reasons in known) for bit, name in _THROTTLES.items()}
    return ", ".join(f"{name} {count}/{len(known)}" for name, count in counts.items() if count) or "none"


def others(seen: Collection[int], ours: Collection[int]) -> str:
    """Return how many processes beside ours were on the card.

    In a container nvidia-smi may list no process, or give numbers of outside: where ours are not among
    them, nobody knows.
    """
    strangers = set(seen) - set(ours)
    return str(len(strangers)) if set(seen) & set(ours) else f"unknown, {len(seen)} listed and none is ours"
