"""One run's output, and the ways in which a log of it may be written down."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from builder.records import Records, read_records
from harness.events import (
    MARKER,
    Body,
    CaseDone,
    Device,
    End,
    Event,
    Gate,
    Name,
    Note,
    Plan,
    Planned,
    RunRef,
    Samples,
    Started,
    Terms,
    encode,
    pack_ns,
)
from harness.shapes import SHAPES, Case

Write = tuple[str, str]  # stream, data

RUN = "20260102-030405-abcdef"
OTHER_RUN = "20260102-030405-fedcba"
TERMS = Terms("bundle", "harness", "model")
CASES = tuple(Case(SHAPES[key], route, {}) for key in ("t01", "t02") for route in ("eager", "sdpa"))
GATE = Gate(0, 1024, 1.5e-5, 0.1, 0.25, (1234,), (1235, 1236))
BROKEN = Gate(1024, 1024, float("nan"), float("inf"), float("nan"), (1234,), (1235,))
CARD = Device(0, "Tesla T4", "7.5", 15_095, "550.1", "2.6", "3.2", "12.4", "3.11")


def lines_of(bodies: Iterable[Body], run: str = RUN, part: int = 1, attempt: int = 1) -> list[str]:
    """Event lines, numbered from 1."""
    return [encode(Event(Name(run, part, attempt, seq), seq / 4, body)) for seq, body in enumerate(bodies, 1)]


def timed(case: Case, scale: int = 1) -> list[Body]:
    """The events of a case that passed: two rounds a side, the candidate's first in two events."""
    fast, slow = range(1000 * scale, 1006 * scale, scale), range(5000 * scale, 5004 * scale, scale)
    return [
        Started(case.id, 0),
        Samples(case.id, "baseline", 0, 0, pack_ns(slow)),
        Samples(case.id, "candidate", 0, 0, pack_ns(fast[:4])),
        Samples(case.id, "candidate", 0, 4, pack_ns(fast[4:])),
        Samples(case.id, "baseline", 1, 0, pack_ns(slow)),
        Samples(case.id, "candidate", 1, 0, pack_ns(fast)),
        CaseDone(case.id, 0, "passed", gate=GATE, samples=20, flags={"check": "0123abcd"}),
    ]


def opened(cases: Sequence[Case] = CASES, carried: int = 0) -> list[Body]:
    """What an attempt starts with."""
    ref = RunRef(RUN, 1)
    return [
        Plan(ref, TERMS, len(cases), "2026-01-02T03:04:05+00:00", carried),
        *(Planned(index, case) for index, case in enumerate(cases)),
        CARD,
    ]


def bodies() -> list[Body]:
    """One whole attempt: two cases pass, one fails its gate, one dies with the marker in its last words."""
    first, second, third, fourth = CASES
    return [
        *opened(),
        *timed(first),
        *timed(second, scale=3),
        Started(third.id, 0),
        CaseDone(third.id, 0, "failed_gate", gate=BROKEN),
        Note("device 0 is 80 °C warm"),
        Started(fourth.id, 0),
        CaseDone(fourth.id, 0, "error", "RuntimeError", f"it printed {MARKER}{{ and died\r\n\x1b[31m<&>"),
        End("complete", {"passed": 2, "failed_gate": 1, "error": 1}, 12.5),
    ]


CHATTER: tuple[Write, ...] = (
    ("stderr", "0.00s - Debugger warning: It seems that frozen modules are being used\n"),
    ("stdout", "naïve café ☕ 𝄞 \\u0041 <tag> & \"quoted\" \\ 'single'\n"),
    ("stderr", "\r 10%|█         |\r 50%|█████     |\r100%|██████████|\n"),
    ("stdout", '\x1b[31mred\x1b[0m @@ferry@ is not the marker {"stream_name": 1}\n'),
    ("stdout", "[1, 2, 3]\n"),
    ("stderr", "\n"),
)

_PACKAGES = "/usr/local/lib/python3.11/dist-packages"
TRAILER: tuple[Write, ...] = (
    ("stderr", f"{_PACKAGES}/mistune.py:435: SyntaxWarning: invalid escape sequence '\\|'\n"),
    ("stderr", "  cells[i][c] = re.sub('\\\\|', '|', cell)\n"),
    ("stderr", f"{_PACKAGES}/traitlets/traitlets.py:2915: FutureWarning: --Exporter.preprocessors=[x]\n"),
    ("stderr", "  warn(\n[NbConvertApp] Converting notebook __notebook__.ipynb to notebook\n"),
    ("stderr", "[NbConvertApp] Writing 7245 bytes to __notebook__.ipynb\n"),
)


def writes(lines: Sequence[str] | None = None) -> list[Write]:
    """A run's writes, one a line: an event, a line of chatter, and so on."""
    found: list[Write] = []
    for number, line in enumerate(lines or lines_of(bodies())):
        found += [CHATTER[number % len(CHATTER)], ("stdout", line + "\n")]
    return found


# --- forms ------------------------------------------------------------------------------------------------


def records_of(run: Iterable[Write]) -> list[dict[str, object]]:
    """The writes as Kaggle's records; a stream's time is its own, so times go backwards."""
    return [
        {"stream_name": stream, "time": number / 8 - 3 * (stream == "stderr"), "data": data}
        for number, (stream, data) in enumerate(run)
    ]


def _kaggle(record: object) -> str:
    text = json.dumps(record, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def array(run: Iterable[Write]) -> bytes:
    """Kaggle's own form: an array, a record a line, commas leading."""
    return ("[" + "\n,".join(map(_kaggle, records_of(run))) + "\n]").encode()


def plain(run: Iterable[Write]) -> bytes:
    """What a terminal would have got."""
    return "".join(data for _, data in run).encode()


def stream(run: Iterable[Write]) -> bytes:
    """A live stream's frames, with the lines between that it may have."""
    frames = [f"id: {number}\ndata: {_kaggle(record)}\n\n" for number, record in enumerate(records_of(run))]
    return (": hello\n\n" + "".join(frames) + "data: END_OF_LOG\n\n").encode()


def strange(run: Iterable[Write]) -> bytes:
    """An array in which some `data` is no string, and one record has none."""
    odd: list[object] = [None, 5, [1], {"a": {}}, True]
    others = [{"stream_name": "stdout", "time": "now", "data": data} for data in odd]
    return json.dumps([*others, {"stream_name": "stdout", "time": 1}, *records_of(run)]).encode()


def _in_two(run: Iterable[Write]) -> Iterator[Write]:
    """Long writes cut in pieces of 300 characters, a line end after each."""
    for name, data in run:
        yield from ((name, data[at : at + 300] + "\n") for at in range(0, len(data), 300))


_AT_START = b"\n" + MARKER.encode()

FORMS: dict[str, Callable[[Iterable[Write]], bytes]] = {
    "array": array,
    "array on one line": lambda run: json.dumps(records_of(run)).encode(),
    "array on one line, compact": lambda run: json.dumps(records_of(run), separators=(",", ":")).encode(),
    "array, indented": lambda run: json.dumps(records_of(run), indent=4).encode(),
    "array, keys sorted": lambda run: json.dumps(records_of(run), sort_keys=True).encode(),
    "array with CRLF": lambda run: array(run).replace(b"\n", b"\r\n"),
    "array in UTF-8 with BOM": lambda run: b"\xef\xbb\xbf" + array(run),
    "array in UTF-16": lambda run: array(run).decode().encode("utf-16"),
    "array in Windows-1252": lambda run: array(run).decode().encode("cp1252", "replace"),
    "array after a warning": lambda run: b"Warning: Looks like you're using an old client\n" + array(run),
    "array with odd data": strange,
    "array without its end": lambda run: array(run)[:-1],
    "array twice": lambda run: array(run := list(run)) + b"\n" + array(run),
    "JSON lines": lambda run: "".join(json.dumps(record) + "\n" for record in records_of(run)).encode(),
    "event stream": stream,
    "plain": plain,
    "plain with CRLF": lambda run: plain(run).replace(b"\n", b"\r\n"),
    "plain in UTF-8 with BOM": lambda run: b"\xef\xbb\xbf" + plain(run),
    "plain in UTF-16": lambda run: plain(run).decode().encode("utf-16"),
    "plain in UTF-16 without BOM": lambda run: plain(run).decode().encode("utf-16-le"),
    "plain in UTF-16, big end first": lambda run: b"\xfe\xff" + plain(run).decode().encode("utf-16-be"),
    "plain in Windows-1252": lambda run: plain(run).decode().encode("cp1252", "replace"),
    "plain with progress frames": lambda run: plain(run).replace(_AT_START, b"\n 99%\r" + _AT_START[1:]),
    "plain in colour": lambda run: b"\x1b[32m" + plain(run).replace(b"\n", b"\x1b[0m\n\x1b[32m"),
    "plain with times before": lambda run: b"12.5s 7 " + plain(run).replace(b"\n", b"\n12.5s 7 "),
    "plain, run together": lambda run: plain(run).replace(_AT_START, _AT_START[1:]),
    "plain, each write a line": lambda run: plain(_in_two(run)),
}


def log_of(some: list[Body], run: str = RUN, part: int = 1, attempt: int = 1) -> bytes:
    """A log in Kaggle's form of these events."""
    return array(writes(lines_of(some, run, part, attempt)))


# --- reading ----------------------------------------------------------------------------------------------


def parsed(folder: Path, *logs: bytes, run_id: str = "") -> Records:
    """Read logs from files."""
    paths = [folder / f"log{number}" for number in range(len(logs))]
    for path, log in zip(paths, logs, strict=True):
        path.write_bytes(log)
    return read_records(paths, run_id, {1: CASES})


def figures(records: Records) -> Iterator[str]:
    """All that is known of each case, in words that can be compared: nan equals nan."""
    for record in records.cases:
        yield repr(record)


def assert_exact_or_unknown(records: Records, whole: Records) -> None:
    """Each case is what it is in the whole log, or has no figures at all; complete means all are exact.

    What failed has failed although the log may have lost on which device.
    """
    for found, true in zip(records.cases, whole.cases, strict=True):
        if found.done is None:
            assert found.reason and not found.samples
        elif found.status == "passed" or found.device:
            assert repr(found) == repr(true)
        else:
            assert repr(replace(found, device=true.device)) == repr(true)
    if records.complete:
        assert list(figures(records)) == list(figures(whole))
