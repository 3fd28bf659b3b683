"""Which cards there are, as an nvidia-smi says, and which of them are used."""

from pathlib import Path

import pytest

from harness.cards import Card, apart, chosen, cpu_cards, find_gpus
from harness.cores import cores_here, shares

T4 = "0, GPU-aaaa, Tesla T4, 15360, 550.54, 7.5\n1, GPU-bbbb, Tesla T4, 15360, 550.54, 7.5\n"
MIXED = "0, GPU-aaaa, Tesla T4, 15360, 550.54, [N/A]\n1, GPU-cccc, NVIDIA H200, 143771, 550.54, 9.0\n"
OLD = "0, GPU-aaaa, Tesla T4, 15360, 440.33\n"


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
    """Each GPU has its number, name, memory, driver and capability, and its pin names it for ever."""
    install(machine, T4)
    cards = find_gpus()
    assert cards[1] == Card(1, "Tesla T4", 15360 * 2**20, "550.54", "GPU-bbbb", capability="7.5")
    assert len(cards) == 2
    assert chosen(cards, "", 1) == cards[:1]


def test_old_nvidia_smi_is_asked_for_less(machine: Path) -> None:
    """One that refuses the question for the capability answers without it."""
    install(machine, OLD)
    machine.write_text(
        machine.read_text().replace("#!/bin/sh", '#!/bin/sh\ncase "$*" in *cap*) exit 2;; esac')
    )
    assert find_gpus() == [Card(0, "Tesla T4", 15360 * 2**20, "440.33", "GPU-aaaa")]


def test_cards_that_match_are_preferred(machine: Path) -> None:
    """Of different cards those that were asked for are used; if none is, they all stand for what came."""
    install(machine, MIXED)
    cards = find_gpus()
    assert [card.capability for card in cards] == ["", "9.0"]
    assert [card.name for card in chosen(cards, "h200", 0)] == ["NVIDIA H200"]
    assert [card.matches("A100") for card in chosen(cards, "A100", 0)] == [False, False]


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
    assert [card.pin for card in find_gpus()] == pins


@pytest.mark.parametrize(
    "answer", [None, "No devices were found\n", "Unable to reach GPU 0000:01:00.0, lost, off, bus, Error\n"]
)
def test_machine_without_gpu_is_a_cpu(machine: Path, answer: str | None) -> None:
    """Without a GPU, with or without the program that lists them, the CPU is the card."""
    if answer is not None:
        install(machine, answer, code=6)
    assert find_gpus() == []
    (card,) = cpu_cards(0)
    assert (card.index, card.is_gpu, card.pin) == (-1, False, "")
    assert card.name.startswith("cpu ")
    assert card.memory_bytes > 2**28


def test_neighbours_have_cores_of_their_own() -> None:
    """The CPU can be several cards; each has its share of the cores to itself, and a single card all."""
    (one,), two = apart(cpu_cards(0)), apart(cpu_cards(2))
    assert [card.index for card in two] == [-1, -1]
    assert one.cores == ()
    assert two[0].threads == max(1, one.threads // 2)
    assert not set(two[0].cores) & set(two[1].cores)
    assert {*two[0].cores, *two[1].cores} <= set(cores_here())


def test_gpus_share_cores_and_have_no_rule_for_threads() -> None:
    """A GPU's processes keep to their cores too, and take as many threads as they like there."""
    assert [card.threads for card in apart([Card(0, "T4", 1), Card(1, "T4", 1)])] == [0, 0]


@pytest.mark.parametrize(
    ("siblings", "dealt"),
    [
        ({0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"}, [(0, 2), (1, 3)]),
        ({0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"}, [(0, 1), (2, 3)]),
        ({}, [(0, 1), (2, 3)]),
    ],
)
def test_threads_of_a_core_stay_together(
    tmp_path: Path, siblings: dict[int, str], dealt: list[tuple[int, ...]]
) -> None:
    """A physical core is not split between neighbours, however its threads are numbered."""
    for core, text in siblings.items():
        folder = tmp_path / f"cpu{core}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(text)
    assert shares((0, 1, 2, 3), 2, tmp_path) == dealt


def test_too_few_cores_are_shared_by_all() -> None:
    """Where there are fewer cores than neighbours, nobody is kept to any."""
    assert shares((0,), 2) == [(), ()]


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
