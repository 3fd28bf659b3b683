"""What is known of each accelerator's name, and what becomes of a wrong one."""

from __future__ import annotations

import pytest

from builder import backends
from builder.accelerators import KNOWN, choose_backend, kaggle_fields, lookup
from builder.errors import UsageError

GOOD = sorted(name for name, known in KNOWN.items() if not known.retired)
RETIRED = sorted(set(KNOWN) - set(GOOD))


@pytest.mark.parametrize("name", GOOD)
def test_each_name_says_what_it_must_turn_out_to_be(name: str) -> None:
    """Device, count and who may ask are known of every name, the capability of every GPU."""
    known = KNOWN[name]
    assert known.backend in backends.names()
    assert known.device
    assert known.count >= 1
    assert known.who
    assert bool(known.capability) != known.is_tpu


@pytest.mark.parametrize("name", RETIRED)
def test_a_retired_name_is_refused_with_what_became_of_it(name: str) -> None:
    """The sentence says what comes now, the hint which name to use."""
    with pytest.raises(UsageError) as caught:
        lookup(name)
    assert KNOWN[name].retired in caught.value.message
    assert any(good in caught.value.hint for good in GOOD)


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("nvidiaTeslaT4", "NvidiaTeslaT4"),
        ("NVIDIATESLAT4", "NvidiaTeslaT4"),
        ("NvidiaTeslaT4x2", "NvidiaTeslaT4"),
        ("gpu_t4x2", "NvidiaTeslaT4"),
        ("NvidiaTesla4", "NvidiaTeslaT4"),
        ("NvidiaTeslaH100", "NvidiaH100"),
        ("NvidiaA100", "NvidiaTeslaA100"),
        ("gpu-l4", "NvidiaL4"),
        ("tpuv5e-8", "TpuV5E8"),
    ],
)
def test_a_wrong_name_gets_the_nearest_good_one(wrong: str, meant: str) -> None:
    """Case, spelling and other tools' words lead to the name that was meant."""
    with pytest.raises(UsageError) as caught:
        lookup(wrong)
    assert f"did you mean {meant}?" in caught.value.hint


@pytest.mark.parametrize("name", ["t4", "any", "h200", "NVIDIA H100"])
def test_kaggle_is_never_asked_for_a_pattern(name: str) -> None:
    """A device's words, which other backends take, would silently become something else at Kaggle."""
    with pytest.raises(UsageError) as caught:
        choose_backend("kaggle", name)
    assert f"Kaggle has no accelerator {name!r}" in caught.value.message


@pytest.mark.parametrize("name", [*GOOD, "", "cpu"])
def test_the_fields_of_a_push_never_contradict_each_other(name: str) -> None:
    """A shape and its switch come together, never both switches, and no shape without one."""
    fields = kaggle_fields(name)
    switches = [fields["enable_gpu"], fields["enable_tpu"]]
    assert switches.count(True) == ("machine_shape" in fields)
    assert fields.get("machine_shape", "") == (name if name in KNOWN else "")
    assert fields["enable_tpu"] == name.startswith("Tpu")


def test_different_names_make_different_pushes() -> None:
    """No two names come to the same request."""
    pushes = {tuple(sorted(kaggle_fields(name).items())) for name in [*GOOD, "cpu"]}
    assert len(pushes) == len(GOOD) + 1
