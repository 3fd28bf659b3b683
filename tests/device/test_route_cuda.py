"""The route for a T4 through the whole model, its CUDA C++ run on a CPU: what it says, refuses and holds."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.baseline import TransformerConfig
from model import chunking, levers
from model.chunking import STEP, USABLE_SHARE, Parts, Piece, plan, plan_tokens
from model.ops import cuda, cuda_driver
from model.routes import cuda as route
from model.weights import Weights
from tests.device.cuda_on_cpu import COMPILER, OnCpu
from tests.device.model_cases import inputs, mask_of, pair, run

T4_BYTES = int(15.6e9)
SMALL = TransformerConfig(2, 9, 16, 1, 16, 1, True)
LONG = TransformerConfig(2, 300, 16, 1, 16, 2, True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder of compiled texts for all tests."""
    return tmp_path_factory.mktemp("cuda")


@pytest.fixture
def on_cpu(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU in the place of a card."""
    if COMPILER is None:
        pytest.skip("there is no C++ compiler here")
    monkeypatch.setattr(route, "device_refusal", lambda device: "")
    monkeypatch.setattr(cuda_driver, "loader", lambda device: OnCpu(folder))


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("kind", ["none", "holes"])
def test_it_computes_what_the_baseline_does(kind: str) -> None:
    """At float32's class of error, over padding, and says that it did."""
    baseline, model = pair(SMALL, route="cuda")
    x, mask = inputs(SMALL), mask_of(kind, SMALL)
    expected = run(baseline, x, torch.ones(x.shape[:2], dtype=torch.bool) if mask is None else mask)
    assert float((run(model, x, mask) - expected).abs().max()) <= 2e-5
    assert (model.route_ran, model.route_note, model.chunk_tokens) == ("cuda", "", None)


@pytest.mark.usefixtures("on_cpu")
def test_a_planner_that_is_told_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """Out of memory, rows are halved, then tokens, and the result is that of a sequence in one part."""
    _, whole = pair(LONG, route="cuda")
    _, model = pair(LONG, route="cuda")
    x, mask = inputs(LONG), mask_of("holes", LONG)
    expected = run(whole, x, mask)
    seen = []

    def attempt(self: route.Route, x: torch.Tensor, *rest: object) -> torch.Tensor:
        settings = rest[-1]
        assert isinstance(settings, levers.Settings)
        seen.append((len(x), settings.tokens))
        if (settings.tokens or x.shape[1]) > STEP:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return original(self, x, *rest)  # type: ignore[arg-type]

    original = route.Route.attempt
    monkeypatch.setattr(route.Route, "attempt", attempt)
    assert float((run(model, x, mask) - expected).abs().max()) <= 2e-6
    assert seen == [(2, None), (1, None), (1, 2 * STEP), (1, STEP), (1, STEP)]
    assert (model.chunk_rows, model.chunk_tokens, model.route_ran) == (1, STEP, "cuda")
    assert model.chunk_difference(x, mask) == 0.0


@pytest.mark.usefixtures("on_cpu")
def test_the_lever_for_parts() -> None:
    """LEVER_TOKENS runs each sequence alone, in such parts."""
    _, whole = pair(LONG, route="cuda")
    _, model = pair(LONG, route="cuda", tokens="77")
    x = inputs(LONG)
    assert float((run(model, x) - run(whole, x)).abs().max()) <= 2e-6
    assert (model.chunk_rows, model.chunk_tokens) == (1, 77)


def test_where_nothing_can_be_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a compiler the output is sdpa's, and the note says what is missing and where it was sought."""

    def no_compiler(device: torch.device) -> cuda_driver.Load:
        raise cuda.BuildError("no CUDA compiler: no NVRTC beside torch")

    monkeypatch.setattr(route, "device_refusal", lambda device: "")
    monkeypatch.setattr(cuda_driver, "loader", no_compiler)
    (_, model), (_, plain) = pair(SMALL, route="cuda"), pair(SMALL, route="sdpa")
    assert torch.equal(run(model, inputs(SMALL)), run(plain, inputs(SMALL)))
    assert model.route_ran == "sdpa"
    assert model.route_note == "CUDA C++ failed: BuildError: no CUDA compiler: no NVRTC beside torch"


@pytest.mark.parametrize(
    "capability, why",
    [((7, 0), "needs capability 7.5, this is 7.0"), ((7, 5), ""), ((8, 9), ""), ((9, 0), "")],
)
def test_which_cards(capability: tuple[int, int], why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cards from a T4 on, by what they can do."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert route.device_refusal.__wrapped__(torch.device("cuda", 0)) == why


@pytest.mark.parametrize("precision", ["safe", "fast", "fp16"])
def test_the_longest_shape_is_planned_into_a_t4(precision: str) -> None:
    """32 sequences of 100,000 tokens in float16: input, output and one row's work are within 15.6 GB."""
    config = TransformerConfig(32, 100_000, 1024, 16, 1024, 2, True)
    with torch.device("meta"):
        weights, x = Weights(config), torch.empty(32, 100_000, 1024, dtype=torch.float16)
    settings = levers.read({"LEVER_ROUTE": "cuda", "LEVER_PRECISION": precision})
    size, held_elsewhere = x.numel() * 2, 6 * 10**8  # CUDA itself, cuBLAS, weights
    free = T4_BYTES - size - held_elsewhere
    each, parts = route.Route(), route.Route().parts(x, weights, settings)
    row_bytes = each.bytes_per_row(x, None, weights, settings)
    piece = plan(32, 100_000, row_bytes, parts, size, free, 2)
    assert piece.rows == 1 and STEP <= piece.tokens < 100_000 and piece.tokens % STEP == 0
    assert size + 100_000 * parts.held + piece.tokens * parts.work <= free


def test_float32_of_that_shape_has_no_plan() -> None:
    """There the planner gives the least, which runs out of memory, as it must: 26.2 GB are no 15.6 GB."""
    size = 32 * 100_000 * 1024 * 4
    assert plan(32, 100_000, 10**10, Parts(12288, 40000), size, T4_BYTES - size, 4) == Piece(1, STEP, STEP)


@pytest.mark.parametrize(
    "seq_len, room, tokens",
    [
        (1, 0, 1),  # less than a step is one part
        (STEP, 0, STEP),
        (STEP + 1, 0, STEP),
        (1000, 1000, 1000),  # all of it fits
        (1000, 999, 512),  # two parts, evened out
        (1000, 512, 512),
        (1000, 511, 384),
        (1000, -5, STEP),  # not even one part does: the least is tried
    ],
)
def test_tokens_at_the_edges(seq_len: int, room: int, tokens: int) -> None:
    """Room for so many tokens beside output and what is held, in bytes of one a token."""
    free = 10**9
    output = int(free * USABLE_SHARE) - seq_len * 8 - room
    assert plan_tokens(seq_len, Parts(8, 1), output, free) == tokens


@given(
    batch=st.integers(1, 10**4),
    seq_len=st.integers(1, 10**5),
    held=st.integers(1, 10**5),
    work=st.integers(1, 10**5),
    free=st.integers(0, 10**11),
)
def test_a_plan_fits_or_is_the_least(batch: int, seq_len: int, held: int, work: int, free: int) -> None:
    """Whatever the sizes: whole rows that fit, or one in parts that fit, or the smallest part there is."""
    output, row = batch * seq_len * 2, seq_len * (held + work)
    piece = plan(batch, seq_len, row, Parts(held, work), output, free, 2)
    room = int(free * USABLE_SHARE) - output
    assert 1 <= piece.rows <= batch and 1 <= piece.tokens <= seq_len
    if piece.tokens == seq_len:
        assert piece.rows * row <= room or (piece.rows == 1 and seq_len <= STEP)
    else:
        assert piece.rows == 1 and row > room
        assert seq_len * held + piece.tokens * work <= room or piece.tokens == STEP


def test_halving_ends() -> None:
    """Rows first, then tokens down to a step; a route without parts ends at one row."""
    sizes, piece = [], Piece(3, 300, STEP)
    while piece:
        sizes.append(piece[:2])
        piece = piece.halved()  # type: ignore[assignment]
    assert sizes == [(3, 300), (2, 300), (1, 300), (1, 256), (1, 128)]
    assert chunking.plan(1, 300, 10, None, 0, 10**6, 4).halved() is None
