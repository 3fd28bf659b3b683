"""What really ran: read off the names, spans and warnings that torch gives, and off real calls."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from harness import attention, what_ran
from harness.attention import Eligible, eligible, fired, reason
from harness.events import Work
from harness.profiling import Seen, covered, of_kernels, watch
from harness.shapes import SHAPES, Case
from harness.what_ran import Side, look

CPU = torch.device("cpu")
CASE = Case(SHAPES["t01"])
X, MASK = torch.zeros(2, 16, 32), torch.ones(2, 16, dtype=torch.bool)

# As torch 2.11 writes them on an H200, cut.
EFFICIENT = "fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<float>::Params)"
FLASH = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false>>"
CUDNN = "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_cga1x1x1"
MATH = "void (anonymous namespace)::softmax_warp_forward<float, float, float, 7, false, false>"
SGEMM = "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_tn_align1>"
TF32 = "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x4_tn_align4>"
SAID = [
    f"{text} (Triggered internally at /pytorch/aten/src/ATen/native/transformers/cuda/sdp_utils.cpp:945.)"
    for text in (
        "Memory efficient kernel not used because:",
        "Memory Efficient attention has been runtime disabled.",
        "Flash attention kernel not used because:",
        "Expected query, key and value to all be of dtype: {Half, BFloat16}; got float instead.",
        "CuDNN attention kernel not used because:",
        "CuDNN attention has been runtime disabled.",
    )
]


class Attends(nn.Module):
    """Nothing but attention, of x [B,S,D] against itself."""

    def forward(self, x: torch.Tensor, _mask: torch.Tensor | None = None) -> torch.Tensor:
        """Attend with four heads."""
        q = x.view(2, 16, 4, 8).transpose(1, 2)
        return functional.scaled_dot_product_attention(q, q, q, is_causal=True)


class Breaks(nn.Module):
    """Raises whatever it is given."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def forward(self, _x: torch.Tensor, _mask: torch.Tensor | None = None) -> torch.Tensor:
        """Raise."""
        raise self.error


@dataclass
class Spanning:
    """One of torch's events: a span in microseconds on a device."""

    name: str
    start: float
    end: float
    device: str = "CUDA"

    @property
    def device_type(self) -> SimpleNamespace:
        """As torch's enumeration."""
        return SimpleNamespace(name=self.device)

    @property
    def time_range(self) -> Any:
        """As torch's interval."""
        return self


@pytest.mark.parametrize(
    ("names", "backend"),
    [
        ([SGEMM, EFFICIENT], "efficient"),
        ([FLASH], "flash"),
        ([CUDNN], "cudnn"),
        ([MATH, SGEMM], "math"),
        (["aten::_scaled_dot_product_flash_attention_for_cpu"], "flash"),
        (["aten::_softmax"], "math"),
        ([FLASH, MATH], "flash+math"),
        (["my_attention_op", SGEMM], "own"),
    ],
)
def test_attention_that_fired_is_read_off_the_names(names: list[str], backend: str) -> None:
    """Each of torch's backends is known by its kernels; an op that torch does not know is the model's own."""
    assert fired(names) == backend


def test_torchs_reasons_go_to_the_backend_they_are_about() -> None:
    """Of all that torch warns of, a backend's reasons are what stands under its title."""
    assert reason("flash", SAID).startswith("Expected query, key and value to all be of dtype: {Half, BF")
    assert ";" not in reason("flash", SAID)
    assert reason("efficient", SAID) == reason("cudnn", SAID) == ""


def test_eligible_backends_are_those_of_the_calls_attention(one_thread: None) -> None:
    """The candidate's own attention call is what the backends are asked for; refusals have a reason."""
    model = Attends()
    found = attention._Listener()
    with found:
        model(X)
    assert isinstance(found.found, Eligible)
    assert found.found.asked == "float32 2x4x16x8 causal"
    assert found.found.backends == ("flash",)
    assert set(found.found.refused) == {"efficient", "cudnn"}
    assert "No viable backend" in found.found.flags()["sdpa_refused"]


def test_case_without_an_attention_call_asks_for_its_own_sizes(one_thread: None) -> None:
    """Where no call is to be seen, attention of the case's sizes stands for it, and the row says so."""
    found = eligible(lambda: None, lambda: torch.zeros(1, 4, 16, 8), causal=False)
    assert found.flags()["sdpa_asked"] == "supposed float32 1x4x16x8 full"


@pytest.mark.parametrize(
    ("spans", "length"),
    [([], 0), ([(0, 2), (1, 3)], 3), ([(5, 6), (0, 1)], 2), ([(0, 9), (1, 2), (8, 10)], 10)],
)
def test_overlapping_work_counts_once(spans: list[tuple[float, float]], length: float) -> None:
    """The time that a device is busy is the union of its kernels' spans, in whatever order."""
    assert covered(spans) == length


def test_kernels_and_graphs_are_told_from_waiting() -> None:
    """Kernels count, waits between streams do not, and each launch of a graph is counted."""
    seen = of_kernels(
        [
            Spanning(FLASH, 0, 10),
            Spanning(FLASH, 5, 20),
            Spanning("Stream Wait Event", 20, 90),
            Spanning("cudaGraphLaunch", 0, 3, "CPU"),
            Spanning("cudaLaunchKernel", 3, 4, "CPU"),
        ],
        calls=2,
    )
    assert seen == Seen(2, (Work(FLASH, 2, 25_000),), 20_000, 1)
    assert seen.busy_ms == 0.01


def test_row_says_who_waits_for_whom() -> None:
    """A device that works for a third of a call waits for the host; TF32 kernels are known by their names."""
    side = Side("candidate", nn.Identity(), call_ms=0.03)
    seen = Seen(1, (Work(TF32, 1, 10_000),), 10_000, 1)
    told = {"gpu_ms": "0.01", "host_bound": "yes", "tf32_ran": "yes", "cuda_graphs": "1 a call"}
    assert what_ran.told(seen, side, on_gpu=True) == told
    busy = Seen(1, (Work(SGEMM, 1, 29_000),), 29_000)
    assert what_ran.told(busy, side, on_gpu=True) == {"gpu_ms": "0.029", "host_bound": "no", "tf32_ran": "no"}
    assert what_ran.told(Seen(1, ()), side, on_gpu=True) == {"profile": "none: the profiler saw no kernel"}
    assert what_ran.told(busy, side, on_gpu=False) == {}


def test_profile_of_a_cpu_has_operators(one_thread: None) -> None:
    """Two calls under torch's profiler give their operators with times, the longest first."""
    seen = watch(lambda: functional.linear(X, torch.ones(32, 32)), 2, CPU)
    assert {work.name: work.count for work in seen.work}["aten::linear"] == 2
    assert sorted((work.ns for work in seen.work), reverse=True) == [work.ns for work in seen.work]


def test_look_sees_both_sides(one_thread: None) -> None:
    """The candidate's attention is named, and a profile of each side is there when it is asked for."""
    sides = [Side("baseline", nn.Linear(32, 32), 1.0), Side("candidate", Attends(), 200.0)]
    sides[0].model.forward = lambda x, _mask: torch.softmax(x, -1)
    found = look(CASE, sides, X, MASK, full=True)
    assert (found.attention_backend, found.flags) == ("flash", {})
    assert [(part.case_id, part.side, part.calls) for part in found.profiles] == [
        (CASE.id, "baseline", 5),
        (CASE.id, "candidate", 1),
    ]
    assert all(0 < part.top[0].ns <= part.total_ns for part in found.profiles)
    assert look(CASE, sides, X, MASK, full=False).profiles == []


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried"), "none: out of memory"),
        (ValueError("a; b\nc"), "none: ValueError: a, b"),
    ],
)
def test_failure_while_looking_costs_a_word(error: Exception, told: str) -> None:
    """Whatever goes wrong after the timing is told in a flag, and the other side is still looked at."""
    sides = [Side("baseline", Attends(), 1.0), Side("candidate", Breaks(error), 1.0)]
    found = look(CASE, sides, X, MASK, full=True)
    assert (found.attention_backend, found.flags) == ("", {"profile": told})
    assert [part.side for part in found.profiles] == ["baseline"]


def test_call_of_many_seconds_is_not_made_again() -> None:
    """A side that takes long for a call is looked at only when somebody asks for the profile."""
    sides = [Side("candidate", Breaks(AssertionError("it was called")), 39_800.0)]
    assert look(CASE, sides, X, MASK, full=False).flags == {
        "profile": "none: a call takes 39.8 s, --profile looks all the same"
    }


def test_compilation_that_gives_up_is_seen(one_thread: None) -> None:
    """Graphs, graph breaks and a recompile limit that was hit are told, each case anew."""
    import torch._dynamo as dynamo

    dynamo.utils.counters.clear()

    def doubled(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        dynamo.graph_break()
        return y + 1

    with dynamo.config.patch(recompile_limit=1, automatic_dynamic_shapes=False):
        compiled = torch.compile(doubled, backend="eager")
        for size in (2, 3, 4):
            compiled(torch.ones(size))
    told = what_ran.compilation()["compiled"]
    assert "graph break" in told
    assert "recompile limit hit" in told
    assert what_ran.compilation() == {}


def test_one_whole_graph_is_counted(one_thread: None) -> None:
    """A function that must be one graph is told as such."""
    what_ran.compilation()
    torch.compile(lambda x: x * 2, backend="eager", fullgraph=True)(torch.ones(2))
    assert what_ran.compilation() == {"compiled": "1 graphs"}
