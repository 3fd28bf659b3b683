"""The judge's references: the baseline in parts, the oracle as far as time allows; the figures from each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from harness import contract, judging, observing, reference
from harness.channel import Build, Check, Figures, Load
from harness.drawing import Drawn, draw
from harness.shapes import SHAPES, Case

CPU = torch.device("cpu")
pytestmark = pytest.mark.usefixtures("one_thread")
CASE = Case(SHAPES["t03"])  # 4 sequences, causal, padded
MEMORY_BYTES = "free_bytes"
ONE_BY_ONE = [(row, row + 1) for row in range(4)]


@pytest.fixture
def drawn() -> Drawn:
    """A tiny case's baseline."""
    return draw(contract, CASE, 1234, CPU)


def parts_of(model: nn.Module, drawn: Drawn) -> tuple[list[tuple[int, int]], Tensor]:
    """The spans of the parts and all of them together."""
    x, mask = drawn.inputs(7)
    with torch.inference_mode():
        parts = list(reference.by_baseline(replace(drawn, baseline=model), x, mask))
    return [(rows.start, rows.stop) for rows, _ in parts], torch.cat([output for _, output in parts])


def test_with_memory_the_baseline_runs_in_one_piece(drawn: Drawn) -> None:
    """Then the reference is the contest's, to the bit."""
    x, mask = drawn.inputs(7)
    spans, output = parts_of(drawn.baseline, drawn)
    assert spans == [(0, 4)]
    with torch.inference_mode():
        assert torch.equal(output, drawn.baseline(x, mask))


@pytest.mark.parametrize(
    ("sequences", "spans"), [(3.2, [(0, 3), (3, 4)]), (0.1, [(i, i + 1) for i in range(4)])]
)
def test_with_little_memory_it_runs_in_parts(
    drawn: Drawn, sequences: float, spans: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many sequences at once as there is memory for, one at least; the outputs are the same."""
    _, whole = parts_of(drawn.baseline, drawn)
    room = sequences * CASE.shape.baseline_bytes(1) + whole.nbytes
    monkeypatch.setattr(reference, MEMORY_BYTES, lambda device: int(room / reference.USABLE_SHARE))
    found, output = parts_of(drawn.baseline, drawn)
    assert found == spans
    torch.testing.assert_close(output, whole, rtol=0, atol=1e-6)


class Greedy(nn.Module):
    """Runs out of memory above some rows."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return x, or fail as torch does."""
        if len(x) > self.most:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return x


def test_what_runs_out_of_memory_is_halved(drawn: Drawn) -> None:
    """Where the estimate was wrong, half the sequences are tried, down to one, whose failure counts."""
    spans, output = parts_of(Greedy(1), drawn)
    assert spans == ONE_BY_ONE
    assert torch.equal(output, drawn.inputs(7)[0])
    with pytest.raises(RuntimeError, match="out of memory"):
        parts_of(Greedy(0), drawn)


def test_the_oracle_takes_what_time_allows(drawn: Drawn) -> None:
    """Time for all gives all sequences, none gives one; the order is the seed's, and is no other seed's."""
    x, mask = drawn.inputs(7)
    with torch.inference_mode():
        orders = [
            [rows.start for rows, _ in reference.by_oracle(drawn, x, mask, seed, 60.0)] for seed in range(6)
        ]
        first = [rows.start for rows, _ in reference.by_oracle(drawn, x, mask, 3, 1e-9)]
    assert all(sorted(order) == [0, 1, 2, 3] for order in orders)
    assert len({tuple(order) for order in orders}) > 1
    assert first == orders[3][:1]


def check(
    output: Tensor, folder: Path, case: Case = CASE, oracle_s: float = 0.0, recompute: bool = False
) -> Figures:
    """What the judge says of an output for input 7."""
    desk = judging.Desk("cpu")
    desk.answer(Load(own_harness=False))
    desk.answer(Build(case, 1234))
    path = Path(observing.hand_over(output, [str(folder)]))
    figures = desk.answer(Check(7, str(path), observing.dtype_name(output), oracle_s, recompute))
    assert isinstance(figures, Figures)
    assert not path.exists()
    return figures


@pytest.fixture
def output(drawn: Drawn) -> Tensor:
    """The baseline's output for input 7 with two wrong elements, one badly so."""
    x, mask = drawn.inputs(7)
    with torch.no_grad():
        y: Tensor = drawn.baseline(x, mask).clone()
    y[1, 0, 5] += 0.5
    y[3, 1, 30] += 3
    return y


def test_a_wrong_element_is_placed(output: Tensor, tmp_path: Path) -> None:
    """The figures say how many fail, where the worst lies, and at which features."""
    figures = check(output, tmp_path)
    assert (figures.passed, figures.failed_elements, figures.total_elements) == (False, 2, output.numel())
    assert (figures.worst_index, figures.failed_dims) == ((3, 1, 30), (5, 30))
    assert figures.worst_output - figures.worst_reference == pytest.approx(3, abs=1e-5)
    assert (figures.reference, figures.coverage) == ("baseline", 1.0)


def test_parts_and_blocks_give_the_same_figures(
    output: Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sequence at a time, a few rows of it crossing at once, the verdict is the same."""
    whole = check(output, tmp_path)
    monkeypatch.setattr(reference, MEMORY_BYTES, lambda device: 1)
    monkeypatch.setattr(judging, "CROSSING_ELEMENTS", 100)
    parts = check(output, tmp_path)
    for name in ("failed_elements", "total_elements", "worst_index", "failed_dims", "passed"):
        assert getattr(parts, name) == getattr(whole, name)
    assert parts.max_abs == pytest.approx(whole.max_abs, abs=1e-6)


def test_the_oracle_s_figures_are_the_baseline_s(output: Tensor, tmp_path: Path) -> None:
    """The same elements fail, and the figures say who the reference was and how much it covered."""
    figures = check(output, tmp_path, oracle_s=60.0)
    assert (figures.reference, figures.coverage, figures.failed_elements) == ("oracle", 1.0, 2)
    assert figures.worst_index == (3, 1, 30)
    assert check(output, tmp_path, oracle_s=1e-9).coverage == 0.25


@pytest.mark.parametrize(("dtype", "low", "high"), [("float16", 0.05, 1.5), ("bfloat16", 1.0, 20.0)])
def test_a_dtype_is_held_against_itself_in_float32(
    dtype: str, low: float, high: float, tmp_path: Path
) -> None:
    """The baseline's own share grows with the dtype's coarseness; in float32 there is nothing to say."""
    case = replace(CASE, dtype=dtype)
    drawn = draw(contract, case, 1234, CPU)
    drawn.placed(drawn.baseline)
    with torch.no_grad():
        same = drawn.baseline(*drawn.inputs(7))
    figures = check(same, tmp_path, case, recompute=True)
    assert figures.passed
    assert figures.dtype_share is not None
    assert low < figures.dtype_share < high
    by_oracle = check(same, tmp_path, case, oracle_s=60.0, recompute=True).dtype_share
    assert by_oracle is not None
    assert 0 < by_oracle <= figures.dtype_share
    exact = draw(contract, CASE, 1234, CPU)
    with torch.no_grad():
        same = exact.baseline(*exact.inputs(7))
    assert check(same, tmp_path, recompute=True).dtype_share is None
