"""What children print is relayed whole, bounded, and never as an event."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.chatter import HEAD_BYTES, LINE_BYTES, TAIL_BYTES, Relay, clean
from harness.events import MARKER, End, Event, Name, decode, encode

LIE = encode(Event(Name("forged", 1, 1, 1), 0.0, End("complete", {}, 1.0)))


def relayed(*pieces: bytes, end: bool = True) -> list[str]:
    """The lines that come out of a relay for these pieces of one child's output."""
    lines: list[str] = []
    relay = Relay("cpu| ", lines.extend)
    for piece in pieces:
        relay.hear("worker", piece)
    if end:
        relay.end()
    return lines


def test_lines_are_joined_from_pieces() -> None:
    """A line comes out once it has ended, however it was cut; the last one when the case ends."""
    assert relayed(b"one\ntw", b"o\n", b"\nthr", end=False) == ["cpu| one", "cpu| two", "cpu| "]
    assert relayed(b"one\ntw", b"o") == ["cpu| one", "cpu| two"]


def test_children_do_not_mix_within_a_line() -> None:
    """Two children's unended lines are kept apart."""
    lines: list[str] = []
    relay = Relay("", lines.extend)
    relay.hear("judge", b"ju")
    relay.hear("worker", b"wor")
    relay.hear("judge", b"dge\n")
    relay.hear("worker", b"ker\n")
    assert lines == ["judge", "worker"]


def test_progress_bar_is_its_last_state() -> None:
    """Of text that is overwritten by carriage returns, what a terminal would show stays."""
    assert relayed(b"10 %\r50 %\r100 %\r\n") == ["cpu| 100 %"]


def test_controls_are_gone() -> None:
    """Colours, titles, bells and bytes that are no UTF-8 come out as harmless text."""
    assert clean(b"\x1b[31mred\x1b[0m \x1b]0;title\x07bell\x07\ttab \xff") == "red bell\ttab \\xff"


@given(
    st.lists(
        st.sampled_from(
            ["@", "@@", "ferry", "@@ferry", "ferry@@", " ", "\x1b[0m", "\x00", "\x9b", "\r", "x"]
        ),
        max_size=12,
    )
)
def test_no_disguise_makes_a_marker(parts: list[str]) -> None:
    """No mixture of the marker's parts and of what is stripped comes out with a marker in it."""
    text = "".join(parts) + MARKER
    assert MARKER not in clean(text.encode()) + " "


def test_forged_event_is_no_event() -> None:
    """A whole event that a child prints is no event any more, alone or within a line."""
    for line in (LIE, "text " + LIE, "@@ferry" + LIE, LIE.replace("ferry", "fer\x1b[1mry")):
        (out,) = relayed(line.encode() + b"\n")
        assert decode(out) is None


def test_middle_of_a_flood_is_left_out() -> None:
    """The head is written at once, the tail at the end, and the count of what lies between is exact."""
    sent = [b"%09d" % number for number in range(20_000)]
    lines = relayed(*(line + b"\n" for line in sent))
    (gap,) = (at for at, line in enumerate(lines) if "left out" in line)
    head, tail = lines[:gap], lines[gap + 1 :]
    assert head == [f"cpu| {line.decode()}" for line in sent[: len(head)]]
    assert tail == [f"cpu| {line.decode()}" for line in sent[-len(tail) :]]
    assert (len(head), len(tail)) == (HEAD_BYTES // 15, TAIL_BYTES // 15)
    assert lines[gap] == f"cpu| … {15 * (len(sent) - len(head) - len(tail))} bytes of output left out …"


@pytest.mark.parametrize("flood", [b"\n" * 50_000, b"\xff\x00" * 50_000 + b"\n"])
def test_caps_hold_for_what_is_written(flood: bytes) -> None:
    """Empty lines, which get a prefix, and bytes that are spelled out stay within the caps, too."""
    written = "".join(line + "\n" for line in relayed(flood))
    assert HEAD_BYTES < len(written.encode()) <= HEAD_BYTES + TAIL_BYTES + 100


def test_torn_controls_cost_no_time() -> None:
    """Megabytes of beginnings of a title that never ends are relayed as fast as other text."""
    begin = time.process_time()
    relayed(b"\x1b]" * 1_000_000)
    assert time.process_time() - begin < 5


def test_endless_line_is_cut() -> None:
    """A line without end is relayed in pieces and never held in memory as a whole."""
    lines = relayed(*[b"x" * 1000] * 20, end=False)
    assert [len(line) - len("cpu| ") for line in lines] == [LINE_BYTES, LINE_BYTES]


def test_each_case_begins_anew() -> None:
    """After the end of a case the head is free again."""
    lines: list[str] = []
    relay = Relay("", lines.extend)
    for _ in range(2):
        relay.hear("worker", b"y" * (HEAD_BYTES - 1) + b"\n")
        relay.end()
    assert sum(map(len, lines)) == 2 * (HEAD_BYTES - 1)
    assert not any("left out" in line for line in lines)
