"""Which of torch's attention backends could have run, why the others could not, and which one did."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

_FUSED = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}
# Kernels on a GPU and operators on a CPU. cuDNN first: its kernels are called flash, too.
_FIRED = (
    ("cudnn", re.compile(r"cudnn.*(sdpa|flash|fmha|fort_native)|scaled_dot_product_cudnn", re.IGNORECASE)),
    ("efficient", re.compile(r"fmha_cutlass|AttentionKernel|scaled_dot_product_efficient", re.IGNORECASE)),
    ("flash", re.compile(r"flash_fwd|flash_attn|FlashAttnFwd|scaled_dot_product_flash", re.IGNORECASE)),
    ("flex", re.compile(r"flex_attention", re.IGNORECASE)),
    ("math", re.compile(r"softmax", re.IGNORECASE)),
)
_REASON_CHARACTERS = 160


@dataclass(frozen=True)
class Eligible:
    """Which fused backends take a call, and in torch's words why the others do not.

    `asked` describes the call; `supposed` says that the candidate made none that could be seen, so that it
    is the one that attention of the case's sizes would make.
    """

    backends: tuple[str, ...]
    refused: dict[str, str]
    asked: str
    supposed: bool = False

    def flags(self) -> dict[str, str]:
        """What a row says of it."""
        refused = ", ".join(f"{name}: {why}" for name, why in self.refused.items())
        return {
            "sdpa_asked": f"{'supposed ' if self.supposed else ''}{self.asked}",
            "sdpa_eligible": " ".join((*self.backends, "math")),
            **({"sdpa_refused": refused} if refused else {}),
        }


def fired(names: Iterable[str]) -> str:
    """Return the backends whose kernels or operators are among the names, `own` when none of torch's is."""
    found = {backend for name in names if (backend := _backend(name))}
    return "+".join(sorted(found)) or "own"


def _backend(name: str) -> str:
    return next((backend for backend, pattern in _FIRED if pattern.search(name)), "")


def eligible(call: Callable[[], object], q: Callable[[], Tensor], causal: bool) -> Eligible:
    """Return what the first attention call of `call` could run on.

    Without one that can be seen (an op of its own, a graph, compiled code, which listening would compile
    anew) it is asked for q() [1,H,S,D/H] against itself.
    """
    if "torch._dynamo" not in sys.modules:
        with _Listener() as listener:
            call()
        found: Eligible | None = listener.found
        if found is not None:
            return found
    return supposed(q, causal)


def supposed(q: Callable[[], Tensor], causal: bool) -> Eligible:
    """Return what attention of q() [1,H,S,D/H] against itself could run on."""
    one = q()
    return _ask(one, one, one, None, 0.0, causal, supposed=True)


class _Listener(TorchFunctionMode):
    """Asks for the first attention call that it hears."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Eligible | None = None

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is functional.scaled_dot_product_attention and self.found is None:
            self.found = _ask(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _ask(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    supposed: bool = False,
    **more: Any,
) -> Eligible:
    """Try each fused backend alone on the first row of the batch."""
    q, k, v = (tensor[:1] for tensor in (query, key, value))
    mask = attn_mask[:1] if attn_mask is not None and attn_mask.dim() == query.dim() else attn_mask
    refused = {}
    for name, backend in _FUSED.items():
        why = _refusal(
            name,
            backend,
            lambda: functional.scaled_dot_product_attention(q, k, v, mask, dropout_p, is_causal, **more),
        )
        if why:
            refused[name] = why
    masked = "causal" if is_causal else "masked" if attn_mask is not None else "full"
    sizes = "x".join(map(str, query.shape))
    dtype = str(query.dtype).removeprefix("torch.")
    return Eligible(tuple(_FUSED.keys() - refused.keys()), refused, f"{dtype} {sizes} {masked}", supposed)


def _refusal(name: str, backend: SDPBackend, attend: Callable[[], Tensor]) -> str:
    """Return why the backend does not take the call; nothing when it does."""
    with warnings.catch_warnings(record=True) as said, sdpa_kernel([backend]):
        warnings.simplefilter("always")
        try:
            attend()
        except torch.OutOfMemoryError:
            return ""  # it was about to run
        except RuntimeError as problem:
            return reason(name, [str(warning.message) for warning in said]) or _first_line(problem)
    return ""


def reason(name: str, said: Iterable[str]) -> str:
    """Return what torch's warnings give as reasons for one backend.

    They come under a title for each backend, `Flash attention kernel not used because:`; that a backend was
    disabled says only that it was not the one asked for.
    """
    titles = {"efficient": "memory efficient", "flash": "flash attention", "cudnn": "cudnn attention"}
    mine, reasons = False, []
    for text in (line.partition(" (Triggered internally")[0].strip() for line in said):
        if text.endswith("not used because:"):
            mine = text.lower().startswith(titles[name])
        elif mine and "runtime disabled" not in text:
            reasons.append(" ".join(text.split()))
    return " ".join(dict.fromkeys(reasons)).replace(";", ",")[:_REASON_CHARACTERS]


def _first_line(problem: RuntimeError) -> str:
    return str(problem).partition("\n")[0].replace(";", ",")[:_REASON_CHARACTERS]
