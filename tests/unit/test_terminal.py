"""Text from elsewhere can do nothing to a terminal but be read."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.terminal import printable

PIECES = st.sampled_from(
    ["\x1b", "\x1b[", "\x1b]", "\x9b", "0;1", "m", "\x07", "\x1b\\", "\r", "\n", "a", "\ud834"]
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq#0\x1b\\after", "after"),
        ("\x1b]never closed\nnext", "never closed\nnext"),
        ("\x1b[2Jwiped\x1b[", "wiped"),
        ("\x1bcreset\x1b(Bset", "resetset"),
        ("\x9b31mred", "red"),
        ("a\x08b\x00c\x7fd\te", "abcd\te"),
        ("10%\r50%\r100%\r\ndone\r\n", "100%\ndone\n"),
        ("\r10%\r50%", "50%"),
        ("user\u202etxt.exe", "usertxt.exe"),
        ("half \ud834 whole \ud834\udd1e", "half ? whole 𝄞"),
        ("naïve ☕\n\ttab", "naïve ☕\n\ttab"),
    ],
)
def test_control_sequences_are_left_out(text: str, shown: str) -> None:
    """What moves, colours, titles or overwrites goes, and what can be read stays."""
    assert printable(text) == shown


@given(st.text() | st.lists(PIECES).map("".join))
def test_nothing_that_controls_remains(text: str) -> None:
    """No control character but tab and line feed remains, and what remains can be written as UTF-8."""
    shown = printable(text)
    shown.encode()
    assert {character for character in shown if unicodedata.category(character) == "Cc"} <= {"\t", "\n"}
    assert printable(shown) == shown
