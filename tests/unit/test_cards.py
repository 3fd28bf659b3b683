"""Which cards there are, as an nvidia-smi says, and which of them are used."""

from pathlib import Path

import pytest

from harness.cards import Card, find_cards

T4 = "0, GPU-aaaa, Tesla T4, 15360, 550.54\n1, GPU-bbbb, Tesla T4, 15360, 550.54\n"
MIXED = "0, GPU-aaaa, Tesla T4, 15360, 550.54\n1, GPU-cccc, NVIDIA H200, 143771, 550.54\n"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole PATH; a test puts an nvidia-smi there."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return tmp_path / "nvidia-smi"


def install(machine: Path, answer: str, code: int = 0) -> None:
    """Put an nvidia-smi there that gives this answer."""
    machine.write_text(
        f"#!/bin/sh\nwhile read -r line; do echo \"$line\"; done <<'END'\n{answer}END\nexit {code}\n"
    )
    machine.chmod(0o755)


def test_gpus_are_found_and_pinned(machine: Path) -> None:
    """Each GPU has its number, name, memory and driver, and is pinned by what names it for ever."""
    install(machine, T4)
    cards = find_cards("", 0)
    assert cards[1] == Card(1, "Tesla T4", 15360 * 2**20, "550.54", "GPU-bbbb")
    assert len(cards) == 2
    assert find_cards("", 1) == cards[:1]


def test_cards_that_match_are_preferred(machine: Path) -> None:
    """Of different cards those that were asked for are used; if none is, they all stand for what came."""
    install(machine, MIXED)
    assert [card.name for card in find_cards("h200", 0)] == ["NVIDIA H200"]
    assert [card.matches("A100") for card in find_cards("A100", 0)] == [False, False]


@pytest.mark.parametrize(
    ("visible", "pins"),
    [
        ("1", ["GPU-cccc"]),
        ("GPU-c,0", ["GPU-cccc", "GPU-aaaa"]),
        ("", []),
        ("MIG-x", ["MIG-x"]),
        ("-1", []),
        ("1,-1,0", ["GPU-cccc"]),
        ("NoDevFiles", []),
    ],
)
def test_somebody_elses_choice_holds(
    machine: Path, monkeypatch: pytest.MonkeyPatch, visible: str, pins: list[str]
) -> None:
    """Cards that CUDA_VISIBLE_DEVICES hides, or that follow a name of none, are not used; slices stay so."""
    install(machine, MIXED)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert [card.pin for card in find_cards("any", 0) if card.is_gpu] == pins


@pytest.mark.parametrize(
    "answer", [None, "No devices were found\n", "Unable to reach GPU 0000:01:00.0, lost, off, bus, Error\n"]
)
def test_machine_without_gpu_is_a_cpu(machine: Path, answer: str | None) -> None:
    """Without a GPU, with or without the program that lists them, the CPU is the card."""
    if answer is not None:
        install(machine, answer, code=6)
    (card,) = find_cards("", 0)
    assert (card.index, card.is_gpu, card.pin) == (-1, False, "")
    assert card.name.startswith("cpu ")
    assert card.memory_bytes > 2**28


def test_cpu_can_be_asked_for(machine: Path) -> None:
    """`cpu` means the CPU even beside GPUs, as many equal stations as there are devices, cores shared."""
    install(machine, T4)
    (one,), two = find_cards("cpu", 0), find_cards("cpu", 2)
    assert [card.index for card in two] == [-1, -1]
    assert two[0].threads == max(1, one.threads // 2)


@pytest.mark.parametrize(
    ("asked", "gpu", "cpu"),
    [
        ("", True, True),
        ("any", True, False),
        ("cpu", False, True),
        ("t4", True, False),
        ("p100", False, False),
    ],
)
def test_what_matches(asked: str, gpu: bool, cpu: bool) -> None:
    """A pattern is words of a GPU's name in any case of letters; `any` is any GPU, nothing is anything."""
    assert Card(0, "Tesla T4", 1).matches(asked) is gpu
    assert Card(-1, "cpu T4-like", 1).matches(asked) is cpu


@pytest.mark.parametrize(
    ("asked", "name", "same"),
    [
        ("A10", "NVIDIA A100-SXM4-40GB", False),
        ("A100", "NVIDIA A100-SXM4-40GB", True),
        ("NVIDIA L4", "NVIDIA L40S", False),
        ("L4", "NVIDIA L4", True),
        ("rtx 4090", "NVIDIA GeForce RTX 4090", True),
    ],
)
def test_names_that_begin_alike_are_told_apart(asked: str, name: str, same: bool) -> None:
    """A pattern matches whole words only: an A100 is no A10."""
    assert Card(0, name, 1).matches(asked) is same
