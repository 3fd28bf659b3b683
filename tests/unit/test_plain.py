"""What crosses between the sides comes back as it was, or is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.events import DamagedEventError, Samples, pack_ns
from harness.plain import from_plain, to_plain, unpack_ns
from harness.shapes import Case, Counts, Shape

SIZES = st.integers(1, 2**31)
SHAPES = st.builds(
    Shape, st.text(), *[SIZES] * 6, causal=st.booleans(), padding_ratio=st.floats(allow_nan=False)
)
CASES = st.builds(
    Case,
    SHAPES,
    levers=st.dictionaries(st.text(), st.text()),
    counts=st.builds(Counts, SIZES, SIZES, SIZES),
    harness_args=st.lists(st.text()).map(tuple),
)


@given(CASES)
def test_dataclasses_survive_json(case: Case) -> None:
    """A nested dataclass equals itself after a trip through JSON, infinities included."""
    assert from_plain(Case, json.loads(json.dumps(to_plain(case), allow_nan=False))) == case


@given(st.lists(st.integers(0, 2**64 - 1)).map(tuple))
def test_samples_survive_packing(ns: tuple[int, ...]) -> None:
    """Packed nanoseconds of any 64-bit size unpack to the same numbers."""
    assert unpack_ns(pack_ns(ns)) == ns


@pytest.mark.parametrize("packed", ["", "%%%", "AAAA", pack_ns([1, 2, 3])[:-6], "eJxjZGBkAAAACwAE"])
def test_damaged_samples_are_refused(packed: str) -> None:
    """Samples that are not what the packer wrote are damaged, not a crash of another kind."""
    with pytest.raises(DamagedEventError, match="do not unpack"):
        _ = Samples("a", "candidate", 0, 0, packed).values


def test_newer_fields_are_left_out() -> None:
    """A field that a newer writer added does not stop an older reader."""
    assert from_plain(Counts, {"warmup": 1, "repeats": 2, "rounds": 3, "later": 4}) == Counts(1, 2, 3)


@pytest.mark.parametrize("value", [{"warmup": "1"}, {"warmup": True}, [], None, "x"])
def test_other_types_are_refused(value: object) -> None:
    """A value of the wrong type raises TypeError and is never converted by guess."""
    with pytest.raises(TypeError):
        from_plain(Counts, value)
