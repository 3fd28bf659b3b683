"""A gpuferry kernel: everything it takes to measure a model on this machine, in one file.

It needs Python 3.10 or newer and torch. The files of the bundle stand below as texts.

    python3 kernel.py                                  run the cases of ORDER
    python3 kernel.py --deadline 9m                    stop in time, and say what was not run
    python3 kernel.py --continue ferry-events.jsonl    run only what is missing
    python3 kernel.py --rehearse                       run one tiny case
    python3 kernel.py --check                          unpack and compile only, without torch

Results are the lines that begin with @@ferry@@; ferry-events.jsonl in the working folder holds the same.
"""

import sys

if sys.version_info < (3, 10):
    raise RuntimeError("a gpuferry kernel needs Python 3.10 or newer, this is " + sys.version.split()[0])

# What to measure: the terms, and one case a line. RUN says whose run this is; a push fills it.
ORDER = r'''{"terms": {
 "bundle_sha256": "881ed0d35232f5b41f8e439c1805205bd371da2dc0c13305374cc3312e57f2c2",
 "harness_sha256": "6da33db2d0bdc0bc2b4f8136c158b02b1a376143d4245221774c4fbc47dbfdc9",
 "model_sha256": "4a186a52d4e7a2a2d83b99c068556e2afc5d3ff2c78054f39afac1b8e5e3754f",
 "model": "model",
 "own_harness": false,
 "asked_accelerator": "h200",
 "allow_mismatch": false,
 "devices": 0,
 "seeds": 3,
 "timeout_s": 0.0,
 "case_timeout_s": 1800.0,
 "asked_count": 0,
 "asked_capability": "",
 "profile": false,
 "target_ci": 0.01,
 "against": "",
 "against_name": ""
},
"cases": [
{"shape": {"key": "s01", "batch": 64, "seq_len": 128, "d_model": 128, "heads": 4, "ffn_dim": 128, "layers": 4, "causal": true, "padding_ratio": 0.0, "inputs": "normal"}, "route": "sdpa", "levers": {}, "dtype": "float32", "protocol": "strict", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s02", "batch": 1, "seq_len": 128, "d_model": 128, "heads": 4, "ffn_dim": 128, "layers": 4, "causal": true, "padding_ratio": 0.0, "inputs": "normal"}, "route": "sdpa", "levers": {}, "dtype": "float32", "protocol": "strict", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s03", "batch": 4, "seq_len": 128, "d_model": 128, "heads": 4, "ffn_dim": 128, "layers": 4, "causal": true, "padding_ratio": 0.0, "inputs": "normal"}, "route": "sdpa", "levers": {}, "dtype": "float32", "protocol": "strict", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s04", "batch": 16, "seq_len": 128, "d_model": 128, "heads": 4, "ffn_dim": 128, "layers": 4, "causal": true, "padding_ratio": 0.0, "inputs": "normal"}, "route": "sdpa", "levers": {}, "dtype": "float32", "protocol": "strict", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s05", "batch": 128, "seq_len": 128, "d_model": 128, "heads": 4, "ffn_dim": 128, "layers": 4, "causal": true, "padding_ratio": 0.0, "inputs": "normal"}, "route": "sdpa", "levers": {}, "dtype": "float32", "protocol": "strict", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s06", "batch": 10000, "seq_len": 128, "d_model": 128, "heads": 4, "ffn_dim": 128, "layers": 4, "causal": true, "padding_ratio": 0.0, "inputs": "normal"}, "route": "sdpa", "levers": {}, "dtype": "float32", "protocol": "strict", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s07", "batch": 64, "seq_len": 128, "d_model": 32, "heads": 4, "ffn_dim": 32, "layers": 4, "causal": true, "padding_ratio": 0.0, "inputs": "normal"}, "route": "sdpa", "levers": {}, "dtype": "float32", "protocol": "strict", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s08", "batch": 64, "seq_len": 128, "d_model": 1024, "heads": 4, "ffn_dim": 1024, "layers": 4, "causal": true, "padding_ratio": 0.0, "inputs": "normal"}, "route": "sdpa", "levers": {}, "dtype": "float32", "protocol": "strict", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s09", "batch": 64, "seq_len": 128, "d_model": 128, "heads": 1, "ffn_dim": 128, "layers": 4, "causal": true, "padding_ratio": 0.0, "inputs": "normal"}, "route": "sdpa", "levers": {}, "dtype": "float32", "protocol": "strict", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s10", "batch": 64, "seq_len": 128, "d_model": 128, "heads": 2, "ffn_dim": 128, "layers": 4, "causal": true, "padding_ratio": 0.0, "inputs": "normal"}, "route": "sdpa", "levers": {}, "dtype": "float32", "protocol": "strict", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s11", "batch": 64, "seq_len": 128, "d_model": 128, "heads": 16, "ffn_dim": 128, "layers": 4, "causal": true, "padding_ratio": 0.0, "inputs": "normal"}, "route": "sdpa", "levers": {}, "dtype": "float32", "protocol": "strict", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s12", "batch": 64, "seq_len": 32, "d_model": 128, "heads": 4, "ffn_dim": 128, "layers": 4, "causal": true, "padding_ratio": 0.0, "inputs": "normal"}, "route": "sdpa", "levers": {}, "dtype": "float32", "protocol": "strict", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s13", "batch": 64, "seq_len": 1024, "d_model": 128, "heads": 4, "ffn_dim": 128, "layers": 4, "causal": true, "padding_ratio": 0.0, "inputs": "normal"}, "route": "sdpa", "levers": {}, "dtype": "float32", "protocol": "strict", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s01", "batch": 64, "seq_len": 128, "d_model": 128, "heads": 4, "ffn_dim": 128, "layers": 4, "causal": true, "padding_ratio": 0.0, "inputs": "normal"}, "route": "compiled", "levers": {}, "dtype": "float32", "protocol": "strict", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s02", "batch": 1, "seq_len": 128, "d_model": 128, "heads": 4, "ffn_dim": 128, "layers": 4, "causal": true, "padding_ratio": 0.0, "inputs": "normal"}, "route": "compiled", "levers": {}, "dtype": "float32", "protocol": "strict", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s03", "batch": 4, "seq_len": 128, "d_model": 128, "heads": 4, "ffn_dim": 128, "layers": 4, "causal": true, "padding_ratio": 0.0, "inputs": "normal"}, "route": "compiled", "levers": {}, "dtype": "float32", "protocol": "strict", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s04", "batch": 16, "seq_len": 128, "d_model": 128, "heads": 4, "ffn_dim": 128, "layers": 4, "causal": true, "padding_ratio": 0.0, "inputs": "normal"}, "route": "compiled", "levers": {}, "dtype": "float32", "protocol": "strict", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s05", "batch": 128, "seq_len": 128, "d_model": 128, "heads": 4, "ffn_dim": 128, "layers": 4, "causal": true, "padding_ratio": 0.0, "inputs": "normal"}, "route": "compiled", "levers": {}, "dtype": "float32", "protocol": "strict", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s06", "batch": 10000, "seq_len": 128, "d_model": 128, "heads": 4, "ffn_dim": 128, "layers": 4, "causal": true, "padding_ratio": 0.0, "inputs": "normal"}, "route": "compiled", "levers": {}, "dtype": "float32", "protocol": "strict", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s07", "batch": 64, "seq_len": 128, "d_model": 32, "heads": 4, "ffn_dim": 32, "layers": 4, "causal": true, "padding_ratio": 0.0, "inputs": "normal"}, "route": "compiled", "levers": {}, "dtype": "float32", "protocol": "strict", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s08", "batch": 64, "seq_len": 128, "d_model": 1024, "heads": 4, "ffn_dim": 1024, "layers": 4, "causal": true, "padding_ratio": 0.0, "inputs": "normal"}, "route": "compiled", "levers": {}, "dtype": "float32", "protocol": "strict", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s09", "batch": 64, "seq_len": 128, "d_model": 128, "heads": 1, "ffn_dim": 128, "layers": 4, "causal": true, "padding_ratio": 0.0, "inputs": "normal"}, "route": "compiled", "levers": {}, "dtype": "float32", "protocol": "strict", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s10", "batch": 64, "seq_len": 128, "d_model": 128, "heads": 2, "ffn_dim": 128, "layers": 4, "causal": true, "padding_ratio": 0.0, "inputs": "normal"}, "route": "compiled", "levers": {}, "dtype": "float32", "protocol": "strict", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s11", "batch": 64, "seq_len": 128, "d_model": 128, "heads": 16, "ffn_dim": 128, "layers": 4, "causal": true, "padding_ratio": 0.0, "inputs": "normal"}, "route": "compiled", "levers": {}, "dtype": "float32", "protocol": "strict", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s12", "batch": 64, "seq_len": 32, "d_model": 128, "heads": 4, "ffn_dim": 128, "layers": 4, "causal": true, "padding_ratio": 0.0, "inputs": "normal"}, "route": "compiled", "levers": {}, "dtype": "float32", "protocol": "strict", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s13", "batch": 64, "seq_len": 1024, "d_model": 128, "heads": 4, "ffn_dim": 128, "layers": 4, "causal": true, "padding_ratio": 0.0, "inputs": "normal"}, "route": "compiled", "levers": {}, "dtype": "float32", "protocol": "strict", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []}
]}
'''
RUN = '{"run_id": "20261130-162429-2dc56e", "part": 1, "git_commit": "1a4f37abbcdc03c72450bbda7567d2c8fafc7777", "git_dirty": false}'

# The bundle: name and text of each file.
BUNDLE_SHA256 = '881ed0d35232f5b41f8e439c1805205bd371da2dc0c13305374cc3312e57f2c2'
FILES = {
    '__main__.py': r'''"""Run by `python FOLDER`, so that the working folder is not on the path."""

import runpy

runpy.run_module("harness.driver", run_name="__main__", alter_sys=True)
''',
    'harness/__init__.py': r'''"""The device side: the contest's contract, the gate, the timing, and the processes that run a sweep."""
''',
    'harness/__main__.py': r'''"""`python -m harness`: the contest's script by hand."""

import sys

from harness.script import main

if __name__ == "__main__":
    sys.exit(main())
''',
    'harness/apart.py': r'''"""A second model in one process, though its modules may have the names of the first one's."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from harness.candidate import Candidate, load_candidate

FOLDER = "against"  # of the bundle, where the second model lies


class Apart:
    """The modules of a folder, in place only within `room()`: for its imports, those at a call too."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._names = {path.stem for path in folder.iterdir()}
        self._own: dict[str, ModuleType] = {}

    @contextlib.contextmanager
    def room(self) -> Iterator[None]:
        """Let names mean the folder's modules, and afterwards again what they meant before."""
        others = self._lifted()
        sys.modules.update(self._own)
        sys.path.insert(0, self._folder)
        try:
            yield
        finally:
            with contextlib.suppress(ValueError):
                sys.path.remove(self._folder)
            self._own = self._lifted()
            sys.modules.update(others)

    def load(self, module_name: str) -> Candidate:
        """Import the folder's model. Raises what `load_candidate` raises."""
        with self.room():
            importlib.invalidate_caches()
            return load_candidate(module_name)

    def _lifted(self) -> dict[str, ModuleType]:
        """Take the modules of these names out of the way and return them."""
        found = [name for name in sys.modules if name.partition(".")[0] in self._names]
        return {name: sys.modules.pop(name) for name in found}
''',
    'harness/attention.py': r'''"""Which of torch's attention backends could have run, why the others could not, and which one did."""

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
''',
    'harness/baseline.py': r'''"""The contest's baseline transformer: its configuration, its arithmetic, its state-dict keys.

A pre-norm encoder with explicit attention.
B, S, D, H, F, L = batch, sequence, width, heads, FFN width, layers.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class TransformerConfig:
    """One problem size, in the contest's positional order."""

    batch_size: int
    seq_len: int
    d_model: int
    num_heads: int
    ffn_dim: int
    num_layers: int
    causal: bool

    def validate(self) -> None:
        """Raise ValueError unless every size is positive and the heads divide the width."""
        for name in ("batch_size", "seq_len", "d_model", "num_heads", "ffn_dim", "num_layers"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive, it is {getattr(self, name)}")
        if self.d_model % self.num_heads:
            raise ValueError(f"num_heads={self.num_heads} does not divide d_model={self.d_model}")


def _zero_padding(x: Tensor, valid_token_mask: Tensor | None) -> Tensor:
    # Filled, not multiplied: 0 * nan is nan.
    return x if valid_token_mask is None else x.masked_fill(~valid_token_mask[..., None], 0.0)


class BaselineSelfAttention(nn.Module):
    """Multi-head attention with all S x S scores in memory and the softmax in float32."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"num_heads={num_heads} does not divide d_model={d_model}")
        self.d_model = d_model
        self.num_heads = num_heads
        self.head_dim = d_model // num_heads
        self.scale = self.head_dim**-0.5
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def _split_heads(self, x: Tensor) -> Tensor:
        batch, seq_len, _ = x.shape
        return x.view(batch, seq_len, self.num_heads, self.head_dim).transpose(1, 2).contiguous()

    def forward(self, x: Tensor, valid_token_mask: Tensor | None = None, causal: bool = False) -> Tensor:
        """Map x [B,S,D] to [B,S,D]; valid_token_mask [B,S] is True where a token counts."""
        q = self._split_heads(self.q_proj(x))
        k = self._split_heads(self.k_proj(x))
        v = self._split_heads(self.v_proj(x))
        scores = (q @ k.transpose(-2, -1)) * self.scale
        if causal:
            seq_len = x.shape[1]
            future = torch.ones(seq_len, seq_len, dtype=torch.bool, device=x.device).triu(diagonal=1)
            scores = scores.masked_fill(future, float("-inf"))
        if valid_token_mask is not None:
            scores = scores.masked_fill(~valid_token_mask[:, None, None, :], float("-inf"))
        weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(x.dtype)
        merged = (weights @ v).transpose(1, 2).reshape(x.shape)
        return _zero_padding(self.out_proj(merged), valid_token_mask)


class BaselineTransformerBlock(nn.Module):
    """One pre-norm layer: attention and a GELU feed-forward, each added to its input."""

    def __init__(self, d_model: int, num_heads: int, ffn_dim: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(d_model)
        self.attention = BaselineSelfAttention(d_model, num_heads)
        self.norm2 = nn.LayerNorm(d_model)
        self.ffn_in = nn.Linear(d_model, ffn_dim)
        self.ffn_out = nn.Linear(ffn_dim, d_model)

    def forward(self, x: Tensor, valid_token_mask: Tensor | None = None, causal: bool = False) -> Tensor:
        """Map x [B,S,D] to [B,S,D] with zeros where valid_token_mask [B,S] is False."""
        x = x + self.attention(self.norm1(x), valid_token_mask, causal)
        x = x + self.ffn_out(functional.gelu(self.ffn_in(self.norm2(x))))
        return _zero_padding(x, valid_token_mask)


class BaselineTransformer(nn.Module):
    """The reference of the contest: L blocks and a final LayerNorm."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        config.validate()
        self.config = config
        self.layers = nn.ModuleList(
            BaselineTransformerBlock(config.d_model, config.num_heads, config.ffn_dim)
            for _ in range(config.num_layers)
        )
        self.final_norm = nn.LayerNorm(config.d_model)

    def forward(self, x: Tensor, valid_token_mask: Tensor | None = None) -> Tensor:
        """Map x [B,S,D] to [B,S,D] with zeros where valid_token_mask [B,S] is False."""
        for layer in self.layers:
            x = layer(x, valid_token_mask, self.config.causal)
        return _zero_padding(self.final_norm(x), valid_token_mask)


class UserOptimizedTransformer(BaselineTransformer):
    """The contest's stub: the class that a candidate replaces. Keep `forward` and the shape it returns.

    Parameter names other than the baseline's need a `copy_model_weights` of the candidate's own.
    """

    def forward(self, x: Tensor, valid_token_mask: Tensor | None = None) -> Tensor:
        """Do what the baseline does."""
        return super().forward(x, valid_token_mask)


def copy_model_weights(baseline: nn.Module, optimized: nn.Module, strict: bool = True) -> None:
    """Load a deep copy of the baseline's state dict. Strict: RuntimeError when the keys differ."""
    optimized.load_state_dict(copy.deepcopy(baseline.state_dict()), strict=strict)
''',
    'harness/blocks.py': r'''"""Cutting a tensor into blocks, so that what is done to each needs little memory. Standard library only."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

CROSSING_ELEMENTS = 1 << 24  # of an output that cross between host and device at once

Block = tuple[slice, ...]


def blocks(shape: Sequence[int], most: int) -> Iterator[Block]:
    """Yield indices that cut a tensor of this shape into views of at most `most` elements, in memory's order.

    The last axis is never cut: a row of it that is longer is a block of its own.
    """
    row = math.prod(shape[1:])
    if len(shape) < 2 or shape[0] * row <= most:
        yield ()
    elif row <= most:
        step = most // row
        for start in range(0, shape[0], step):
            yield (slice(start, min(start + step, shape[0])),)
    else:
        for start in range(shape[0]):
            for rest in blocks(shape[1:], most):
                yield (slice(start, start + 1), *rest)


def within(block: Block, index: Sequence[int]) -> tuple[int, ...]:
    """Return the whole tensor's index of an element that has `index` in the block."""
    starts = [part.start for part in block]
    return tuple(i + (starts[axis] if axis < len(starts) else 0) for axis, i in enumerate(index))
''',
    'harness/candidate.py': r'''"""Find the model that is measured: its class, its weight copy, its file.

Self-contained: `ferry build --for-script` puts a copy of this file beside somebody's own benchmark script.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from torch import nn

CONTRACT = "torch_transformer_benchmark"
CLASS_NAMES = ("UserOptimizedTransformer", "OptimizedTransformer")


class CandidateError(ImportError):
    """There is no model to measure where one should be."""


@dataclass(frozen=True)
class Candidate:
    """A model class to be called with a config, how weights get into it, and the file it came from."""

    model_class: Callable[..., nn.Module]
    copy_model_weights: Callable[..., None]
    file: Path


def load_contract(own_harness: bool) -> ModuleType:
    """Return the module with the contract's names: somebody's bundled harness, or gpuferry's.

    From then on `import torch_transformer_benchmark` gives that module.
    """
    if own_harness:
        return importlib.import_module(CONTRACT)
    return sys.modules.setdefault(CONTRACT, importlib.import_module("harness.contract"))


def load_candidate(module_name: str) -> Candidate:
    """Import a module and return the model in it.

    The class is `UserOptimizedTransformer`, else `OptimizedTransformer`, and never the contract's own stub;
    the weight copy is the contract's unless the module has one. Raises CandidateError when there is no such
    module or no such class in it, and whatever the import raises.
    """
    file = locate(module_name)
    contract = sys.modules.get(CONTRACT) or load_contract(own_harness=False)
    module = importlib.import_module(module_name)
    classes = [getattr(module, name, None) for name in CLASS_NAMES]
    stub = getattr(contract, CLASS_NAMES[0], None)
    model_class = next((found for found in classes if found not in (None, stub)), None)
    if model_class is None:
        raise CandidateError(f"{file} defines neither {' nor '.join(CLASS_NAMES)}")
    return Candidate(
        model_class, getattr(module, "copy_model_weights", None) or contract.copy_model_weights, file
    )


def locate(module_name: str) -> Path:
    """Return the file that an import would run, `__init__.py` for a package; it is not run.

    Raises CandidateError when there is none.
    """
    spec = importlib.util.find_spec(module_name)
    if spec is None or spec.origin is None:
        why = "no such module" if spec is None else "a folder without __init__.py"
        raise CandidateError(f"there is no model {module_name}: {why}")
    return Path(spec.origin)


def make_importable(path: Path) -> str:
    """Put a file, or a package's folder, and what stands beside it on the search path; return its name.

    Raises CandidateError when it is not there or cannot be imported by that name.
    """
    path = path.resolve()
    path = path.parent if path.name == "__init__.py" else path
    file = path / "__init__.py" if path.is_dir() else path
    if not file.is_file():
        raise CandidateError(f"there is no model file {file}")
    if not path.stem.isidentifier():
        raise CandidateError(f"{path.stem!r} cannot be imported as a module; rename {path}")
    sys.path.insert(0, str(path.parent))
    if (taken_by := locate(path.stem)) != file:
        raise CandidateError(f"the name of {path} is taken by {taken_by}; rename it")
    return path.stem


def origin(file: Path) -> str:
    """Return a model's file and the sha256 of its bytes.

    For a package, its folder and the sha256 of the list that `sha256sum` prints for all of its files, sorted
    by their paths from the folder's parent.
    """
    if file.name != "__init__.py":
        return f"{file} sha256={_sha256(file.read_bytes())}"
    folder = file.parent
    names = sorted(path.relative_to(folder.parent).as_posix() for path in folder.rglob("*") if path.is_file())
    names = [name for name in names if "/__pycache__/" not in name and "/." not in name]
    listing = "".join(f"{_sha256((folder.parent / name).read_bytes())}  {name}\n" for name in names)
    return f"{folder} sha256={_sha256(listing.encode())} ({len(names)} files)"


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
''',
    'harness/cards.py': r'''"""Which cards there are, found without torch. Standard library only."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.cores import cores_here, shares

_QUERY = "index,uuid,name,memory.total,driver_version"
_LINE = re.compile(r"\d+(,[^,]*){4,5}$")
_MIB = 2**20


@dataclass(frozen=True)
class Card:
    """One GPU, or the CPU with index -1. `pin` is what CUDA_VISIBLE_DEVICES gets to see this card alone.

    `threads` is how many CPU threads a process on it may use, 0 for no rule; `cores` are the CPU cores that
    its processes keep to, empty for all; memory 0 and capability "" are unknown. `mismatch` says why it is
    not what was asked for; a `simulated` card is a name for this machine's CPU.
    """

    index: int
    name: str
    memory_bytes: int
    driver: str = ""
    pin: str = ""
    threads: int = 0
    capability: str = ""
    cores: tuple[int, ...] = ()
    mismatch: str = ""
    simulated: bool = False

    @property
    def is_gpu(self) -> bool:
        """Whether this is a GPU."""
        return self.index >= 0

    @property
    def torch_device(self) -> str:
        """What torch calls the place where the work is done, `cuda` or `cpu`."""
        return "cuda" if self.is_gpu and not self.simulated else "cpu"

    def matches(self, asked: str) -> bool:
        """Whether the card is what was asked for: nothing, `any` GPU, `cpu`, or words of its name.

        Whole words: an `L4` is no L40S, an `A10` no A100.
        """
        if asked in ("", "any", "cpu"):
            return asked == "" or self.is_gpu == (asked == "any")
        return self.is_gpu and bool(re.search(rf"(?<!\w){re.escape(asked)}(?!\w)", self.name, re.IGNORECASE))


def find_gpus() -> list[Card]:
    """Return the GPUs that nvidia-smi lists and that somebody above us has left visible."""
    return _visible(_listed(), os.environ)


def chosen(gpus: Sequence[Card], asked: str, devices: int) -> list[Card]:
    """Return the GPUs to use: those that match `asked`, else whatever is there; at most `devices`."""
    matching = [card for card in gpus if card.matches(asked)]
    return (matching or list(gpus))[: devices or None]


def cpu_cards(devices: int) -> list[Card]:
    """Return the CPU, as many equal cards as `devices` says."""
    count = max(1, devices)
    threads = max(1, len(cores_here()) // count)
    return [Card(-1, f"cpu {cpu_name()}", total_memory(), threads=threads)] * count


def apart(cards: Sequence[Card]) -> list[Card]:
    """Return the cards, each with cores of its own: what serves one must not take the time of another."""
    if len(cards) < 2:
        return list(cards)
    dealt = zip(cards, shares(cores_here(), len(cards)), strict=True)
    return [
        replace(card, cores=cores, threads=len(cores) or 1)
        if card.torch_device == "cpu"
        # A GPU's worker takes as many threads as it has cores by itself.
        else replace(card, cores=cores)
        for card, cores in dealt
    ]


def _listed() -> list[Card]:
    """Ask for the capability, too, unless nvidia-smi is too old to know it."""
    return _query(f"{_QUERY},compute_cap") or _query(_QUERY)


def _query(fields: str) -> list[Card]:
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [_gpu(line) for line in answer.splitlines() if _LINE.match(line)]


def _gpu(line: str) -> Card:
    index, uuid, name, memory, driver, *capability = (part.strip() for part in line.split(","))
    size = int(memory) * _MIB if memory.isdigit() else 0
    known = [text for text in capability if re.fullmatch(r"\d+\.\d", text)]
    return Card(int(index), name, size, driver, pin=uuid, capability="".join(known))


def _visible(gpus: list[Card], environment: Mapping[str, str]) -> list[Card]:
    """Keep to the cards that somebody above us (slurm, a user) has left visible.

    As CUDA reads it: the first name that is neither a card's number or uuid nor a slice of a card (`-1`,
    `NoDevFiles`) ends the list. A slice's size is not known here.
    """
    if not gpus or "CUDA_VISIBLE_DEVICES" not in environment:
        return gpus
    cards: list[Card] = []
    for name in filter(None, map(str.strip, environment["CUDA_VISIBLE_DEVICES"].split(","))):
        known = [card for card in gpus if name == str(card.index) or card.pin.startswith(name)]
        if not known and not name.startswith("MIG-"):
            break
        cards.append(known[0] if known else replace(gpus[0], index=len(cards), memory_bytes=0, pin=name))
    return cards


def cpu_name() -> str:
    """Return what this machine calls its CPU."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def total_memory() -> int:
    """Return this machine's memory in bytes, 0 where it does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return 0
''',
    'harness/carried.py': r'''"""What an earlier attempt at the same order has left: `--continue`. Standard library only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.events import (
    FINAL_STATUSES,
    CaseDone,
    DamagedEventError,
    Device,
    Event,
    Order,
    Plan,
    Planned,
    RunRef,
    Samples,
    Terms,
    decode,
)


class CannotContinueError(ValueError):
    """The file is not an earlier attempt at this order; the text says why."""


@dataclass(frozen=True)
class Carried:
    """Earlier attempts of one run and part: their lines, and the last status of each case they ended.

    `attempt` is the next attempt's number; `damaged` counts lines that were not whole.
    """

    ref: RunRef
    attempt: int = 1
    lines: tuple[str, ...] = ()
    statuses: dict[str, str] = field(default_factory=dict)
    damaged: int = 0

    @property
    def final(self) -> dict[str, str]:
        """The statuses of the cases that need no new run."""
        return {case: status for case, status in self.statuses.items() if status in FINAL_STATUSES}


def read_carried(path: Path, ref: RunRef, order: Order) -> Carried:
    """Read an events file. With an empty `ref` the run is the file's own, which was the last to write there.

    Raises CannotContinueError when the file cannot be read, is another run's or another order's.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as problem:
        raise CannotContinueError(f"cannot read {path}: {problem.strerror}") from problem
    found, damaged = _decoded(text)
    if not found:
        return Carried(ref, damaged=damaged)
    last = found[-1][1].name
    run, part = (ref.run_id, ref.part) if ref.run_id else (last.run, last.part)
    mine = [(line, event) for line, event in found if (event.name.run, event.name.part) == (run, part)]
    if not mine:
        raise CannotContinueError(
            f"{path} holds run {last.run}, part {last.part}; this is run {run}, part {part}"
        )
    events = [event for _, event in mine]
    _check_order(path, events, order)
    refs = [event.body.ref for event in events if isinstance(event.body, Plan)]
    return Carried(
        ref=ref if ref.run_id else replace(refs[-1] if refs else ref, run_id=run, part=part),
        attempt=max(event.name.attempt for event in events) + 1,
        lines=tuple(line for line, _ in mine),
        statuses=_statuses(events),
        damaged=damaged,
    )


def _decoded(text: str) -> tuple[list[tuple[str, Event]], int]:
    found, damaged = [], 0
    for line in text.split("\n"):
        try:
            event = decode(line)
        except DamagedEventError:
            damaged += 1
        else:
            if event is not None:
                found.append((line, event))
    return found, damaged


def _statuses(events: Sequence[Event]) -> dict[str, str]:
    """The last status of each case that has ended; `unknown` where a line is lost that its row needs.

    That is its attempt's plan and, for a case that passed, its device and all of its samples.
    """
    bodies = {event.name: event.body for event in events}  # a replayed line counts once
    plans = {name.attempt for name, body in bodies.items() if isinstance(body, Plan)}
    devices = {(name.attempt, body.index) for name, body in bodies.items() if isinstance(body, Device)}
    samples: Counter[tuple[int, str]] = Counter()
    for name, body in bodies.items():
        if isinstance(body, Samples):
            samples[name.attempt, body.case_id] += _count(body)

    def is_whole(attempt: int, done: CaseDone) -> bool:
        measured = (attempt, done.device_index) in devices and samples[attempt, done.case_id] == done.samples
        return attempt in plans and (done.status != "passed" or measured)

    ends = [(name.attempt, body) for name, body in bodies.items() if isinstance(body, CaseDone)]
    return {done.case_id: done.status if is_whole(attempt, done) else "unknown" for attempt, done in ends}


def _count(samples: Samples) -> int:
    try:
        return len(samples.values)
    except DamagedEventError:
        return 0


def _check_order(path: Path, events: list[Event], order: Order) -> None:
    cases = {case.id: case for case in order.cases}
    for body in (event.body for event in events):
        if isinstance(body, Plan) and _substance(body.terms) != _substance(order.terms):
            raise CannotContinueError(f"{path} was written with other code or terms than this kernel's")
        if isinstance(body, Plan) and body.planned != len(cases):
            raise CannotContinueError(
                f"{path} belongs to an order of {body.planned} cases, this one has {len(cases)}"
            )
        if isinstance(body, Planned) and cases.get(body.case.id) != body.case:
            raise CannotContinueError(
                f"{path} belongs to another order: case {body.case.id} differs from ours"
            )


def _substance(terms: Terms) -> Terms:
    """The terms without what may differ from place to place: accelerator, cards, time."""
    return Terms(
        terms.bundle_sha256,
        terms.harness_sha256,
        terms.model_sha256,
        model=terms.model,
        own_harness=terms.own_harness,
        seeds=terms.seeds,
    )
''',
    'harness/channel.py': r'''"""What the driver and its children ask and answer each other; `harness.wire` carries it.

Standard library only.
"""

from __future__ import annotations

import random
import statistics
import typing
from dataclasses import dataclass, field
from typing import Any

from harness.events import Device, Profile, Samples
from harness.figures import Figures as Figures
from harness.shapes import Case

# --- requests ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hello:
    """To both: import torch and take the device, `cuda` or `cpu`. Answer: Ready."""

    device: str


@dataclass(frozen=True)
class Load:
    """To both: import the contract. Answer: Done."""

    own_harness: bool


@dataclass(frozen=True)
class Alone:
    """To the worker: time the case's baseline while there is no candidate in the process. Answer: Timed.

    `seed` is for the inputs of protocol `strict`; the contest's has one input.
    """

    case: Case
    weight_seed: int
    seed: int


@dataclass(frozen=True)
class Enter:
    """To the worker: import the candidate, module `model`, and `against` if there is one. Answer: Done."""

    model: str
    against: str = ""


@dataclass(frozen=True)
class Build:
    """To both: draw the baseline's weights; to the worker: build the candidate from them. Answer: Done."""

    case: Case
    weight_seed: int


@dataclass(frozen=True)
class Forward:
    """To the worker: one forward on a drawn input, kept in the first folder with room. Answer: Output."""

    input_seed: int
    folders: tuple[str, ...]
    side: str = "candidate"


@dataclass(frozen=True)
class Check:
    """To the judge: gate the output at `path`, in its dtype, for the same input. Answer: Figures.

    With `oracle_s` the reference is the oracle, over as many sequences as so many seconds allow; `recompute`
    asks for the baseline against itself in float32, too.
    """

    input_seed: int
    path: str
    dtype: str
    oracle_s: float = 0.0
    recompute: bool = False


@dataclass(frozen=True)
class Rest:
    """To the judge: let go of the device's memory, the timing comes now. Answer: Done."""


@dataclass(frozen=True)
class Time:
    """To the worker: time baseline and candidate by the contract's protocol. Answer: Timed.

    `again`: then the baseline once more, as if it were a candidate. Without `baseline`, which may have no
    room, the candidate is timed alone.
    """

    again: bool = False
    baseline: bool = True


@dataclass(frozen=True)
class Warm:
    """To the worker: make ready for blocks of these sides, calling each so often. Answer: Warmed."""

    sides: tuple[str, ...]
    calls: int


@dataclass(frozen=True)
class Block:
    """To the worker: time `turns` turns of the sides. The call at position p has the input of `seed` + p.

    `order_seed` gives the order of the sides in every turn. Answer: Blocked.
    """

    number: int
    seed: int
    order_seed: int
    turns: int
    sides: tuple[str, ...]

    def order(self) -> list[str]:
        """Return the sides in the order of the calls: turns of every side once, each shuffled anew."""
        draw = random.Random(self.order_seed)  # noqa: S311 (the seed comes from the system's entropy)
        return [name for _ in range(self.turns) for name in draw.sample(self.sides, len(self.sides))]


@dataclass(frozen=True)
class Show:
    """To the worker: hand over the last block's output at a position, like Forward. Answer: Output."""

    position: int
    folders: tuple[str, ...]


@dataclass(frozen=True)
class Sprint:
    """To the worker: so many calls of one side back to back, on inputs from `seed` on. Answer: Sprinted."""

    side: str
    calls: int
    seed: int


@dataclass(frozen=True)
class Look:
    """To the worker, after Time: see what really runs. Answer: Looked.

    `call_ms` is what one call took while it was timed, by side; `profile` asks for the top of the work.
    """

    call_ms: dict[str, float]
    profile: bool


@dataclass(frozen=True)
class Repeat:
    """To the worker: time a side's calls on the input of `seed`, and on those after it. Answer: Repeated."""

    side: str
    calls: int
    seed: int


# --- replies ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ready:
    """Torch is there and the device works; the driver fills in what only it knows of the card."""

    device: Device


@dataclass(frozen=True)
class Done:
    """Done as asked."""


@dataclass(frozen=True)
class Facts:
    """What the worker has seen of the case so far; the fields are `CaseDone`'s."""

    route_ran: str = ""
    route_note: str = ""
    tf32: str = ""
    aliases_output: bool | None = None
    first_call_s: float | None = None
    compile_s: float | None = None
    peak_mem_mib: float | None = None
    flags: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Output:
    """Where the candidate's output lies: [B,S,D], raw, in the dtype that the candidate chose."""

    path: str
    dtype: str
    facts: Facts


@dataclass(frozen=True)
class Timed:
    """Every sample of both sides, in the order taken."""

    samples: tuple[Samples, ...]
    facts: Facts

    def call_ms(self) -> dict[str, float]:
        """Return each side's median time in milliseconds."""
        sides: dict[str, list[int]] = {}
        for part in self.samples:
            sides.setdefault(part.side, []).extend(part.values)
        return {side: statistics.median(ns) / 1e6 for side, ns in sides.items()}


@dataclass(frozen=True)
class Looked:
    """What really ran; the fields are `CaseDone`'s, and events of their own."""

    attention_backend: str
    flags: dict[str, str]
    profiles: tuple[Profile, ...] = ()


@dataclass(frozen=True)
class Warmed:
    """How many turns' outputs there is memory for, and about how long a turn takes."""

    room: int
    turn_ns: int


@dataclass(frozen=True)
class Blocked:
    """A block's samples, and how long it took by the worker's clock.

    `late` counts by side the calls for which the device may have waited for the host. `shared` outputs had
    memory in common with another or with an input; `changed` ones were not at the block's end what they were
    right after their call.
    """

    samples: tuple[Samples, ...]
    wall_ns: int
    late: dict[str, int]
    shared: int
    changed: int
    facts: Facts = field(default_factory=Facts)


@dataclass(frozen=True)
class Sprinted:
    """How long the calls took by the worker's timer."""

    span_ns: int


@dataclass(frozen=True)
class Repeated:
    """Times in nanoseconds of calls on new inputs, and on one that was seen before."""

    fresh: tuple[int, ...]
    again: tuple[int, ...]


@dataclass(frozen=True)
class Problem:
    """The request failed and the child lives; `kind` is the exception's class or a word for what is wrong."""

    status: str
    kind: str
    error: str


Request = (
    Hello
    | Load
    | Alone
    | Enter
    | Build
    | Forward
    | Check
    | Rest
    | Time
    | Look
    | Warm
    | Block
    | Show
    | Sprint
    | Repeat
)
Reply = Ready | Done | Output | Figures | Timed | Looked | Warmed | Blocked | Sprinted | Repeated | Problem
Message = Request | Reply
KINDS: dict[str, type[Any]] = {cls.__name__: cls for cls in typing.get_args(Message)}
''',
    'harness/chatter.py': r'''"""What children print, made fit for the log. Standard library only."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable

from harness.events import MARKER

HEAD_BYTES = TAIL_BYTES = 64_000
LINE_BYTES = 8_000  # a longer line goes on in the next one
_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)
_CORE = MARKER.strip(" ").lstrip("@")  # a string that cannot overlap itself


def clean(line: bytes) -> str:
    """Return the line as a terminal would leave it, without controls, and with the event marker broken.

    Controls go first: a marker with an escape sequence inside would be whole again for a reader that
    strips them.
    """
    text = line.decode("utf-8", "backslashreplace").rstrip("\r").rpartition("\r")[2]
    return _CONTROL.sub("", text).replace(_CORE, _CORE[0] + "." + _CORE[1:])


def _size(line: str) -> int:
    """Bytes of the line in the log, its end included."""
    return len(line.encode()) + 1


class Relay:
    """The chatter of one card's children in one case: the head at once, the tail when the case ends.

    Every line gets `prefix`, so that none can be taken for anything but chatter. `write` takes whole lines.
    `forged` is whether one of this case's lines had the event marker.
    """

    def __init__(self, prefix: str, write: Callable[[list[str]], None]) -> None:
        self._prefix = prefix
        self._write = write
        self._partial: dict[str, bytes] = {}
        self._begin()

    def _begin(self) -> None:
        self.forged = False
        self._head_bytes = self._tail_bytes = self._left_out = 0
        self._tail: deque[str] = deque()

    def hear(self, speaker: str, data: bytes) -> None:
        """Take what `speaker` has printed; a line that has not ended yet waits for its end."""
        *whole, partial = (self._partial.get(speaker, b"") + data).split(b"\n")
        cut = len(partial) - len(partial) % LINE_BYTES
        self._partial[speaker] = partial[cut:]
        self.forged = self.forged or MARKER.encode() in data
        lines = [line[at : at + LINE_BYTES] for line in whole for at in range(0, len(line) or 1, LINE_BYTES)]
        lines += [partial[at : at + LINE_BYTES] for at in range(0, cut, LINE_BYTES)]
        head = [line for line in map(self._written, lines) if self._fits(line)]
        if head:
            self._write(head)

    def _written(self, line: bytes) -> str:
        return self._prefix + clean(line)

    def _fits(self, line: str) -> bool:
        """Whether the line, as it is written, belongs to the head; else it is kept for the tail."""
        size = _size(line)
        if not self._tail and self._head_bytes + size <= HEAD_BYTES:
            self._head_bytes += size
            return True
        self._tail.append(line)
        self._tail_bytes += size
        while self._tail_bytes > TAIL_BYTES:
            dropped = _size(self._tail.popleft())
            self._tail_bytes -= dropped
            self._left_out += dropped
        return False

    def end(self) -> None:
        """Close the case: write unended lines and the tail, say how much is missing, and begin anew."""
        for speaker in [name for name, partial in self._partial.items() if partial]:
            self.hear(speaker, b"\n")
        left_out = f"{self._prefix}… {self._left_out} bytes of output left out …"
        lines = [*([left_out] if self._left_out else []), *self._tail]
        if lines:
            self._write(lines)
        self._begin()
''',
    'harness/contract.py': r'''"""The public names of the contest's script, for a model file that imports them from there."""

from __future__ import annotations

from harness.baseline import (
    BaselineSelfAttention,
    BaselineTransformer,
    BaselineTransformerBlock,
    TransformerConfig,
    UserOptimizedTransformer,
    copy_model_weights,
)
from harness.gate import AccuracyResult, compare_outputs, run_accuracy_tests
from harness.inputs import generate_random_case
from harness.script import main, maybe_compile, parse_args, resolve_device, resolve_dtype, validate_args
from harness.timing import TimingResult, benchmark_models, benchmark_once, percentile, warmup_model

__all__ = [
    "AccuracyResult",
    "BaselineSelfAttention",
    "BaselineTransformer",
    "BaselineTransformerBlock",
    "TimingResult",
    "TransformerConfig",
    "UserOptimizedTransformer",
    "benchmark_models",
    "benchmark_once",
    "compare_outputs",
    "copy_model_weights",
    "generate_random_case",
    "main",
    "maybe_compile",
    "parse_args",
    "percentile",
    "resolve_device",
    "resolve_dtype",
    "run_accuracy_tests",
    "validate_args",
    "warmup_model",
]
''',
    'harness/cores.py': r'''"""The CPU's cores, dealt to the cards that work side by side. Standard library only."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

_TOPOLOGY = Path("/sys/devices/system/cpu")


def cores_here() -> tuple[int, ...]:
    """Return the numbers of the cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return tuple(sorted(affinity(0))) if affinity else tuple(range(os.cpu_count() or 1))


def shares(cores: Sequence[int], count: int, topology: Path = _TOPOLOGY) -> list[tuple[int, ...]]:
    """Deal the cores to `count` neighbours, equally many each; none to anybody where there are too few.

    Threads of one physical core stay together where they can: two neighbours on one core slow each other.
    """
    each = len(cores) // count
    ordered = sorted(cores, key=lambda core: (_first_sibling(core, topology), core))
    return [tuple(sorted(ordered[each * place : each * (place + 1)])) for place in range(count)]


def keep_to(cores: Iterable[int]) -> None:
    """Let this thread, and every process that it starts from now on, run on these cores only; none: anywhere.

    Where the system has no such call, or says no, nothing changes.
    """
    with contextlib.suppress(OSError, AttributeError):
        if wanted := set(cores):
            os.sched_setaffinity(0, wanted)


def _first_sibling(core: int, topology: Path) -> int:
    with contextlib.suppress(OSError, ValueError):
        siblings = (topology / f"cpu{core}" / "topology" / "thread_siblings_list").read_text()
        return int(siblings.replace("-", ",").split(",")[0])
    return core
''',
    'harness/crew.py': r'''"""The two processes on a card: who is there, who must be fresh, under which user. Standard library only."""

from __future__ import annotations

import os
from pathlib import Path

from harness.cards import Card
from harness.chatter import Relay
from harness.environment import Setting, for_judge, for_worker, setting_of
from harness.exchange import Exchange
from harness.isolation import Identity, isolate
from harness.limits import CaseFailureError
from harness.process import ROOT, Child
from harness.shapes import FRESH_WORKER, Case


class Crew:
    """A card's judge, and its worker of the moment."""

    def __init__(self, card: Card, scratch: Path, exchange: Exchange, relay: Relay) -> None:
        self.judge: Child | None = None
        self.worker: Child | None = None
        self._card = card
        self._scratch = scratch
        self._exchange = exchange
        self._relay = relay
        self._setting: Setting | None = None  # what the worker was started for
        self._used = False  # whether the worker has served a case
        self._isolation: Identity | str = ""  # the worker's user, or why it has none of its own

    @property
    def pids(self) -> list[int]:
        """The processes' numbers."""
        return [child.pid for child in (self.judge, self.worker) if child]

    @property
    def isolated(self) -> str:
        """Whether workers have a user of their own, or why not."""
        return "yes" if self._isolated() else f"no: {self._isolation}"

    def put_to_use(self) -> bool:
        """Note that the worker serves a case now; return whether it is its first."""
        is_first, self._used = not self._used, True
        return is_first

    def hire_judge(self) -> Child:
        """Return the judge; a new one if there is none."""
        if self.judge is None:
            self.judge = self._hire("judge", for_judge(os.environ, self._card, self._scratch / "judge"))
        return self.judge

    def hire_worker(self, case: Case) -> Child:
        """Return the worker that is there if it may serve the case, else a new one."""
        if self._setting != setting_of(case) or (self._used and case.protocol in FRESH_WORKER):
            self.end_worker()
        if self.worker is None:
            self.worker = self._hire("worker", self._environment_of_worker(case), self._isolated())
            self._setting, self._used = setting_of(case), False
        return self.worker

    def _environment_of_worker(self, case: Case) -> dict[str, str]:
        identity = self._isolated()
        environment = for_worker(os.environ, self._card, self._scratch / "worker", case)
        return environment | (identity.environment() if identity else {})

    def _isolated(self) -> Identity | None:
        """Return the user for this card's workers, if one can work here; it is tried once."""
        if not self._isolation:
            home = self._scratch / "worker"
            self._isolation = isolate(
                self._card.torch_device, for_judge(os.environ, self._card, home), home, ROOT
            )
            if isinstance(self._isolation, Identity):
                self._exchange.grant(self._isolation.uid)
        return self._isolation if isinstance(self._isolation, Identity) else None

    def _hire(self, name: str, environment: dict[str, str], identity: Identity | None = None) -> Child:
        try:
            return Child(
                name,
                self._card.torch_device,
                environment,
                lambda data: self._relay.hear(name, data),
                identity,
            )
        except OSError as problem:
            words = f"the {name} could not be started: {problem}"
            raise CaseFailureError("error", type(problem).__name__, words) from problem

    def end_judge(self) -> None:
        """Part with the judge."""
        if self.judge is not None:
            self.judge.end()
        self.judge = None

    def end_worker(self) -> None:
        """Part with the worker, and with what it has handed over."""
        if self.worker is not None:
            self.worker.end()
        self.worker = self._setting = None
        self._exchange.clear()
''',
    'harness/devices.py': r'''"""What a kernel says of the hardware it meets. Standard library only; `harness.events` hands it on."""

from __future__ import annotations

from dataclasses import dataclass

SIMULATED = "simulated "  # begins the name of a device that FERRY_TEST_HARDWARE made up


@dataclass(frozen=True)
class Device:
    """One card as the process on it sees it; `index` is -1 for a CPU, whose name starts with `cpu`."""

    index: int
    name: str
    capability: str = ""
    memory_mib: int = 0
    driver: str = ""
    torch: str = ""
    triton: str = ""
    cuda: str = ""
    python: str = ""
    threads: int = 0

    @property
    def is_gpu(self) -> bool:
        """Whether this is a GPU."""
        return self.index >= 0


@dataclass(frozen=True)
class Hardware:
    """What machine a kernel found: once an attempt, before its first case; all that a probe has to say.

    `asked` says in words what the order wants, `finding` why what came is not that; empty when it is.
    `cards` are all GPUs in sight (index, name, capability, memory, driver), none on a CPU. What torch said is
    empty where it was not asked: `arches` is what it has code for, as `sm_75` and `compute_90`. Sizes are in
    MiB, `disk_mib` is what is free in the working folder; `internet` is None unless a probe has tried.
    """

    asked: str
    finding: str = ""
    cards: tuple[Device, ...] = ()
    torch: str = ""
    triton: str = ""
    cuda: str = ""
    arches: tuple[str, ...] = ()
    python: str = ""
    cpu: str = ""
    cpus: int = 0
    ram_mib: int = 0
    disk_mib: int = 0
    internet: bool | None = None


def is_simulated(device: str) -> bool:
    """Whether a device's name says that it was made up for a test: its figures measure nothing."""
    return device.startswith(SIMULATED)
''',
    'harness/drawing.py': r'''"""What judge and worker do alike, so that both hold the same weights: the start of the contest's `main`."""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from harness.events import Device
from harness.inputs import altered
from harness.script import resolve_dtype, set_up_torch
from harness.shapes import Case, Settings, parse_settings


@dataclass
class Drawn:
    """The baseline of one case and weight seed, and what it takes to draw its inputs."""

    contract: ModuleType
    case: Case
    settings: Settings
    seed: int
    device: torch.device
    config: Any  # somebody's own harness has a class of its own for it
    baseline: nn.Module

    @property
    def dtype(self) -> torch.dtype:
        """The case's dtype."""
        return resolve_dtype(self.case.dtype)

    def placed(self, model: nn.Module) -> nn.Module:
        """Return the model on the device, in the case's dtype, in evaluation mode."""
        return model.to(self.device, self.dtype).eval()

    def inputs(self, seed: int) -> tuple[Tensor, Tensor]:
        """Return x [B,S,D] and its mask [B,S] for an input seed."""
        x, mask = self.contract.generate_random_case(
            self.config,
            self.device,
            self.dtype,
            seed,
            self.case.shape.padding_ratio,
            self.settings.input_scale,
        )
        return altered(self.case.shape.inputs, x, mask), mask


def draw(contract: ModuleType, case: Case, seed: int, device: torch.device) -> Drawn:
    """Set seeds and precision as the contest's script does, then build the baseline, on the CPU."""
    settings = settings_of_contract(contract, case)
    set_up_torch(replace(settings, seed=seed), device)
    s = case.shape
    config = contract.TransformerConfig(s.batch, s.seq_len, s.d_model, s.heads, s.ffn_dim, s.layers, s.causal)
    with _plain_defaults():
        baseline = contract.BaselineTransformer(config)
    return Drawn(contract, case, settings, seed, device, config, baseline)


def settings_of_contract(contract: ModuleType, case: Case) -> Settings:
    """Return the case's settings with the contract's own defaults: copies of the script differ in them.

    Seed and trials are dealt by the driver, which cannot ask. A contract whose `parse_args` is missing or
    takes other options is used with the pinned script's defaults.
    """
    settings = parse_settings(case.harness_args)
    before = sys.argv
    sys.argv = [before[0], *case.harness_args]
    try:
        own = vars(contract.parse_args())
    except (AttributeError, TypeError, SystemExit):
        return settings
    finally:
        sys.argv = before
    names = ("input_scale", "rtol", "atol", "matmul_precision", "allow_tf32", "non_strict_weight_copy")
    return replace(settings, **{name: own[name] for name in names if name in own})


@contextlib.contextmanager
def _plain_defaults() -> Iterator[None]:
    """Draw in float32 on the CPU, as the judge does, whatever the candidate has made the default."""
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        with torch.device("cpu"):
            yield
    finally:
        torch.set_default_dtype(dtype)


def take_device(kind: str) -> torch.device:
    """Return the device after one operation on it: a card that torch cannot use must say so here.

    Raises what torch raises, and RuntimeError when torch sees no GPU at all.
    """
    if kind == "cuda" and not torch.cuda.is_available():
        raise RuntimeError(f"there is a GPU, but torch {torch.__version__} cannot use it (CUDA: no)")
    device = torch.device(kind)
    torch.ones(1, device=device).add_(1).item()
    return device


def describe(device: torch.device) -> Device:
    """Return what torch knows of the device; the card's place in the machine is the driver's to fill in."""
    found = Device(
        -1,
        "cpu",
        torch=torch.__version__,
        triton=_version("triton"),
        cuda=torch.version.cuda or "",
        python=platform.python_version(),
        threads=torch.get_num_threads(),
    )
    if device.type != "cuda":
        return found
    card = torch.cuda.get_device_properties(device)
    capability, memory_mib = f"{card.major}.{card.minor}", card.total_memory // 2**20
    return replace(found, index=0, name=card.name, capability=capability, memory_mib=memory_mib)


def free_memory(device: torch.device) -> None:
    """Give cached device memory back: judge and worker share one card."""
    if device.type == "cuda":
        torch.cuda.empty_cache()


def _version(package: str) -> str:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(package)
    return ""
''',
    'harness/driver.py': r'''"""The driver: carries an order out on this machine and reports every step as an event. Standard library only.

    python -m harness.driver ORDER.json [--run RUN.json] [--deadline 9m] [--continue FILE] [--rehearse]

It never imports torch: judge and worker do, one of each for every card. Exit code 0 when the run could be
closed, whatever became of its cases; 2 for wrong usage; 1 when a rehearsal did not pass.
"""

from __future__ import annotations

import argparse
import json
import secrets
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from harness.carried import CannotContinueError, Carried, read_carried
from harness.events import Order, RunRef, from_plain
from harness.hardware import examine
from harness.isolation import keep_to_itself
from harness.limits import Limits
from harness.outlet import Outlet, to_events_file, to_stdout
from harness.process import ROOT
from harness.senses import Real
from harness.shapes import SHAPES, Counts, parse_duration, parse_settings
from harness.simulated import NoHardwareError, simulated_hardware
from harness.sweep import Sweep

T = TypeVar("T")


class UsageError(ValueError):
    """What the driver was given makes no sense; the text says what and where."""


@dataclass(frozen=True)
class Options:
    """The command line."""

    order: Path
    run: Path | None
    deadline_s: float
    earlier: Path | None
    rehearse: bool


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out an order; see the module's docstring."""
    options = parse_arguments(arguments)
    try:
        order = read_order(options)
        carried = read_earlier(options, order)
        simulated = simulated_hardware()
    except (UsageError, CannotContinueError, NoHardwareError) as problem:
        print(f"harness.driver: {problem}", file=sys.stderr)
        return 2
    limits = Limits(min((s for s in (options.deadline_s, order.terms.timeout_s) if s), default=0.0))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: limits.stop())
    places = [to_stdout()] if options.rehearse else [to_stdout(), to_events_file(Path.cwd())]
    keep_to_itself()
    outlet = Outlet(carried.ref.run_id, carried.ref.part, carried.attempt, places)
    sweep = Sweep(order, carried, limits, outlet)
    sweep.announce()
    machine = examine(order, simulated or Real(limits), online=not options.rehearse)
    wrong = sweep.refuse_wrong_accelerator(machine)
    sweep.close("wrong_accelerator" if wrong else sweep.carry_out(machine.cards, ROOT / "scratch"))
    return 1 if options.rehearse and not sweep.passed else 0


def parse_arguments(arguments: Sequence[str] | None) -> Options:
    """Read the command line; argparse reports what is wrong with it and exits 2."""
    parser = argparse.ArgumentParser(prog="kernel.py", description=(__doc__ or "").partition("\n")[0])
    # The kernel gives these two; its user gives the others.
    parser.add_argument("order", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--deadline", type=_duration, default=0.0, metavar="9m", help="end before this time")
    parser.add_argument(
        "--continue", type=Path, dest="earlier", metavar="FILE", help="run what it is missing"
    )
    parser.add_argument("--rehearse", action="store_true", help="run one tiny case on the CPU instead")
    given = parser.parse_args(arguments)
    return Options(given.order, given.run, given.deadline, given.earlier, given.rehearse)


def _duration(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from problem


def read_order(options: Options) -> Order:
    """Read the order. Raises UsageError when there is none in the file, or none that makes sense."""
    order = _read(options.order, Order)
    for case in order.cases:
        try:
            parse_settings(case.harness_args)
        except ValueError as problem:
            raise UsageError(f"{options.order}, {case.id}: {problem}") from problem
    if len({case.id for case in order.cases}) < len(order.cases):
        raise UsageError(f"{options.order} orders a case twice")
    return rehearsal(order) if options.rehearse else order


def rehearsal(order: Order) -> Order:
    """Return an order for one tiny case on the CPU that goes the way of the order's first case, if any."""
    terms = replace(
        order.terms, asked_accelerator="cpu", asked_count=0, asked_capability="", devices=1, seeds=1
    )
    if order.is_probe:
        return Order(terms, ())
    first = order.cases[0]
    case = replace(
        first,
        shape=SHAPES["t01"],
        protocol="short",
        counts=Counts(1, 1, 1),
        harness_args=(*first.harness_args, "--accuracy-trials", "1"),
    )
    return Order(terms, (case,))


def read_earlier(options: Options, order: Order) -> Carried:
    """Return whose run this is and what was done of it. A run without an id gets one.

    Raises UsageError and CannotContinueError.
    """
    ref = RunRef() if options.run is None else _read(options.run, RunRef)
    carried = Carried(ref) if options.earlier is None else read_carried(options.earlier, ref, order)
    if carried.ref.run_id:
        return carried
    run_id = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(3)}"
    return replace(carried, ref=replace(carried.ref, run_id=run_id))


def _read(path: Path, kind: type[T]) -> T:
    try:
        return from_plain(kind, json.loads(path.read_text(encoding="utf-8")))
    except OSError as problem:
        raise UsageError(f"cannot read {path}: {problem.strerror}") from problem
    except (TypeError, ValueError) as problem:
        raise UsageError(f"{path} is no {kind.__name__}: {problem}") from problem


if __name__ == "__main__":
    sys.exit(main())
''',
    'harness/environment.py': r'''"""What a child finds in its environment. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.cards import Card
from harness.shapes import Case

_CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TORCH_EXTENSIONS_DIR")
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")

Setting = tuple[str, tuple[tuple[str, str], ...]]


def for_judge(outer: Mapping[str, str], card: Card, scratch: Path) -> dict[str, str]:
    """Return the environment of a process on `card`: no levers, one card in sight, caches of its own.

    On a CPU it has its share of the cores, and a thread without work sleeps: two neighbours that spin
    while they wait made calls 100 times slower.
    """
    mine = {name: value for name, value in outer.items() if not name.startswith("LEVER_")}
    mine["CUDA_VISIBLE_DEVICES"] = card.pin
    mine |= {name: str(scratch / name.lower()) for name in _CACHES}
    if card.threads:
        mine |= dict.fromkeys(_THREADS, str(card.threads)) | {"OMP_WAIT_POLICY": "PASSIVE"}
    return mine


def for_worker(outer: Mapping[str, str], card: Card, scratch: Path, case: Case) -> dict[str, str]:
    """Return the environment of `case`'s worker: the judge's, with the case's route and levers."""
    route = {} if case.route == "auto" else {"LEVER_ROUTE": case.route}
    return {**for_judge(outer, card, scratch), **case.levers, **route}


def thread_flags(card: Card) -> dict[str, str]:
    """Return what a row says of the card's threads, and of its cores when neighbours have the others."""
    threads = {"threads": str(card.threads), "wait_policy": "passive"} if card.threads else {}
    return {**threads, **({"cores": " ".join(map(str, card.cores))} if card.cores else {})}


def setting_of(case: Case) -> Setting:
    """Return what a worker's environment depends on: cases with the same setting can share a worker."""
    return case.route, tuple(sorted(case.levers.items()))
''',
    'harness/events.py': r'''"""The one event grammar between device and host. Standard library only; the host imports this module.

An event is one log line: a marker that ordinary output never has, then one ASCII JSON object

    @@ferry@@ {"v":2,"run":"…","part":1,"attempt":1,"seq":7,"at":3.2,"kind":"…","body":{…},"mac":…,"check":…}

`check` is the CRC-32 of the text before it, `mac` the seal on what stands before that (`harness.seal`); an
event without one is of version 1. (run, part, attempt, seq) names an event: a replay has the same name, a
restarted kernel has a higher attempt, a hole in seq means that lines were lost.
Times in samples are whole nanoseconds in 64 bits: one call of shape 14 overflows 32.
"""

from __future__ import annotations

import dataclasses
import json
import zlib
from dataclasses import dataclass, field
from typing import Any

from harness.devices import SIMULATED as SIMULATED
from harness.devices import Device as Device
from harness.devices import Hardware as Hardware
from harness.devices import is_simulated as is_simulated
from harness.figures import Gate as Gate
from harness.orders import Order as Order
from harness.orders import RunRef as RunRef
from harness.orders import Terms as Terms
from harness.plain import UNREADABLE, unpack_ns
from harness.plain import from_plain as from_plain
from harness.plain import pack_ns as pack_ns
from harness.plain import to_plain as to_plain
from harness.seal import Seal as Seal
from harness.seal import revealed as revealed
from harness.shapes import Case

MARKER = "@@ferry@@ "
VERSIONS = (1, 2)
SAMPLES_PER_EVENT = 500  # keeps an event under 4 kB


class DamagedEventError(ValueError):
    """A line has the marker, but what follows is not a whole event."""


# --- what the kernel reports ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """First event of an attempt. `planned` events with each case follow; `carried` cases need no new run.

    `key_sha256` is the hash of the key that seals the attempt's events.
    """

    ref: RunRef
    terms: Terms
    planned: int
    started_at: str
    carried: int = 0
    deadline_s: float = 0.0
    key_sha256: str = ""


@dataclass(frozen=True)
class Planned:
    """One case of the plan, in the plan's order."""

    index: int
    case: Case


@dataclass(frozen=True)
class Started:
    """A case was dealt to a card."""

    case_id: str
    device_index: int


@dataclass(frozen=True)
class Samples:
    """Times of one side in one round, from sample `start` on, packed.

    Sides are `baseline` and `candidate`; `against`, another candidate; `baseline_before`, timed before the
    candidate was imported; `baseline_again`, the baseline once more as if it were a candidate.
    Under `strict` a round is a block, `positions` are the samples' places in it, packed alike, and samples of
    the same number are of the same turn: pairs.
    """

    case_id: str
    side: str
    round: int
    start: int
    ns: str
    positions: str = ""

    @property
    def values(self) -> tuple[int, ...]:
        """The times in nanoseconds. Raises DamagedEventError when they do not unpack."""
        return self._unpacked(self.ns)

    @property
    def places(self) -> tuple[int, ...]:
        """The samples' places in their block; none where there is no block. Raises DamagedEventError."""
        return self._unpacked(self.positions) if self.positions else ()

    @staticmethod
    def _unpacked(text: str) -> tuple[int, ...]:
        try:
            return unpack_ns(text)
        except ValueError as problem:
            raise DamagedEventError(f"samples do not unpack: {problem}") from problem


@dataclass(frozen=True)
class Work:
    """One kernel (on a CPU: one operator, without what it calls) over all calls that were watched."""

    name: str
    count: int
    ns: int


@dataclass(frozen=True)
class Profile:
    """What one side was busy with in `calls` calls after its timing: the longest work first, not all of it.

    `total_ns` is the sum of all work, the shown and the rest.
    """

    case_id: str
    side: str
    calls: int
    total_ns: int
    top: tuple[Work, ...]


@dataclass(frozen=True)
class CaseDone:
    """A case has ended, one way or another. `samples` counts what its Samples events must add up to."""

    case_id: str
    device_index: int
    status: str
    error_kind: str = ""
    error: str = ""
    gate: Gate | None = None
    route_ran: str = ""
    route_note: str = ""
    tf32: str = ""
    attention_backend: str = ""
    aliases_output: bool | None = None
    samples: int = 0
    first_call_s: float | None = None
    compile_s: float | None = None
    peak_mem_mib: float | None = None
    flags: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Note:
    """Something that the reader of the log should know and no row can hold."""

    text: str


@dataclass(frozen=True)
class End:
    """Last event of an attempt. `reason`: complete, deadline, stopped, wrong_accelerator, driver_error.

    `key` is the seal's, in hex; empty when a process of the run may still have lived.
    """

    reason: str
    counts: dict[str, int]
    wall_s: float
    key: str = ""


Body = Plan | Planned | Hardware | Device | Started | Samples | Profile | CaseDone | Note | End
KINDS: dict[str, type[Any]] = {
    "plan": Plan,
    "planned": Planned,
    "hardware": Hardware,
    "device": Device,
    "started": Started,
    "samples": Samples,
    "profile": Profile,
    "case": CaseDone,
    "note": Note,
    "end": End,
}
_KIND_OF = {cls: kind for kind, cls in KINDS.items()}


STATUSES = (
    "passed",
    "failed_gate",
    "error",
    "oom",
    "timeout",
    "disqualified",
    "infeasible",
    "not_run",
    "unknown",
)
# A case with one of these needs no further run; `not_run` and `unknown` do.
FINAL_STATUSES = frozenset(STATUSES[:7])


@dataclass(frozen=True, order=True)
class Name:
    """What names an event: replays share it."""

    run: str
    part: int
    attempt: int
    seq: int


@dataclass(frozen=True)
class Event:
    """A decoded event: name, time in seconds since its attempt began, body, and its line as it came."""

    name: Name
    at: float
    body: Body
    line: str = field(default="", compare=False, repr=False)


# --- the codec --------------------------------------------------------------------------------------------


def encode(event: Event, seal: Seal | None = None) -> str:
    """Return the event's line without a line end, sealed if there is a seal."""
    envelope = {
        "v": VERSIONS[0 if seal is None else 1],
        **dataclasses.asdict(event.name),
        "at": to_plain(round(event.at, 3)),
        "kind": _KIND_OF[type(event.body)],
        "body": to_plain(event.body),
    }
    text = json.dumps(envelope, separators=(",", ":"), allow_nan=False)[:-1]
    if seal is not None:
        text += f',"mac":"{seal.mac(text)}"'
    return f'{MARKER}{text},"check":"{_check(text)}"}}'


def decode(line: str) -> Event | None:
    """Return the event on a line, or None when the line has no marker.

    Raises DamagedEventError when the line has the marker and no whole event of a known version.
    """
    _, marker, rest = line.partition(MARKER)
    if not marker:
        return None
    text, _, check = rest.rstrip().rpartition(',"check":"')
    if check != _check(text) + '"}':
        raise DamagedEventError("an event is cut or altered: its check does not agree")
    try:
        return dataclasses.replace(_event(json.loads(text + "}")), line=MARKER + rest.rstrip())
    except UNREADABLE as problem:
        raise DamagedEventError(f"an event that is unknown here: {problem!r}") from problem


def _event(envelope: Any) -> Event:
    version, kind = envelope["v"], envelope["kind"]
    if version not in VERSIONS or kind not in KINDS:
        raise ValueError(f"version {version!r:.20}, kind {kind!r:.20}")
    name = from_plain(Name, envelope)
    return Event(name, from_plain(float, envelope["at"]), from_plain(KINDS[kind], envelope["body"]))


def _check(text: str) -> str:
    return f"{zlib.crc32(text.encode(errors='surrogatepass')):08x}"
''',
    'harness/exchange.py': r'''"""Folders through which a worker hands outputs to its judge. Standard library only.

In each a worker writes to `in`; what is taken from there lies in `out`, which is the judge's.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path

MEMORY = Path("/dev/shm")  # noqa: S108 (the folder made in it has a random name)
_PREFIX = "ferry-"
_ABANDONED_AFTER_S = 60.0


class NotHandedOverError(ValueError):
    """What a worker says that it has handed over is not there, or is no file of its own."""


class Exchange:
    """A folder in memory, where there is one to be had, and one on disk under `scratch`.

    `folders` are those that a worker writes to. The folder in memory is locked as long as this process lives:
    what a killed run has left there is found by its open lock and removed by the next run.
    """

    def __init__(self, scratch: Path, memory: Path = MEMORY) -> None:
        self._bases = [Path(tempfile.mkdtemp(prefix=_PREFIX, dir=scratch))]
        self._lock = -1
        self._group = -1
        with contextlib.suppress(OSError):
            _remove_abandoned(memory)
            self._bases.insert(0, Path(tempfile.mkdtemp(prefix=_PREFIX, dir=memory)))
            self._lock = _locked(self._bases[0])
        self.clear()

    @property
    def folders(self) -> tuple[str, ...]:
        """Where a worker may write, the best place first."""
        return tuple(str(base / "in") for base in self._bases)

    def grant(self, group: int) -> None:
        """Let a group's processes hand over files, besides this process's own user."""
        self._group = group
        self.clear()

    def take(self, path: str) -> str:
        """Move a file that a worker has handed over to where only driver and judge can write.

        Returns its path there. Raises NotHandedOverError for anything but a file in one of the folders: a
        link would have the judge read, and then remove, what lies elsewhere.
        """
        folder, _, name = path.rpartition("/")
        if folder not in self.folders or name in ("", ".", ".."):
            raise NotHandedOverError(f"{path!r:.200} is in none of the folders for outputs")
        taken = Path(folder).parent / "out" / name
        try:
            Path(path).rename(taken)
            found = taken.lstat()
        except OSError as problem:
            raise NotHandedOverError(f"{path!r:.200}: {problem.strerror}") from problem
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            raise NotHandedOverError(f"{path!r:.200} is no file of its own")
        return str(taken)

    def clear(self) -> None:
        """Remove what a case has left; a candidate may have removed it, too, even with its folder."""
        for base in self._bases:
            with contextlib.suppress(OSError):
                base.mkdir(mode=0o711, exist_ok=True)
                base.chmod(0o711)
            for folder, mode in ((base / "in", 0o770), (base / "out", 0o700)):
                with contextlib.suppress(OSError):
                    shutil.rmtree(folder, ignore_errors=True)
                    folder.mkdir(exist_ok=True)
                    os.chown(folder, -1, self._group)
                    folder.chmod(mode)

    def close(self) -> None:
        """Remove the folders."""
        for base in self._bases:
            shutil.rmtree(base, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _remove_abandoned(memory: Path) -> None:
    for folder in memory.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > _ABANDONED_AFTER_S:
                os.close(_locked(folder))
                shutil.rmtree(folder)


def _locked(folder: Path) -> int:
    """Return a descriptor that holds the folder's lock. Raises BlockingIOError when somebody else does."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
''',
    'harness/figures.py': r'''"""What the gate has found, of one output and of a whole case. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass

from harness.shapes import Settings


@dataclass(frozen=True)
class Figures:
    """The gate's figures of one output, and the tolerances it was held to.

    The worst element is the one with the largest share of its own budget; `coverage` is the checked share of
    the output. `dtype_share` is the baseline's own share when it is held against itself in float32.
    """

    passed: bool
    failed_elements: int
    total_elements: int
    max_abs: float
    max_rel: float
    gate_share: float
    rtol: float = Settings.rtol
    atol: float = Settings.atol
    worst_index: tuple[int, ...] = ()
    worst_reference: float = 0.0
    worst_output: float = 0.0
    failed_dims: tuple[int, ...] = ()
    reference: str = "baseline"
    coverage: float = 1.0
    dtype_share: float | None = None


@dataclass(frozen=True)
class Gate:
    """The worst figures of one case's gate over all weight and input seeds.

    `gate_share` is the worst element's share of its own budget: above 1 it fails. That element's index, the
    two values at it and its weight and input seeds are the `worst_` fields; `failed_dims` are the features at
    which any element failed, `coverage` is the checked share of all outputs' elements.
    """

    failed_elements: int
    total_elements: int
    max_abs: float
    max_rel: float
    gate_share: float
    weight_seeds: tuple[int, ...]
    input_seeds: tuple[int, ...]
    reference: str = "baseline"
    coverage: float = 1.0
    rtol: float = Settings.rtol
    atol: float = Settings.atol
    worst_index: tuple[int, ...] = ()
    worst_reference: float = 0.0
    worst_output: float = 0.0
    worst_seeds: tuple[int, ...] = ()
    failed_dims: tuple[int, ...] = ()
''',
    'harness/gate.py': r'''"""The contest's accuracy gate: an element passes by its absolute or its relative error, never by a sum."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from harness.baseline import TransformerConfig
from harness.blocks import Block, blocks, within
from harness.inputs import generate_random_case

SHOWN_FEATURE_DIMS = 16
REFERENCE_FLOOR = 1e-12
INF = float("inf")
BLOCK_ELEMENTS = 1 << 22  # compared at once, in some 25 bytes of working memory each


@dataclass(frozen=True)
class AccuracyResult:
    """How far one output is from its reference; errors are in the output's own unit.

    The worst element is the one with the largest absolute error; `failed_feature_dims` are the indices of
    the last axis at which any element failed. A pair with a nan or an inf in it has an infinite error.
    """

    passed: bool
    total_elements: int
    failed_elements: int
    max_abs_error: float
    max_relative_error: float
    mean_abs_error: float
    failed_feature_dims: list[int]
    worst_index: tuple[int, ...]
    reference_at_worst: float
    optimized_at_worst: float


@dataclass(frozen=True)
class Worst:
    """The element that uses the largest share of its own budget, max(atol, rtol * |r|); above 1 it fails."""

    share: float
    index: tuple[int, ...]
    reference: float
    optimized: float


def _error_and_magnitude(reference: Tensor, optimized: Tensor) -> tuple[Tensor, Tensor]:
    """Return |o - r| and |r| on float32 copies; the error of a pair that is not finite is inf."""
    reference, optimized = reference.float(), optimized.float()
    error = (optimized - reference).abs_()
    error.masked_fill_(~(reference.isfinite() & optimized.isfinite()), INF)
    return error, reference.abs()


def _check_shapes(reference: Tensor, optimized: Tensor) -> None:
    if reference.shape != optimized.shape:
        raise ValueError(
            f"the output's shape {tuple(optimized.shape)} is not the reference's {tuple(reference.shape)}"
        )


class _Tally:
    """The figures of the blocks so far. Where two elements are equally wrong, the first is the worst."""

    def __init__(self, rtol: float, atol: float) -> None:
        self._rtol, self._atol = rtol, atol
        self.failed_elements, self.total_elements = 0, 0
        self.max_abs, self.max_rel, self.sum_abs = -1.0, -1.0, 0.0
        self.failed_dims: Tensor | None = None
        self.worst: tuple[int, ...] = ()

    def add(self, block: Block, reference: Tensor, optimized: Tensor) -> None:
        """Take in one block of both."""
        error, magnitude = _error_and_magnitude(reference, optimized)
        infinite = error.isinf()
        # As the contract writes it: what passes is what compares; a budget of nan lets nothing through.
        failed = ~((error <= self._atol) | (error <= self._rtol * magnitude)) | infinite
        relative = error / magnitude.clamp_(min=REFERENCE_FLOOR)
        self.max_rel = max(self.max_rel, float(relative.masked_fill_(infinite, INF).max()))
        if (max_abs := float(error.max())) > self.max_abs:
            self.max_abs, self.worst = max_abs, within(block, _place_of_max(error))
        self.sum_abs += float(error.sum(dtype=torch.float64))
        self.total_elements += error.numel()
        self.failed_elements += int(failed.sum())
        dims = failed.reshape(-1, failed.shape[-1]).any(dim=0)
        self.failed_dims = dims if self.failed_dims is None else self.failed_dims | dims


def _place_of_max(values: Tensor) -> tuple[int, ...]:
    return tuple(int(i) for i in torch.unravel_index(values.argmax(), values.shape))


def compare_outputs(reference: Tensor, optimized: Tensor, rtol: float, atol: float) -> AccuracyResult:
    """Compare element by element: both finite, and |o - r| <= atol or |o - r| <= rtol * |r|, in float32.

    Walks both in blocks: beyond them it needs some 100 MiB, whatever their size. The mean is summed in
    float64. Raises ValueError when the shapes differ; a difference in dtype only warns.
    """
    if reference.dtype != optimized.dtype:
        warnings.warn(f"the output is {optimized.dtype}, the reference {reference.dtype}", stacklevel=2)
    _check_shapes(reference, optimized)
    tally = _Tally(rtol, atol)
    for block in blocks(reference.shape, BLOCK_ELEMENTS):
        tally.add(block, reference[block], optimized[block])
    assert tally.failed_dims is not None
    return AccuracyResult(
        passed=tally.failed_elements == 0,
        total_elements=tally.total_elements,
        failed_elements=tally.failed_elements,
        max_abs_error=tally.max_abs,
        max_relative_error=tally.max_rel,
        mean_abs_error=float(torch.tensor(tally.sum_abs / tally.total_elements, dtype=torch.float32)),
        failed_feature_dims=tally.failed_dims.nonzero().flatten().tolist(),
        worst_index=tally.worst,
        reference_at_worst=float(reference[tally.worst]),
        optimized_at_worst=float(optimized[tally.worst]),
    )


def worst_share(reference: Tensor, optimized: Tensor, rtol: float, atol: float) -> Worst:
    """Return the element whose |o - r| is the largest share of its own budget, max(atol, rtol * |r|).

    The share is above 1 exactly when `compare_outputs` fails; inf for a nan or an inf on either side.
    Walks in blocks like `compare_outputs`. Raises ValueError when the shapes differ.
    """
    _check_shapes(reference, optimized)
    largest, index = -1.0, (0,) * reference.dim()
    for block in blocks(reference.shape, BLOCK_ELEMENTS):
        share = _shares(reference[block], optimized[block], rtol, atol)
        if (found := float(share.max())) > largest:
            largest, index = found, within(block, _place_of_max(share))
    return Worst(largest, index, float(reference[index]), float(optimized[index]))


def _shares(reference: Tensor, optimized: Tensor, rtol: float, atol: float) -> Tensor:
    error, magnitude = _error_and_magnitude(reference, optimized)
    infinite, none = error.isinf(), error == 0
    # 0/0, under a budget of nothing, is no error at all; inf/inf is one.
    share = error.div_(magnitude.mul_(rtol).clamp_(min=atol))
    return share.masked_fill_(none, 0.0).masked_fill_(infinite | share.isnan(), INF)


def gate_share(reference: Tensor, optimized: Tensor, rtol: float, atol: float) -> float:
    """Return the share alone of `worst_share`."""
    return worst_share(reference, optimized, rtol, atol).share


def run_accuracy_tests(
    baseline: nn.Module,
    optimized: nn.Module,
    config: TransformerConfig,
    device: torch.device,
    dtype: torch.dtype,
    trials: int,
    seed: int,
    padding_ratio: float,
    input_scale: float,
    rtol: float,
    atol: float,
) -> bool:
    """Compare the two models on `trials` inputs of seeds seed, seed + 1, …; print each and a summary.

    Returns whether every element of every trial passed.
    """
    results = []
    for trial in range(trials):
        with torch.inference_mode():
            case = generate_random_case(config, device, dtype, seed + trial, padding_ratio, input_scale)
            result = compare_outputs(baseline(*case), optimized(*case), rtol, atol)
        print(f"trial {trial + 1:02d}/{trials}: {_figures([result])}", flush=True)
        if not result.passed:
            print(_worst(result), flush=True)
        results.append(result)
    print(f"summary: {_figures(results)}", flush=True)
    return all(result.passed for result in results)


def _figures(results: list[AccuracyResult]) -> str:
    verdict = "PASS" if all(result.passed for result in results) else "FAIL"
    max_abs = max(result.max_abs_error for result in results)
    max_rel = max(result.max_relative_error for result in results)
    failed = sum(result.failed_elements for result in results)
    total = sum(result.total_elements for result in results)
    return f"{verdict} | max_abs={max_abs:.6g} | max_rel={max_rel:.6g} | failed={failed}/{total}"


def _worst(result: AccuracyResult) -> str:
    dims = result.failed_feature_dims[:SHOWN_FEATURE_DIMS]
    more = ", …" if len(result.failed_feature_dims) > len(dims) else ""
    return (
        f"  worst at {result.worst_index}: reference={result.reference_at_worst:.6g} "
        f"optimized={result.optimized_at_worst:.6g}\n"
        f"  failed feature dims: {', '.join(map(str, dims))}{more}"
    )
''',
    'harness/gating.py': r'''"""The driver's half of the gate: one output after the other from the worker to the judge. Stdlib only."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.channel import Build, Check, Done, Facts, Figures, Forward, Output, Rest
from harness.exchange import Exchange
from harness.limits import Watch
from harness.process import Child
from harness.sitting import taken
from harness.trials import Trial, Tried


class Gating:
    """The gate of one case, in a conversation with worker and judge; `learn` is told each output's facts."""

    def __init__(
        self, worker: Child, judge: Child, exchange: Exchange, watch: Watch, learn: Callable[[Facts], None]
    ) -> None:
        self._worker = worker
        self._judge = judge
        self._exchange = exchange
        self._watch = watch
        self._learn = learn
        self._built: Build | None = None

    def carry_out(self, plan: Sequence[Trial], side: str = "candidate") -> Tried:
        """Have every trial's output gated; return each with its figures. CaseFailureError ends it early."""
        tried: Tried = []
        for trial in plan:
            figures = self._try(trial, side)
            tried.append((trial, figures))
            if trial.truncated and not figures.passed:
                break  # the rest would take minutes
        self._judge.ask(Rest(), Done, self._watch)
        self._built = None
        return tried

    def _try(self, trial: Trial, side: str) -> Figures:
        build = Build(trial.case, trial.weight_seed)
        if build != self._built:
            self._judge.ask(build, Done, self._watch)
            self._worker.ask(build, Done, self._watch)
            self._built = build
        forward = Forward(trial.input_seed, self._exchange.folders, side)
        output = self._worker.ask(forward, Output, self._watch)
        if side == "candidate":
            self._learn(output.facts)
        path = taken(self._exchange, output)
        check = Check(trial.input_seed, path, output.dtype, trial.oracle_s, trial.recompute)
        return self._judge.ask(check, Figures, self._watch)
''',
    'harness/hardware.py': r'''"""The first check: what hardware really came, against what was asked for. Standard library only.

nvidia-smi comes first and needs no torch: a wrong name is found in a second. Only then a child asks torch
whether it can use the cards and has code for them. Nothing falls back to the CPU unasked.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.cards import Card, apart, chosen, cpu_cards, cpu_name, total_memory
from harness.cores import cores_here
from harness.events import SIMULATED, Device, Hardware, Order, Terms
from harness.senses import Senses, TorchView

_MIB = 2**20
_SHOWN = 4


@dataclass(frozen=True)
class Machine:
    """What was found: the cards to work on, those that came, and the record of both."""

    cards: tuple[Card, ...]
    came: tuple[Card, ...]
    record: Hardware


def examine(order: Order, senses: Senses, online: bool) -> Machine:
    """Look at the machine and choose its cards; a probe asks torch whatever came, and the network."""
    terms = order.terms
    gpus, view = _look(order, senses)
    cards = [] if terms.asked_accelerator == "cpu" else chosen(gpus, terms.asked_accelerator, terms.devices)
    wrong = _is_wrong(terms, gpus)
    if view is None and gpus and (order.is_probe or terms.allow_mismatch or (cards and not wrong)):
        view = senses.torch(cards)
    view = view or TorchView()
    cards = _completed(cards, view)
    useless = _why_useless(cards, view)
    finding = ""
    if useless or wrong or _is_wrong(terms, cards):
        reason = useless if gpus else f" ({_why_none(view)})"
        finding = f"asked for {asked_for(terms)}, got {_named(gpus)}{reason}"
    used = [] if useless else cards
    used = apart(used or [_marked(card, senses) for card in cpu_cards(terms.devices)])
    came = gpus or used[:1]
    record = _record(order, gpus, view, finding)
    if order.is_probe and online:
        record = replace(record, internet=senses.internet())
    return Machine(tuple(replace(card, mismatch=finding) for card in used), tuple(came), record)


def _look(order: Order, senses: Senses) -> tuple[list[Card], TorchView | None]:
    """Return the GPUs in sight, and what torch said if it alone could tell."""
    asked = order.terms.asked_accelerator
    if asked == "cpu" and not order.is_probe:
        return [], None
    if gpus := senses.gpus():
        return gpus, None
    if not (order.is_probe or asked not in ("", "cpu") or senses.traces()):
        return [], None
    view = senses.torch([])
    outer = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    pins = outer if len(outer) == len(view.cards) else [str(card.index) for card in view.cards]
    return [
        Card(
            device.index,
            device.name,
            device.memory_mib * _MIB,
            pin=pin,
            capability=device.capability,
            simulated=senses.simulated,
        )
        for device, pin in zip(view.cards, pins, strict=True)
    ], view


# --- what may be wrong ------------------------------------------------------------------------------------


def _is_wrong(terms: Terms, gpus: Sequence[Card]) -> bool:
    """Whether too few of the cards are what was asked for, by name and, where it is known, capability."""
    if terms.asked_accelerator in ("", "cpu"):
        return False
    right = [
        card
        for card in gpus
        if card.matches(terms.asked_accelerator)
        and terms.asked_capability in ("", card.capability or terms.asked_capability)
    ]
    needed = min(terms.asked_count, terms.devices) if terms.devices else terms.asked_count
    return len(right) < max(1, needed)


def _why_useless(cards: Sequence[Card], view: TorchView) -> str:
    """Say why torch cannot work on the cards, in words that follow their names; nothing if it can."""
    for card in cards:
        if card.capability and not has_code(view.arches, card.capability):
            code = ", ".join(view.arches)
            return f", and torch {view.torch} has no code for its capability {card.capability} (only {code})"
    return f", and torch {view.torch} cannot use it: {view.problem}" if cards and view.problem else ""


def has_code(arches: Sequence[str], capability: str) -> bool:
    """Whether code for one of `arches` (`sm_75`, `compute_90`) runs on a GPU of this capability (`8.6`).

    As CUDA has it: a cubin runs on its own major version from its minor on, PTX on anything from its version
    on; what ends in `a` runs on that version alone, in `f` on its major's. Other names tell nothing.
    """
    have = tuple(map(int, capability.split(".")))
    known = [match for arch in arches if (match := re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", arch))]
    return not known or any(_runs(match, have) for match in known)


def _runs(arch: re.Match[str], have: tuple[int, ...]) -> bool:
    least = (int(arch[2]), int(arch[3]))
    if arch[4] == "a":
        return have == least
    return have >= least and (have[0] == least[0] or (arch[1] == "compute" and not arch[4]))


# --- in words ---------------------------------------------------------------------------------------------


def asked_for(terms: Terms) -> str:
    """Say what an order wants, as `2 × Tesla T4`."""
    words = {"": "whatever is there", "any": "any GPU", "cpu": "a CPU"}
    count = f"{terms.asked_count} × " if terms.asked_count else ""
    capability = f" of capability {terms.asked_capability}" if terms.asked_capability else ""
    return words.get(terms.asked_accelerator) or f"{count}{terms.asked_accelerator}{capability}"


def _named(gpus: Sequence[Card]) -> str:
    names = [f"{card.name} ({card.capability})" if card.capability else card.name for card in gpus]
    counted = [f"{names.count(name)} × {name}" for name in dict.fromkeys(names)]
    return " and ".join(counted[:_SHOWN]) or "no GPU"


def _why_none(view: TorchView) -> str:
    said = (
        f"torch {view.torch} says {view.problem or 'nothing of one'}" if view.torch else "there is no torch"
    )
    return f"nvidia-smi lists none, {said}"


# --- the record -------------------------------------------------------------------------------------------


def _completed(cards: list[Card], view: TorchView) -> list[Card]:
    """Add the capabilities that an old nvidia-smi does not know."""
    if len(view.cards) != len(cards):
        return cards
    return [
        replace(card, capability=card.capability or seen.capability)
        for card, seen in zip(cards, view.cards, strict=True)
    ]


def _marked(card: Card, senses: Senses) -> Card:
    """Say of a CPU that stands in for hardware that a test made up what it is."""
    return replace(card, name=f"{SIMULATED}{card.name}", simulated=True) if senses.simulated else card


def _record(order: Order, gpus: Sequence[Card], view: TorchView, finding: str) -> Hardware:
    return Hardware(
        asked_for(order.terms),
        finding,
        tuple(
            Device(card.index, card.name, card.capability, card.memory_bytes // _MIB, card.driver)
            for card in gpus
        ),
        view.torch,
        view.triton,
        view.cuda,
        view.arches,
        platform.python_version(),
        cpu_name(),
        len(cores_here()),
        total_memory() // _MIB,
        shutil.disk_usage(".").free // _MIB,
    )


def as_seen(card: Card, seen: Device | None = None) -> Device:
    """Return the card with what torch sees of it, if torch came that far.

    Torch calls a slice of a GPU a slice, where the card's own name would pass for the whole.
    """
    memory_mib = card.memory_bytes // 2**20 or (seen.memory_mib if seen else 0)
    known = Device(card.index, card.name, card.capability, memory_mib, card.driver)
    if seen is None:
        return known
    name = seen.name if card.torch_device == "cuda" else known.name
    capability = seen.capability or known.capability
    own = replace(seen, index=known.index, memory_mib=known.memory_mib, driver=known.driver)
    return replace(own, name=name, capability=capability)
''',
    'harness/inputs.py': r'''"""The contest's random inputs, and what a harder case makes of them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from harness.baseline import TransformerConfig


def generate_random_case(
    config: TransformerConfig,
    device: torch.device,
    dtype: torch.dtype,
    seed: int,
    padding_ratio: float,
    input_scale: float,
) -> tuple[Tensor, Tensor]:
    """Return x [B,S,D] and valid_token_mask [B,S], drawn by a generator of its own on the device.

    The mask is always a tensor; each of its rows is a prefix of at least S * (1 - padding_ratio) tokens,
    and x is zero after it. The same seed draws other numbers on another kind of device.
    """
    generator = torch.Generator(device=device).manual_seed(seed)
    batch, seq_len = config.batch_size, config.seq_len
    x = torch.randn(batch, seq_len, config.d_model, generator=generator, device=device, dtype=dtype)
    x = x * input_scale
    if padding_ratio <= 0:
        return x, torch.ones(batch, seq_len, dtype=torch.bool, device=device)
    shortest = max(1, round(seq_len * (1 - padding_ratio)))
    lengths = torch.randint(shortest, seq_len + 1, (batch,), generator=generator, device=device)
    valid_token_mask = torch.arange(seq_len, device=device) < lengths[:, None]
    return x.masked_fill(~valid_token_mask[..., None], 0.0), valid_token_mask


def _outliers(x: Tensor) -> Tensor:
    """Every 16th feature 50 times as large."""
    x[..., ::16] *= 50
    return x


def _near_zero(x: Tensor) -> Tensor:
    """Two huge features of opposite sign in every other token: its other outputs come close to zero.

    The final LayerNorm divides by a deviation that is theirs alone.
    """
    x[:, ::2, 0] += 1e4
    x[:, ::2, -1] -= 1e4
    return x


KINDS: dict[str, Callable[[Tensor], Tensor]] = {
    "small": lambda x: x * 1e-3,
    "large": lambda x: x * 1e2,
    "offset": lambda x: x + 100,
    "outliers": _outliers,
    "near_zero": _near_zero,
}


def altered(kind: str, x: Tensor, valid_token_mask: Tensor) -> Tensor:
    """Return drawn inputs [B,S,D] made harder in the named way, zero where a token does not count; uses up x.

    Raises KeyError for an unknown name.
    """
    if kind == "normal":
        return x
    return KINDS[kind](x).masked_fill_(~valid_token_mask[..., None], 0.0)
''',
    'harness/isolation.py': r'''"""A user of its own for each card's worker, where the kernel is root. Standard library only.

A process of the same user reads and writes its parent's memory through /proc. A worker under another user
cannot: neither the driver's key nor the judge's figures are within its reach.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

TRIAL_S = 120.0
_HIGHEST = 65_533  # the user `nobody` comes after it, and others may run under that
_CLEARING_S = 2.0

# Whether a worker could live: read what it runs, write to its home, use its device.
_TRIAL = """
import importlib.util, os, pathlib, sys
torch = pathlib.Path(importlib.util.find_spec("torch").origin)
for path in (torch, importlib.util.find_spec("harness.worker").origin, *torch.parent.glob("lib/*.so")):
    open(path, "rb").close()
(pathlib.Path.home() / "trial").touch()
if sys.argv[1] == "cuda":
    import torch
    torch.ones(1, device="cuda").add_(1).item()
"""

_PR_SET_DUMPABLE = 4

_lock = threading.Lock()
_given: set[int] = set()


@dataclass(frozen=True)
class Identity:
    """The user and group that a worker runs as, and the only folder of the disk that is its own."""

    uid: int
    home: Path

    def environment(self) -> dict[str, str]:
        """What tells a process where it may write, and a name for a user that no table lists."""
        folders = dict.fromkeys(("HOME", "TMPDIR", "XDG_CACHE_HOME"), str(self.home))
        return folders | dict.fromkeys(("USER", "LOGNAME"), "ferry-worker")

    def kill_all(self) -> bool:
        """Kill every process of this user, whatever it has made of itself; return whether all are gone.

        A process of the user itself does it: its kill reaches all others at once, so that none forks away.
        """
        end = time.monotonic() + _CLEARING_S
        while _owns_processes(self.uid):
            if time.monotonic() > end:
                return False
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                code = f"import os; os.kill(-1, {int(signal.SIGKILL)})"
                run_as(self.uid, [sys.executable, "-I", "-S", "-c", code], {}, timeout_s=_CLEARING_S)
        return True


def keep_to_itself() -> None:
    """Close this process's memory and environment to its own user's other processes; root still sees them."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0)


def isolate(
    device: str, environment: Mapping[str, str], home: Path, root: Path, program: str = sys.executable
) -> Identity | str:
    """Return a user for a worker on `device` that has tried the machine out, or why there is none.

    `home` becomes its folder; `root` is the folder of the bundle, `program` the Python that is to run there.
    """
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "the kernel is not root"
    with _lock:
        uid = next(_free())
        _given.add(uid)
    identity = Identity(uid, home)
    command = [program, "-c", _TRIAL, device]
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.chown(home, uid, uid)
        done = run_as(uid, command, {**environment, **identity.environment()}, TRIAL_S, cwd=root)
    except (OSError, subprocess.SubprocessError) as problem:
        return f"another user cannot work here: {_one_line(str(problem))}"
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        return f"another user cannot work here: {_one_line(last)}"
    return identity


def run_as(
    uid: int, command: list[str], environment: Mapping[str, str], timeout_s: float, cwd: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a command as a user, in no group but its own. Raises what `subprocess.run` raises."""
    return subprocess.run(
        command,
        env=dict(environment),
        cwd=cwd or "/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=timeout_s,
        check=False,
        user=uid,
        group=uid,
        extra_groups=[],
    )


def _free() -> Iterator[int]:
    return (uid for uid in range(_HIGHEST, 0, -1) if uid not in _given and not _owns_processes(uid))


def _owns_processes(uid: int) -> bool:
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if process.stat().st_uid == uid and not _is_dead(process):
                return True
    return False


def _is_dead(process: Path) -> bool:
    """Whether it has ended and only waits for its parent to notice."""
    return (process / "stat").read_text(errors="replace").rpartition(")")[2].split()[0] in "ZX"


def _one_line(text: str) -> str:
    return text.replace(";", ",").replace("\n", " ")[:200]
''',
    'harness/judge.py': r'''"""The judge: the process that draws weights and inputs and gates outputs. The candidate never runs in it."""

from __future__ import annotations

from harness.serving import serve

if __name__ == "__main__":
    serve("harness.judging", oom_score=500)
''',
    'harness/judging.py': r'''"""The judge's desk: the reference, and the gate over what the worker hands in."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor

from harness import observing, reference
from harness.blocks import CROSSING_ELEMENTS, blocks
from harness.candidate import load_contract
from harness.channel import Build, Check, Done, Figures, Hello, Load, Message, Ready, Rest
from harness.drawing import Drawn, describe, draw, free_memory, take_device
from harness.gate import worst_share
from harness.ledger import Ledger
from harness.oracle import full_float32


class Desk:
    """Answers the driver. One baseline at a time lies on the device."""

    def __init__(self, device: str) -> None:
        self._device = take_device(device)
        self._contract: ModuleType | None = None
        self._drawn: Drawn | None = None

    def answer(self, request: Message) -> Message:
        """Do what is asked and say what came of it."""
        match request:
            case Hello():
                return Ready(describe(self._device))
            case Load(own_harness=own_harness):
                self._contract = load_contract(own_harness)
            case Build(case=case, weight_seed=seed):
                assert self._contract is not None
                self._drawn = None
                self._drawn = draw(self._contract, case, seed, self._device)
                self._drawn.placed(self._drawn.baseline)
            case Check():
                return self._check(request)
            case Rest():
                self._drawn = None
                gc.collect()
                free_memory(self._device)
            case _:
                raise TypeError(f"the judge has no answer to {type(request).__name__}")
        return Done()

    def _check(self, request: Check) -> Figures:
        assert self._drawn is not None
        try:
            with torch.inference_mode():
                return _figures(self._drawn, request)
        finally:
            Path(request.path).unlink(missing_ok=True)
            free_memory(self._device)


def _figures(drawn: Drawn, request: Check) -> Figures:
    """Compare an output with its reference, part by part; the output crosses to the device in blocks."""
    x, mask = drawn.inputs(request.input_seed)
    size, dtype = x.numel(), getattr(torch, request.dtype)
    output = torch.from_file(request.path, shared=True, size=size, dtype=dtype).view(x.shape)
    ledger = Ledger(drawn, "oracle" if request.oracle_s else "baseline")
    dtype_share = None
    for rows, expected in _references(drawn, x, mask, request):
        for block in blocks(expected.shape, CROSSING_ELEMENTS):
            ledger.add(rows.start, block, expected[block], output[rows][block].to(drawn.device))
        if _is_recomputed(drawn, request, dtype_share):
            dtype_share = max(dtype_share or 0.0, _dtype_share(drawn, x[rows], mask[rows], expected, request))
    return ledger.figures(size, dtype_share)


def _references(drawn: Drawn, x: Tensor, mask: Tensor, request: Check) -> Iterator[reference.Part]:
    if request.oracle_s:
        return reference.by_oracle(drawn, x, mask, request.input_seed, request.oracle_s)
    return reference.by_baseline(drawn, x, mask)


def _is_recomputed(drawn: Drawn, request: Check, dtype_share: float | None) -> bool:
    """Whether a part's reference is held against itself in float32: where its arithmetic is coarser.

    The oracle never uses TF32, and one of its sequences is enough.
    """
    if not request.recompute or (request.oracle_s and dtype_share is not None):
        return False
    state = observing.precision_state()
    uses_tf32 = not request.oracle_s and observing.tf32_text(drawn.device, state, state) == "on"
    return drawn.dtype != torch.float32 or uses_tf32


def _dtype_share(drawn: Drawn, x: Tensor, mask: Tensor, expected: Tensor, request: Check) -> float:
    """Return the share of its budget that the reference itself uses, held against itself in full float32."""
    exact, worst = reference.in_float32(drawn), 0.0
    with full_float32():
        for rows, better in _references(exact, x.float(), mask, request):
            found = worst_share(better, expected[rows], drawn.settings.rtol, drawn.settings.atol)
            worst = max(worst, found.share)
    return worst
''',
    'harness/ledger.py': r'''"""The judge's ledger: the contract's verdicts on the blocks of one output, added up."""

from __future__ import annotations

from torch import Tensor

from harness.blocks import Block, within
from harness.channel import Figures
from harness.drawing import Drawn
from harness.gate import SHOWN_FEATURE_DIMS, Worst, worst_share


class Ledger:
    """Holds each block to the contract's own comparison, and keeps the worst of each figure."""

    def __init__(self, drawn: Drawn, reference: str) -> None:
        self._compare = drawn.contract.compare_outputs
        self._tolerances = (drawn.settings.rtol, drawn.settings.atol)
        self._reference = reference
        self._passed = True
        self._failed = self._total = 0
        self._max_abs = self._max_rel = 0.0
        self._worst = Worst(-1.0, (), 0.0, 0.0)
        self._dims: set[int] = set()

    def add(self, row: int, block: Block, reference: Tensor, output: Tensor) -> None:
        """Take in a block of the part that begins at a row of the batch."""
        result = self._compare(reference, output, *self._tolerances)
        self._passed &= bool(result.passed)
        self._failed += int(result.failed_elements)
        self._total += int(result.total_elements)
        self._max_abs = _worse(self._max_abs, float(result.max_abs_error))
        self._max_rel = _worse(self._max_rel, float(result.max_relative_error))
        self._dims |= set(getattr(result, "failed_feature_dims", ()))
        found = worst_share(reference, output, *self._tolerances)
        if found.share > self._worst.share:
            first, *others = within(block, found.index)
            index = (first + row, *others)
            self._worst = Worst(found.share, index, found.reference, found.optimized)

    def figures(self, elements: int, dtype_share: float | None) -> Figures:
        """Return what it comes to, of an output of so many elements."""
        rtol, atol = self._tolerances
        return Figures(
            passed=self._passed,
            failed_elements=self._failed,
            total_elements=self._total,
            max_abs=self._max_abs,
            max_rel=self._max_rel,
            gate_share=self._worst.share,
            rtol=float(rtol),
            atol=float(atol),
            worst_index=self._worst.index,
            worst_reference=self._worst.reference,
            worst_output=self._worst.optimized,
            failed_dims=tuple(sorted(self._dims)[:SHOWN_FEATURE_DIMS]),
            reference=self._reference,
            coverage=self._total / elements,
            dtype_share=dtype_share,
        )


def _worse(one: float, other: float) -> float:
    """The larger; what is no number is worse than any."""
    return one if one > other or one != one else other
''',
    'harness/limits.py': r'''"""When to stop: the run's deadline, a signal, and each case's own limit. Standard library only."""

from __future__ import annotations

import math
import time


class CaseFailureError(Exception):
    """A case has ended without passing; `status`, `kind` and `error` are its row's."""

    def __init__(self, status: str, kind: str, error: str) -> None:
        super().__init__(error)
        self.status = status
        self.kind = kind
        self.error = error


class Limits:
    """The whole run's limit in seconds from now, 0 for none, and whether somebody asked to stop."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._begin = time.monotonic()
        margin = min(60.0, max(5.0, 0.02 * seconds))
        self._end = self._begin + seconds - margin if seconds else math.inf
        self._reason = "deadline"

    def stop(self) -> None:
        """Ask for an end now; a signal handler may call this."""
        if not self.reason():
            self._end, self._reason = time.monotonic(), "stopped"

    def reason(self) -> str:
        """Return why no further work may begin: `stopped`, `deadline`, or nothing."""
        return self._reason if self.overdue(0) else ""

    def overdue(self, seconds: float) -> bool:
        """Whether the run should have ended so many seconds ago."""
        return time.monotonic() >= self._end + seconds

    def left(self) -> float:
        """Return the seconds until no further work may begin."""
        return self._end - time.monotonic()

    def elapsed(self) -> float:
        """Return the seconds since the run began."""
        return time.monotonic() - self._begin


class Watch:
    """Guards one case: `check` raises CaseFailureError once its own limit or the run's has passed."""

    def __init__(self, limits: Limits, seconds: float) -> None:
        self._limits = limits
        self._seconds = seconds
        self._begin = time.monotonic()

    def left(self) -> float:
        """Return the seconds until the case's own limit or the run's, whichever comes first."""
        own = self._begin + self._seconds - time.monotonic() if self._seconds else math.inf
        return min(own, self._limits.left())

    def check(self) -> None:
        """Raise `not_run` when the run must end, `timeout` when the case has had its time."""
        spent = time.monotonic() - self._begin
        if reason := self._limits.reason():
            raise CaseFailureError("not_run", reason, f"cut after {spent:.1f} s: {WORDS[reason]}")
        if self._seconds and spent > self._seconds:
            raise CaseFailureError("timeout", "timeout", f"the case took longer than its {self._seconds:g} s")


WORDS = {
    "stopped": "the run was told to stop",
    "deadline": "the run's deadline has come",
    "wrong_accelerator": "wrong accelerator",
}
''',
    'harness/lookout.py': r'''"""What a process is seen to do to others, by an audit hook of Python's, which nobody can take out again."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = str(Path(__file__).resolve().parent) + os.sep
_OTHERS = re.compile(r"/proc/(\d+)/(?:task/\d+/)?(?:mem|environ|fd(?:info)?/\d+)")
_REACHING = frozenset({"ptrace", "process_vm_readv", "process_vm_writev", b"ptrace", b"process_vm_writev"})
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_MOVING = ("os.rename", "os.remove", "os.truncate", "os.link", "os.symlink", "os.chmod")

Found = tuple[str, str]  # kind, and words


class Lookout:
    """From now on keeps the first thing that this process or its threads do to others; it stops nothing."""

    def __init__(self) -> None:
        self.found: Found | None = None
        self._me, self._parent = os.getpid(), os.getppid()
        looks: dict[str, Callable[[tuple[Any, ...]], Found | None]] = {
            "open": self._opened,
            "ctypes.dlsym": self._looked_up,
            "os.kill": self._signalled,
            **dict.fromkeys(_MOVING, _moved),
        }

        def look(event: str, arguments: tuple[Any, ...]) -> None:
            if event in looks and self.found is None:
                try:
                    self.found = looks[event](arguments)
                except Exception:  # noqa: BLE001 (a hook that raises would stop the act that it only watches)
                    return

        sys.addaudithook(look)

    def _opened(self, arguments: tuple[Any, ...]) -> Found | None:
        path, mode, flags = arguments
        if not isinstance(path, (str, bytes)):
            return None
        where = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 (no file is to be looked at here)
        other = _OTHERS.match(where)
        if other and int(other[1]) != self._me:
            return "reached_out", f"the candidate's process opened {other[0]} of another process"
        writes = any(letter in str(mode or "") for letter in "wax+") or bool(int(flags or 0) & _WRITING)
        return _touched(where) if writes else None

    def _looked_up(self, arguments: tuple[Any, ...]) -> Found | None:
        if arguments[1] not in _REACHING:
            return None
        return "reached_out", f"the candidate's process looked up {arguments[1]}, which reaches into others"

    def _signalled(self, arguments: tuple[Any, ...]) -> Found | None:
        pid, number = arguments
        if number and pid == self._parent:
            return "reached_out", f"the candidate's process sent signal {number} to the driver"
        return None


def _moved(arguments: tuple[Any, ...]) -> Found | None:
    for path in arguments[:2]:
        if isinstance(path, (str, bytes)):
            found = _touched(os.path.abspath(os.fsdecode(path)))  # noqa: PTH100
            if found:
                return found
    return None


def _touched(where: str) -> Found | None:
    if not where.startswith(HERE):
        return None
    return "harness_files", f"the candidate's process opened harness/{where.removeprefix(HERE)} to write"
''',
    'harness/measuring.py': r'''"""The worker's desk: builds the candidate as the contest's script does, runs it, and times both sides."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from harness import observing, official, strict, switches, what_ran
from harness.apart import FOLDER, Apart
from harness.candidate import Candidate, load_candidate, load_contract
from harness.channel import (
    Alone,
    Block,
    Build,
    Done,
    Enter,
    Facts,
    Forward,
    Hello,
    Load,
    Look,
    Looked,
    Message,
    Output,
    Ready,
    Repeat,
    Show,
    Sprint,
    Time,
    Timed,
    Warm,
)
from harness.drawing import Drawn, describe, draw, free_memory, take_device
from harness.stopwatch import Watch, watch_of
from harness.strict import Room, Side, Strict
from harness.tripwires import Tripwires, bits, check_input

ROOT = Path(__file__).resolve().parent.parent
NOTE_CHARACTERS = 1000


@dataclass
class Built:
    """What one case needs: the drawn baseline and the candidate beside it."""

    drawn: Drawn
    candidate: nn.Module
    own: dict[str, Side]  # the candidate, and the model that it is compared with
    precision: str  # the state of the global flags before there was a candidate
    switches: switches.State  # the same, of all switches
    strict: Strict | None = None


class Desk:
    """Answers the driver. One case at a time."""

    def __init__(self, device: str) -> None:
        self._device = take_device(device)
        self._contract: ModuleType | None = None
        self._entrants: dict[str, tuple[Candidate, Room]] = {}  # by side; the candidate is the last
        self._built: Built | None = None
        self._facts = Facts()
        self._watch: Watch | None = None
        self._before: switches.State | None = None  # there was a candidate
        self._wires: Tripwires | None = None

    def answer(self, request: Message) -> Message:
        """Do what is asked and say what came of it."""
        match request:
            case Hello():
                return Ready(describe(self._device))
            case Load():
                self._contract = load_contract(request.own_harness)
            case Alone():
                return self._alone(request)
            case Enter():
                self._enter(request)
            case Build():
                self._build(request)
            case Forward():
                return self._forward(request)
            case Time():
                return self._time(request)
            case Look():
                return self._look(request)
            case Warm() | Block() | Show() | Sprint() | Repeat():
                return self._strict(request)
            case _:
                raise TypeError(f"the worker has no answer to {type(request).__name__}")
        return Done()

    # --- before there is a candidate -----------------------------------------------------------------------

    def _alone(self, request: Alone) -> Timed:
        assert self._contract is not None
        drawn = draw(self._contract, request.case, request.weight_seed, self._device)
        drawn.placed(drawn.baseline)
        self._before = switches.read()
        if request.case.protocol == "strict":
            self._watch = watch_of(self._device)
            samples = strict.alone(drawn, Side(drawn.baseline, self._before), self._watch, request.seed)
        else:
            samples = official.alone(drawn)
        del drawn
        free_memory(self._device)
        return Timed(samples, Facts())

    def _enter(self, request: Enter) -> None:
        assert self._contract is not None
        self._wires = Tripwires(self._contract)
        candidate = load_candidate(request.model)
        if request.against:
            apart = Apart(ROOT / FOLDER)
            self._entrants["against"] = apart.load(request.against), apart.room
        self._entrants["candidate"] = candidate, contextlib.nullcontext
        self._wires.check()

    # --- building -----------------------------------------------------------------------------------------

    def _build(self, request: Build) -> None:
        assert self._contract is not None and self._wires is not None
        if self._built is None or self._built.drawn.case != request.case:
            self._facts = Facts()
        self._built = None
        gc.collect()
        free_memory(self._device)
        drawn = draw(self._contract, request.case, request.weight_seed, self._device)
        precision, state = observing.precision_state(), switches.read()
        self._wires.guard(drawn.baseline)
        own = {}
        for side, (loaded, room) in self._entrants.items():
            switches.put(state)  # nothing to do for the first
            with room():
                model = copied(loaded, drawn)
            own[side] = Side(model, switches.read(), room)
        self._wires.check()
        drawn.placed(drawn.baseline)
        self._wires.guard(drawn.baseline)
        for entrant in own.values():
            drawn.placed(entrant.model)
        self._built = Built(drawn, own["candidate"].model, own, precision, self._before or state)
        observing.reset_peak_memory(self._device)

    # --- the gate's half ----------------------------------------------------------------------------------

    def _forward(self, request: Forward) -> Output:
        built = self._built
        assert built is not None
        with torch.inference_mode():
            x, mask = built.drawn.inputs(request.input_seed)
            side = built.own[request.side]
            if len(built.own) > 1:
                switches.put(side.switches)
            given = bits(x, mask)
            begin = time.perf_counter()
            with side.room():
                output = side.model(x, mask)
                observing.synchronize(self._device)
            seconds = time.perf_counter() - begin
            check_input((x, mask), given)
            side.switches = switches.read()
            path = observing.hand_over(observing.checked(output, x), request.folders)
            dtype = observing.dtype_name(output)
        if request.side == "candidate":
            self._note(built, seconds, {} if output.dtype == x.dtype else {"output_dtype": dtype})
        self._check_wires()
        del output, x, mask
        free_memory(self._device)
        return Output(path, dtype, self._facts)

    def _note(self, built: Built, seconds: float, flags: dict[str, str]) -> None:
        first = seconds if self._facts.first_call_s is None else self._facts.first_call_s
        peak = observing.peak_memory_mib(self._device)
        flags = self._facts.flags | flags
        self._facts = replace(self._facts, first_call_s=first, peak_mem_mib=peak, flags=flags)
        self._ask_candidate(built)

    def _ask_candidate(self, built: Built) -> None:
        """Take what the candidate says about itself, and what it did to the global flags."""
        model, before, after = built.candidate, built.precision, observing.precision_state()
        compile_s = getattr(model, "compile_s", None)
        flags = dict(self._facts.flags)
        if before != after:
            flags["tf32_changed"] = f"{before} to {after}"
        self._facts = replace(
            self._facts,
            route_ran=str(getattr(model, "route_ran", None) or ""),
            route_note=str(getattr(model, "route_note", None) or "")[:NOTE_CHARACTERS],
            compile_s=self._facts.compile_s if compile_s is None else float(compile_s),
            tf32=observing.tf32_text(self._device, before, after),
            flags=flags,
        )

    # --- timing -------------------------------------------------------------------------------------------

    def _time(self, request: Time) -> Timed:
        built = self._built
        assert built is not None
        inputs = official.timing_inputs(built.drawn)
        given = bits(*inputs)
        samples = official.in_turns(built.drawn, built.candidate, inputs, request.baseline)
        check_input(inputs, given)
        if request.again:
            samples += official.again(built.drawn, inputs)
        call_ms = Timed(samples, self._facts).call_ms()["candidate"]
        self._look_after_timing(built, *inputs, is_long=call_ms > what_ran.LONGEST_CALL_S * 1e3)
        self._check_wires()
        return Timed(samples, self._facts)

    def _strict(self, request: Warm | Block | Show | Sprint | Repeat) -> Message:
        built = self._built
        assert built is not None
        if isinstance(request, Warm):
            self._watch = self._watch or watch_of(self._device)
            built.strict = Strict(built.drawn, self._sides(built, request.sides), self._watch)
            return built.strict.warm(request.calls)
        assert built.strict is not None
        if isinstance(request, Sprint):
            return built.strict.sprint(request)
        if isinstance(request, Repeat):
            return built.strict.repeat(request)
        if isinstance(request, Show):
            output = built.strict.output(request.position)
            path = observing.hand_over(output, request.folders)
            return Output(path, observing.dtype_name(output), self._facts)
        blocked = built.strict.block(request)
        self._ask_candidate(built)
        self._check_wires()
        return replace(blocked, facts=self._facts)

    def _check_wires(self) -> None:
        assert self._wires is not None
        self._wires.check()

    def _sides(self, built: Built, names: Sequence[str]) -> dict[str, Side]:
        """Return the sides by name; a candidate's switches are as it has left them until now."""
        baseline = Side(built.drawn.baseline, built.switches)
        return {name: built.own.get(name, baseline) for name in names}

    def _look_after_timing(self, built: Built, x: Tensor, mask: Tensor, is_long: bool) -> None:
        """Find out what would disturb the timing if it came first; too little memory is no failure.

        Two more calls, for the outputs' memory, are too much where a call `is_long`.
        """
        self._ask_candidate(built)
        flags = dict(self._facts.flags)
        rows = getattr(built.candidate, "chunk_rows", None)
        with torch.inference_mode():
            look = partial(observing.aliases_output, built.candidate, x, mask)
            aliases = None if is_long else observing.unless_out_of_memory(look)
            if isinstance(rows, int) and 0 < rows < x.shape[0]:
                difference = observing.unless_out_of_memory(
                    lambda: chunk_difference(built.candidate, x, mask)
                )
                flags["chunk_rows"] = str(rows)
                flags["chunk_diff"] = "out of memory" if difference is None else f"{difference:.6g}"
        self._facts = replace(self._facts, aliases_output=aliases, flags=flags)

    def _look(self, request: Look) -> Looked:
        built = self._built
        assert built is not None
        drawn = built.drawn
        x, mask = official.timing_inputs(drawn)
        now = switches.read()
        its = (
            built.switches if drawn.case.protocol == "strict" else now
        )  # the contest's sides share one state
        sides = [
            what_ran.Side(name, model, request.call_ms[name], partial(switches.put, state))
            for name, model, state in (("baseline", drawn.baseline, its), ("candidate", built.candidate, now))
            if name in request.call_ms
        ]
        found = what_ran.look(drawn.case, sides, x, mask, request.profile)
        return Looked(found.attention_backend, found.flags, tuple(found.profiles))


def copied(loaded: Candidate, drawn: Drawn) -> nn.Module:
    """Build a model as the contest's script does, with the baseline's weights by its own way of copying."""
    model = loaded.model_class(drawn.config)
    strict = not drawn.settings.non_strict_weight_copy
    loaded.copy_model_weights(drawn.baseline, model, strict=strict)
    return model


def chunk_difference(model: Any, x: Tensor, mask: Tensor) -> float:
    """Return the model's own figure for how far its chunked output is from the unchunked one."""
    return float(model.chunk_difference(x, mask))
''',
    'harness/observing.py': r'''"""What the worker sees of a candidate besides its times: output, memory, global flags, aliasing."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn

from harness.blocks import CROSSING_ELEMENTS, blocks
from harness.serving import RefusedError, is_out_of_memory

T = TypeVar("T")


def synchronize(device: torch.device) -> None:
    """Wait for all that the device still has to do."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


# --- the output -------------------------------------------------------------------------------------------


def checked(output: object, x: Tensor) -> Tensor:
    """Return the candidate's output for x [B,S,D] if it can be gated at all.

    Raises RefusedError: what is no tensor of floating point, has another shape or lies on another device is
    an error. Another floating-point dtype is gated as it is, as in the contest's script. What is more than
    numbers in memory, and may compute when it is read, is disqualified.
    """
    if not isinstance(output, Tensor):
        kind = type(output).__name__
        raise RefusedError("error", "not_a_tensor", f"the candidate returned {kind}, not a tensor")
    if output.shape != x.shape:
        shapes = f"{tuple(output.shape)}, not {tuple(x.shape)}"
        raise RefusedError("error", "wrong_shape", f"the candidate's output has the shape {shapes}")
    if output.device.type != x.device.type:
        devices = f"{output.device.type}, not on {x.device.type}"
        raise RefusedError("error", "wrong_device", f"the candidate's output lies on {devices}")
    if not output.is_floating_point():
        raise RefusedError("error", "wrong_dtype", f"the candidate's output is {dtype_name(output)}")
    if type(output) not in (Tensor, nn.Parameter):
        kind = type(output).__name__
        words = f"the output is a {kind}, which may compute when it is read"
        raise RefusedError("disqualified", "lazy_output", words)
    if output.layout is not torch.strided or (output.numel() and not output.untyped_storage().nbytes()):
        raise RefusedError("disqualified", "lazy_output", "the output has no memory of its own")
    return output


def dtype_name(tensor: Tensor) -> str:
    """Return a tensor's dtype as people and cases name it, such as `float16`."""
    return str(tensor.dtype).removeprefix("torch.")


def hand_over(output: Tensor, folders: Sequence[str]) -> str:
    """Write the output's elements to a file in the first folder with room for it; return the file's path.

    The file is this process's own: a child that the candidate forked would write over it otherwise.
    """
    size = output.numel() * output.element_size()
    for folder in folders:
        path = Path(folder) / f"output-{os.getpid()}.bin"
        if shutil.disk_usage(folder).free > size and _reserved(path, size):
            shared = torch.from_file(str(path), shared=True, size=output.numel(), dtype=output.dtype)
            for block in blocks(output.shape, CROSSING_ELEMENTS):  # a whole copy has no room on a full card
                shared.view(output.shape)[block].copy_(output[block])
            return str(path)
    raise RefusedError("error", "no_room", f"an output of {size} bytes has no room in {' or '.join(folders)}")


def _reserved(path: Path, size: int) -> bool:
    """Whether the file's bytes could be had; writing to a mapping of bytes that cannot is a crash."""
    with contextlib.suppress(OSError), path.open("wb") as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        else:
            file.truncate(size)
        return True
    return False


def aliases_output(model: nn.Module, x: Tensor, mask: Tensor) -> bool:
    """Whether two outputs that are both alive share memory, or one shares it with the input."""
    alive = (x, model(x, mask), model(x, mask))
    return len({tensor.untyped_storage().data_ptr() for tensor in alive}) < len(alive)


def unless_out_of_memory(look: Callable[[], T]) -> T | None:
    """Return what `look` returns, or None when there is not enough memory to look."""
    try:
        return look()
    except (MemoryError, RuntimeError) as error:
        if is_out_of_memory(error):
            return None
        raise


# --- memory -----------------------------------------------------------------------------------------------


def reset_peak_memory(device: torch.device) -> None:
    """Begin anew to watch for the peak."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory_mib(device: torch.device) -> float:
    """Return the most memory since the reset: torch's own on a GPU, the whole process's on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# --- global flags -----------------------------------------------------------------------------------------


def precision_state() -> str:
    """Return what changes float32 arithmetic: `high/on/on` = matmul precision, TF32 in cuBLAS, in cuDNN."""
    return "/".join(
        (
            _flag(torch.get_float32_matmul_precision),
            _flag(lambda: torch.backends.cuda.matmul.allow_tf32),
            _flag(lambda: torch.backends.cudnn.allow_tf32),
        )
    )


def _flag(read: Callable[[], object]) -> str:
    try:
        value = read()
    except RuntimeError:  # torch does not say when its old and its new way of setting it were mixed
        return "mixed"
    return str(value) if not isinstance(value, bool) else "on" if value else "off"


def tf32_text(device: torch.device, before: str, after: str) -> str:
    """Return whether float32 products run in TF32: `on`, `off`, or `on>off` when the candidate changed it."""
    if device.type != "cuda" or torch.cuda.get_device_capability(device) < (8, 0):
        return "off"
    states = [state.split("/")[1] for state in (before, after)]
    return states[0] if states[0] == states[1] else ">".join(states)
''',
    'harness/official.py': r'''"""The worker's half of protocol `official`: the contest's timing to the letter, by the contract's timer."""

from __future__ import annotations

import time
from collections.abc import Sequence

from torch import Tensor, nn

from harness.drawing import Drawn
from harness.events import SAMPLES_PER_EVENT, Samples, pack_ns
from harness.timing import SEED_OFFSET

_ALONE_S = 1.0  # about so long is the baseline timed before there is a candidate


def alone(drawn: Drawn) -> tuple[Samples, ...]:
    """Return times of the baseline before there is a candidate: as many as a second holds, at least three."""
    inputs = timing_inputs(drawn)
    counts = drawn.case.counts.shortened(drawn.case.shape)
    drawn.contract.warmup_model(drawn.baseline, *inputs, min(3, counts.warmup), drawn.device)
    start = time.perf_counter()
    drawn.contract.warmup_model(drawn.baseline, *inputs, 1, drawn.device)
    calls = round(_ALONE_S / max(time.perf_counter() - start, 1e-6))
    calls = min(max(3, calls), counts.repeats)
    taken = drawn.contract.benchmark_once(drawn.baseline, *inputs, calls, drawn.device)
    return tuple(packed(drawn.case.id, "baseline_before", 0, taken))


def in_turns(
    drawn: Drawn, candidate: nn.Module, inputs: tuple[Tensor, Tensor], baseline: bool = True
) -> tuple[Samples, ...]:
    """Return the contest's samples: both sides warm, then rounds in which they take turns in going first.

    Without `baseline` the candidate is alone.
    """
    contract, counts = drawn.contract, drawn.case.counts.shortened(drawn.case.shape)
    sides = [("baseline", drawn.baseline), ("candidate", candidate)][0 if baseline else 1 :]
    for _, model in sides:
        contract.warmup_model(model, *inputs, counts.warmup, drawn.device)
    samples: list[Samples] = []
    for number in range(counts.rounds):
        for side, model in sides if number % 2 == 0 else reversed(sides):
            taken = contract.benchmark_once(model, *inputs, counts.repeats, drawn.device)
            samples += packed(drawn.case.id, side, number, taken)
    return tuple(samples)


def again(drawn: Drawn, inputs: tuple[Tensor, Tensor]) -> tuple[Samples, ...]:
    """Return as many rounds of the baseline once more: they differ from its first ones by noise alone."""
    counts = drawn.case.counts.shortened(drawn.case.shape)
    samples: list[Samples] = []
    for number in range(counts.rounds):
        taken = drawn.contract.benchmark_once(drawn.baseline, *inputs, counts.repeats, drawn.device)
        samples += packed(drawn.case.id, "baseline_again", number, taken)
    return tuple(samples)


def timing_inputs(drawn: Drawn) -> tuple[Tensor, Tensor]:
    """Return the one input [B,S,D] of all of the contest's timing, and its mask [B,S]."""
    return drawn.inputs(drawn.seed + SEED_OFFSET)


def packed(case_id: str, side: str, number: int, samples_ms: Sequence[float]) -> list[Samples]:
    """Return one round's times of one side as events of at most SAMPLES_PER_EVENT whole nanoseconds."""
    ns = [round(ms * 1e6) for ms in samples_ms]
    return [
        Samples(case_id, side, number, start, pack_ns(ns[start : start + SAMPLES_PER_EVENT]))
        for start in range(0, len(ns), SAMPLES_PER_EVENT)
    ]
''',
    'harness/oracle.py': r'''"""The baseline's arithmetic with its query axis in blocks: a reference where no S x S score can exist.

Each operation is the baseline's, in its order and its dtype, float16's roundings included. A block of queries
sees its keys only: under causality those up to its last row, which leaves out half of the work; what is left
out has a weight of exactly zero. So it differs from the baseline only in the order in which sums are taken.

In float64 no key is left out: the baseline's softmax is in float32 even then, and a shorter row would round
its sum differently.

Checking a part of the output means checking whole sequences. Sequences do not see each other, whereas a
single row of the last layer needs the keys and values of all rows before it, so that all layers but the last
must be computed for all rows anyway.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor
from torch.nn import functional

SCORES = 1 << 24  # elements of one block's scores; a block takes some 12 bytes for each
TILE = 128  # rows that a GPU's matrix products take at once; whole tiles waste nothing
Weights = Mapping[str, Tensor]


def walk(
    weights: Weights,
    x: Tensor,
    valid_token_mask: Tensor | None,
    heads: int,
    causal: bool,
    scores: int = SCORES,
) -> Tensor:
    """Map x [B,S,D] to the baseline's output [B,S,D]; `weights` is the baseline's state dict.

    `scores` bounds the elements [B,H,rows,S] of the scores that exist at once; one row always does.
    """
    mask = None if valid_token_mask is None or bool(valid_token_mask.all()) else valid_token_mask
    layers = sum(name.endswith(".norm1.weight") for name in weights)
    for number in range(layers):
        layer = _under(weights, f"layers.{number}.")
        branch = _attend(_norm(x, layer, "norm1"), _under(layer, "attention."), mask, heads, causal, scores)
        x = x + _zero_padding(branch, mask)
        hidden = functional.gelu(_linear(_norm(x, layer, "norm2"), layer, "ffn_in"))
        x = _zero_padding(x + _linear(hidden, layer, "ffn_out"), mask)
    return _zero_padding(_norm(x, weights, "final_norm"), mask)


def _attend(x: Tensor, part: Weights, mask: Tensor | None, heads: int, causal: bool, most: int) -> Tensor:
    batch, seq_len, _ = x.shape
    q, k, v = (_split(_linear(x, part, name), heads) for name in ("q_proj", "k_proj", "v_proj"))
    merged = torch.empty_like(x)
    rows = max(1, most // (batch * heads * seq_len))
    rows -= rows % TILE if rows > TILE else 0
    for start in range(0, seq_len, rows):
        stop = min(start + rows, seq_len)
        seen = stop if causal and x.dtype != torch.float64 else seq_len
        scores = q[:, :, start:stop] @ k[:, :, :seen].transpose(-2, -1)
        scores.mul_(q.shape[-1] ** -0.5)
        if causal:
            future = torch.ones(stop - start, seen - start, dtype=torch.bool, device=x.device).triu_(1)
            scores[..., start:].masked_fill_(future, float("-inf"))
        if mask is not None:
            scores.masked_fill_(~mask[:, None, None, :seen], float("-inf"))
        shares = torch.softmax(scores, dim=-1, dtype=torch.float32).to(x.dtype)
        del scores
        merged[:, start:stop] = (shares @ v[:, :, :seen]).transpose(1, 2).flatten(2)
    return _linear(merged, part, "out_proj")


def _under(weights: Weights, prefix: str) -> Weights:
    return {name.removeprefix(prefix): each for name, each in weights.items() if name.startswith(prefix)}


def _split(x: Tensor, heads: int) -> Tensor:
    """[B,S,D] to [B,H,S,D/H], contiguous."""
    batch, seq_len, width = x.shape
    return x.view(batch, seq_len, heads, width // heads).transpose(1, 2).contiguous()


def _linear(x: Tensor, weights: Weights, name: str) -> Tensor:
    return functional.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])


def _norm(x: Tensor, weights: Weights, name: str) -> Tensor:
    return functional.layer_norm(x, x.shape[-1:], weights[f"{name}.weight"], weights[f"{name}.bias"])


def _zero_padding(x: Tensor, mask: Tensor | None) -> Tensor:
    return x if mask is None else x.masked_fill(~mask[..., None], 0.0)


@contextlib.contextmanager
def full_float32() -> Iterator[None]:
    """Compute float32 products in float32 meanwhile: no TF32 on a GPU, no bfloat16 on a CPU."""
    precision, tf32 = torch.get_float32_matmul_precision(), torch.backends.cuda.matmul.allow_tf32
    torch.set_float32_matmul_precision("highest")
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(precision)
        torch.backends.cuda.matmul.allow_tf32 = tf32
''',
    'harness/orders.py': r'''"""What a kernel is told: whose run it is, on which terms, and which cases. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass

from harness.shapes import Case


@dataclass(frozen=True)
class RunRef:
    """Whose events these are. Empty in a built kernel; a push fills it; the driver makes up a missing id."""

    run_id: str = ""
    part: int = 1
    git_commit: str = ""
    git_dirty: bool = False


@dataclass(frozen=True)
class Terms:
    """What holds for every case of an order.

    `asked_accelerator` is a pattern of the device's name, `any` GPU, `cpu`, or empty for whatever is there;
    `devices` is how many cards to use at most, 0 for all; `seeds` is the number of weight seeds in the gate.
    `asked_count` is how many such cards must have come, as far as `devices` would use them, and
    `asked_capability` is theirs, as `7.5`; 0 and empty are no rule. `model` is the module to import the
    candidate from. Times are in seconds; 0 is no limit. `profile` asks for each case's top kernels.
    `target_ci` is the half-width of the speed-up's interval that `strict` samples for, as a share; 0 is a
    fixed number. `against` is the module of a second model that the candidate is compared with, which lies
    in a folder of its own, and `against_name` what people call it.
    """

    bundle_sha256: str
    harness_sha256: str
    model_sha256: str
    model: str = "model"
    own_harness: bool = False
    asked_accelerator: str = ""
    allow_mismatch: bool = False
    devices: int = 0
    seeds: int = 1
    timeout_s: float = 0.0
    case_timeout_s: float = 1800.0
    asked_count: int = 0
    asked_capability: str = ""
    profile: bool = False
    target_ci: float = 0.0
    against: str = ""
    against_name: str = ""


@dataclass(frozen=True)
class Order:
    """What a kernel carries out: terms and cases. One without cases is a probe: it only looks around."""

    terms: Terms
    cases: tuple[Case, ...]

    @property
    def is_probe(self) -> bool:
        """Whether it only reports what machine it finds."""
        return not self.cases
''',
    'harness/originals.py': r'''"""The harness's own files as they were when the driver started. Standard library only."""

from __future__ import annotations

import contextlib
from pathlib import Path


class Originals:
    """Keeps the files' bytes: a candidate that is not isolated must not change them for the next case."""

    def __init__(self, root: Path) -> None:
        files = [
            *sorted((root / "harness").rglob("*.py")),
            *sorted(root.glob("torch_transformer_benchmark.py")),
        ]
        self._root = root
        self._contents = {path: path.read_bytes() for path in files}

    def restore(self) -> list[str]:
        """Put back what was changed, added or removed; return the names of those files."""
        touched = [path for path, content in self._contents.items() if _read(path) != content]
        added = [path for path in (self._root / "harness").rglob("*.py") if path not in self._contents]
        with contextlib.suppress(OSError):
            for path in added:
                path.unlink()
            for path in touched:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(self._contents[path])
        return sorted(str(path.relative_to(self._root)) for path in (*touched, *added))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
''',
    'harness/outlet.py': r'''"""Where the driver's lines go: stdout and the events file. Standard library only."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.events import Body, Event, Name, Seal, encode

EVENTS_FILE = "ferry-events.jsonl"

Write = Callable[[bytes], None]


class Outlet:
    """Numbers, seals and writes one attempt's events; many threads may use it.

    A place that can no longer be written to is given up; the others go on.
    """

    def __init__(self, run: str, part: int, attempt: int, places: Sequence[Write]) -> None:
        self.seal = Seal()
        self._name = (run, part, attempt)
        self._places = list(places)
        self._lock = threading.Lock()
        self._seq = 0
        self._begin = time.monotonic()
        self._closed = False

    def emit(self, *bodies: Body, last: bool = False) -> None:
        """Write the events in one go. After the `last` one nothing is written any more."""
        with self._lock:
            lines = []
            for body in bodies:
                self._seq += 1
                event = Event(Name(*self._name, self._seq), time.monotonic() - self._begin, body)
                lines.append(encode(event, self.seal))
            self._put(lines, self._places)
            self._closed = self._closed or last

    def say(self, lines: Sequence[str]) -> None:
        """Write lines that are no events: to stdout, the first place, alone."""
        with self._lock:
            self._put(lines, self._places[:1])

    def replay(self, lines: Sequence[str]) -> None:
        """Write an earlier attempt's event lines as they are."""
        with self._lock:
            self._put(lines, self._places)

    def _put(self, lines: Sequence[str], places: list[Write]) -> None:
        if self._closed or not lines:
            return
        data = "".join(line + "\n" for line in lines).encode()
        for place in places:
            place(data)


def to_stdout() -> Write:
    """Return a writer to stdout that falls silent once nobody listens."""
    return tolerant(None if sys.stdout is None else os.dup(sys.stdout.fileno()))


def to_events_file(folder: Path) -> Write:
    """Return a writer to a new events file in `folder`; an older one is kept under another name.

    Where there can be none, as in a read-only folder, stderr says so and the log alone holds the events.
    """
    path = folder / EVENTS_FILE
    try:
        if path.exists():
            kept = (folder / f"ferry-events.{number}.jsonl" for number in range(1, 10_000))
            path.rename(next(name for name in kept if not name.exists()))
        return tolerant(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
    except OSError as problem:
        print(f"harness.driver: no {EVENTS_FILE} in {folder}: {problem.strerror}", file=sys.stderr)
        return tolerant(None)


def tolerant(descriptor: int | None) -> Write:
    """Unbuffered: what is written is out of this process when the call returns."""
    alive = [descriptor] if descriptor is not None else []

    def write(data: bytes) -> None:
        with contextlib.suppress(OSError):
            while alive and data:
                try:
                    data = data[os.write(alive[0], data) :]
                except OSError:
                    os.close(alive.pop())

    return write
''',
    'harness/plain.py': r'''"""Dataclasses and samples as JSON's types and back. Standard library only."""

from __future__ import annotations

import base64
import dataclasses
import functools
import math
import struct
import types
import typing
import zlib
from collections.abc import Sequence
from typing import Any, TypeVar

T = TypeVar("T")

# What reading JSON that anybody may have written can raise.
UNREADABLE = (KeyError, TypeError, ValueError, OverflowError, RecursionError)
_MOST_NS = 65_536  # in one event; a few forged bytes must not fill the memory


def to_plain(value: Any) -> Any:
    """Turn a dataclass into JSON's types; a float that JSON cannot hold becomes `nan`, `inf` or `-inf`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [to_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def from_plain(cls: type[T], value: object) -> T:
    """Build a dataclass from `to_plain`'s result. Unknown fields are left out: newer writers may add some.

    Raises TypeError for a value of the wrong type and for a missing field that has no default.
    """
    return typing.cast("T", _build(cls, value))


_field_types = functools.cache(typing.get_type_hints)


def _build(hint: Any, value: Any) -> Any:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return None if value is None else _build(next(arg for arg in args if arg is not type(None)), value)
    if origin is tuple and isinstance(value, list):
        return tuple(_build(args[0], item) for item in value)
    if origin is dict and isinstance(value, dict):
        return {_build(args[0], key): _build(args[1], item) for key, item in value.items()}
    if dataclasses.is_dataclass(hint) and isinstance(hint, type) and isinstance(value, dict):
        known = _field_types(hint)
        return hint(**{key: _build(known[key], item) for key, item in value.items() if key in known})
    if hint is float and isinstance(value, (int, float, str)) and not isinstance(value, bool):
        return float(value)
    if isinstance(hint, type) and type(value) is hint:
        return value
    raise TypeError(f"{value!r:.60} is no {hint}")


def pack_ns(values: Sequence[int]) -> str:
    """Pack nanoseconds as little-endian 64-bit integers, deflated, in base64."""
    return base64.b64encode(zlib.compress(struct.pack(f"<{len(values)}Q", *values), 9)).decode()


def unpack_ns(packed: str) -> tuple[int, ...]:
    """Undo `pack_ns`. Raises ValueError when the text is not what it wrote."""
    try:
        inflater = zlib.decompressobj()
        raw = inflater.decompress(base64.b64decode(packed, validate=True), 8 * _MOST_NS + 1)
        if not inflater.eof:
            raise ValueError(f"they are cut, or more than {_MOST_NS}")
        return struct.unpack(f"<{len(raw) // 8}Q", raw)
    except (zlib.error, struct.error) as problem:
        raise ValueError(str(problem)) from problem
''',
    'harness/process.py': r'''"""A child of the driver: how it is started, asked, heard and ended. Standard library only.

A child has its own process group and session, no stdin, and pipes for what it prints. Whatever it starts
carries the child's tag in its environment, so that nothing outlives it, not even in another session.
"""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from harness.channel import Done, Hello, Load, Message, Problem, Ready
from harness.events import Device
from harness.isolation import Identity
from harness.limits import CaseFailureError, Watch
from harness.wire import BrokenMessageError, pack, unpack

ROOT = Path(__file__).resolve().parent.parent  # the folder that the bundle was unpacked to
TICK_S = 0.25
FAREWELL_S = 1.0  # for a child to leave by itself, so that its last words are heard
DYING_S = 5.0  # from the end of its channel to that of the child: a card takes seconds to let go of
REPLY_BYTES = 1 << 24  # a longer one is none of ours
_TAG = "FERRY_CHILD"
_SILENT = "ignore:Failed to initialize NumPy"  # torch says so at every start where there is no numpy

M = TypeVar("M")

_started: list[Child] = []  # by this driver


class Child:
    """One running `python -m harness.<name>`, greeted at once; `hear` takes the bytes that it prints.

    With an identity it runs as that user, in that user's home; else as this process's user and in its folder.
    """

    def __init__(
        self,
        name: str,
        device: str,
        environment: Mapping[str, str],
        hear: Callable[[bytes], None],
        identity: Identity | None = None,
    ) -> None:
        self.name = name
        self.gone = False  # whether it is certain that nothing of it lives
        self._identity = identity
        self._hear = hear
        self._tag = uuid.uuid4().hex
        self._oom_kills = _oom_kills()
        requests_end, self._requests = os.pipe()
        self._replies, replies_end = os.pipe()
        try:
            tagged = {**environment, _TAG: self._tag}
            self._process = _start(name, requests_end, replies_end, tagged, identity)
        finally:
            os.close(requests_end)
            os.close(replies_end)
        _started.append(self)
        assert self._process.stdout is not None
        self._said = self._process.stdout.fileno()
        self._unread = bytearray()
        self._silent_since = math.inf  # when its end of the channel was closed
        self._selector = selectors.DefaultSelector()
        for source in (self._replies, self._said):
            self._selector.register(source, selectors.EVENT_READ)
        self._device: Device | None = None
        self._asked = 0  # requests
        self._send(Hello(device))  # the answer is read later: children start side by side

    @property
    def alive(self) -> bool:
        """Whether the child may still be asked."""
        return self._said >= 0

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    def welcome(self, load: Load, watch: Watch) -> Device:
        """Await the child's start, have it load its code, and return the device as it sees it.

        Raises CaseFailureError like `ask`. Again is no work.
        """
        if self._device is None:
            device = self._reply(Ready, watch).device
            self.ask(load, Done, watch)
            self._device = device
        return self._device

    def ask(self, request: Message, kind: type[M], watch: Watch) -> M:
        """Send the request and return its reply, which is of the given kind.

        Raises CaseFailureError when the child answers with a problem, dies, breaks the channel, or when the
        watch's time is up; in all cases but the first it is dead after that.
        """
        self._send(request)
        return self._reply(kind, watch)

    def _reply(self, kind: type[M], watch: Watch) -> M:
        try:
            reply, number = unpack(self._next_line(watch))
            if number != self._asked or not isinstance(reply, (kind, Problem)):
                words = f"a {type(reply).__name__} came from the {self.name} that answers nothing asked of it"
                raise CaseFailureError("disqualified", "forged_reply", words)
        except (CaseFailureError, BrokenMessageError) as failure:
            self.kill()
            raise self._blamed(failure) from failure
        if isinstance(reply, Problem):
            raise self._blamed(CaseFailureError(reply.status, reply.kind, reply.error))
        return reply

    def end(self) -> None:
        """Let the child leave by itself, then kill what is left of it."""
        if self._process.poll() is None:
            self._close_requests()
            self._drain(until=time.monotonic() + FAREWELL_S)
        self.kill()

    def kill(self) -> None:
        """Kill the child and all that it started, and hear what it had said. Again is no harm."""
        if not self.alive:
            return
        self.gone = self._kill_processes(patience_s=2)
        self._drain(until=time.monotonic() + TICK_S)
        self._selector.close()
        self._close_requests()
        os.close(self._replies)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._said = -1

    def _kill_processes(self, patience_s: float) -> bool:
        """Kill all that is the child's and return whether it is gone."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        _kill_tagged(self._tag)
        with contextlib.suppress(subprocess.TimeoutExpired):  # stuck in the driver of a sick card
            self._process.wait(timeout=patience_s)
        others_are_gone = self._identity is None or self._identity.kill_all()
        return others_are_gone and self._process.poll() is not None

    # --- the pipes ----------------------------------------------------------------------------------------

    def _send(self, request: Message) -> None:
        self._asked += 1
        with contextlib.suppress(OSError):  # a dead child is noticed where its reply is missing
            os.write(self._requests, pack(request, self._asked))

    def _close_requests(self) -> None:
        if self._requests >= 0:
            os.close(self._requests)
            self._requests = -1

    def _next_line(self, watch: Watch) -> bytes:
        while b"\n" not in self._unread:
            watch.check()
            gone = self._process.poll() is not None
            if not self._listen(0 if gone else TICK_S) and gone:
                raise self._death()
            if len(self._unread) > REPLY_BYTES:
                raise BrokenMessageError("a line without end")
            if time.monotonic() > self._silent_since + DYING_S:
                raise BrokenMessageError("it is closed")
        line, _, self._unread = self._unread.partition(b"\n")
        return bytes(line)

    def _listen(self, timeout: float) -> bool:
        """Read what has come; return whether a reply may have."""
        replied = False
        for key, _ in self._selector.select(timeout):
            data = os.read(key.fd, 1 << 16)
            if not data:
                self._selector.unregister(key.fd)
                if key.fd == self._replies:
                    self._silent_since = time.monotonic()
            elif key.fd == self._replies:
                self._unread += data
                replied = True
            else:
                self._hear(data)
        return replied

    def _drain(self, until: float) -> None:
        """Hear the child until it has closed its pipes, nothing comes from a dead one, or time is up."""
        while self._selector.get_map() and (left := until - time.monotonic()) > 0:
            gone = self._process.poll() is not None
            if not self._selector.select(0 if gone else left) and gone:
                return
            self._listen(0)

    # --- how it failed ------------------------------------------------------------------------------------

    def _death(self) -> CaseFailureError:
        code = self._process.returncode
        if code >= 0:
            return CaseFailureError("error", f"exit {code}", f"the {self.name} left with exit code {code}")
        named = -code in set(signal.Signals)
        name = signal.Signals(-code).name if named else f"signal {-code}"
        if name == "SIGKILL" and _oom_kills() > self._oom_kills:
            return CaseFailureError("oom", name, f"the {self.name} was killed: the machine was out of memory")
        return CaseFailureError("error", name, f"the {self.name} was ended by {name}")

    def _blamed(self, failure: CaseFailureError | BrokenMessageError) -> CaseFailureError:
        """Say that it was the judge: the candidate had no part in it."""
        if isinstance(failure, BrokenMessageError):
            failure = CaseFailureError(
                "error", "broken_channel", f"the {self.name} broke its channel: {failure}"
            )
        if self.name == "judge" and failure.status != "not_run":
            return CaseFailureError(failure.status, f"judge:{failure.kind}", failure.error)
        return failure


def interpreter() -> str:
    """Return this interpreter's path, by a link when its environment's path has a space in it.

    The commands by which torch.compile builds C++ break at spaces in the path of torch.
    """
    home, program = Path(sys.prefix), Path(sys.executable)
    if " " not in str(home) or not program.is_relative_to(home):
        return str(program)
    link = ROOT / "scratch" / "python"
    link.parent.mkdir(exist_ok=True)
    with contextlib.suppress(FileExistsError):
        link.symlink_to(home)
    return str(link / program.relative_to(home))


def _start(
    name: str, requests: int, replies: int, environment: Mapping[str, str], identity: Identity | None
) -> subprocess.Popen[bytes]:
    as_user: dict[str, Any] = {}
    if identity is not None:
        as_user = {"user": identity.uid, "group": identity.uid, "extra_groups": []}
    return subprocess.Popen(
        [
            *(interpreter(), "-u", "-X", "faulthandler", "-W", _SILENT, "-m", f"harness.{name}"),
            *(str(requests), str(replies), str(identity.home if identity else Path.cwd())),
        ],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,
        pass_fds=(requests, replies),
        start_new_session=True,
        **as_user,
    )


def none_alive() -> bool:
    """Kill what still lives of all children that were ever started here; return whether that is certain."""
    for child in _started:
        child.gone = child.gone or child._kill_processes(patience_s=1)
    return all(child.gone for child in _started)


def _kill_tagged(tag: str) -> None:
    """Kill the processes that a child left behind in other process groups, where there is a /proc to see."""
    mark = f"{_TAG}={tag}".encode()
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark in environ.read_bytes().split(b"\0"):
                os.kill(int(environ.parent.name), signal.SIGKILL)


def _oom_kills() -> int:
    """How many processes the kernel has killed for want of memory so far; 0 where it does not say."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0
''',
    'harness/profiling.py': r'''"""A look at what the device is busy with during a few calls, by torch's profiler."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.profiler import profile

from harness.events import Work

# Spans that CUPTI reports among the kernels and that keep no part of the device busy.
_WAITS = ("Stream Wait Event", "Stream Sync", "Event Sync", "Context Sync")


@dataclass(frozen=True)
class Seen:
    """What `calls` calls did. `busy_ns`: how long the device worked in all, overlaps once; 0 on a CPU.

    `work` is sorted, the longest first. `graph_launches`: how many CUDA graphs were launched.
    """

    calls: int
    work: tuple[Work, ...]
    busy_ns: int = 0
    graph_launches: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The kernels' or operators' names."""
        return tuple(work.name for work in self.work)

    @property
    def busy_ms(self) -> float:
        """How long the device works for one call, in milliseconds."""
        return self.busy_ns / self.calls / 1e6


def watch(call: Callable[[], object], calls: int, device: torch.device) -> Seen:
    """Call `calls` times under the profiler.

    On a GPU only the device and CUDA's own functions are traced: kernels take the time they take otherwise.
    """
    on_gpu = device.type == "cuda"
    with torch.inference_mode(), _profiler(on_gpu) as profiler:
        for _ in range(calls):
            call()
        if on_gpu:
            torch.cuda.synchronize(device)
    events: list[Any] = list(profiler.function_events or ())
    return of_kernels(events, calls) if on_gpu else of_operators(events, calls)


def _profiler(on_gpu: bool) -> profile:
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # else it writes into the log when it starts and stops
    # Not torch.profiler: to make one imports the compiler, which takes seconds.
    return profile(use_cpu=not on_gpu, use_device="cuda" if on_gpu else None, use_kineto=True)


def of_kernels(events: Iterable[Any], calls: int) -> Seen:
    """Sum up torch's events of a GPU: kernels, copies and fills, and launches of graphs."""
    spans: list[tuple[float, float]] = []
    counts: Counter[str] = Counter()
    micros: Counter[str] = Counter()
    launches = 0
    for event in events:
        if event.device_type.name == "CPU":
            launches += event.name.startswith("cudaGraphLaunch")
        elif event.name not in _WAITS and not getattr(event, "is_user_annotation", False):
            spans.append((event.time_range.start, event.time_range.end))
            counts[event.name] += 1
            micros[event.name] += event.time_range.end - event.time_range.start
    return Seen(calls, _sorted(counts, micros), round(covered(spans) * 1e3), launches)


def of_operators(events: Iterable[Any], calls: int) -> Seen:
    """Sum up torch's events of a CPU."""
    counts: Counter[str] = Counter()
    micros: Counter[str] = Counter()
    for event in events:
        counts[event.name] += 1
        micros[event.name] += event.self_cpu_time_total
    return Seen(calls, _sorted(counts, micros))


def _sorted(counts: Counter[str], micros: Counter[str]) -> tuple[Work, ...]:
    return tuple(Work(name, counts[name], round(spent * 1e3)) for name, spent in micros.most_common())


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """Return the length of the union of spans (start, end)."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total
''',
    'harness/reference.py': r'''"""What an output is compared with: the baseline, over the batch in parts where it must be, or the oracle."""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from harness.drawing import Drawn, free_memory
from harness.oracle import SCORES, full_float32, walk
from harness.serving import is_out_of_memory

Part = tuple[slice, Tensor]  # rows of the batch, and the reference for them

USABLE_SHARE = (
    0.8  # of the free memory; what a part takes is estimated, and allocators lose some to fragments
)
MOST_SCORES = 1 << 30  # more makes the oracle no faster, and leaves out fewer of the keys that are not seen
_BYTES_PER_SCORE = 32  # of free memory: three copies of a block's scores, and room for all else


def by_baseline(drawn: Drawn, x: Tensor, mask: Tensor) -> Iterator[Part]:
    """Yield the baseline's output over x [B,S,D]: in one part, as the contest does, or in what memory allows.

    Raises what a single row of the batch raises.
    """
    rows, start = _rows_that_fit(drawn, x), 0
    while start < len(x):
        part = slice(start, min(start + rows, len(x)))
        reference = _unless_out_of_memory(drawn.baseline, x[part], mask[part], rows > 1)
        if reference is None:  # the error, and what its traceback holds, is gone by now
            rows = -(-rows // 2)
            free_memory(x.device)
            continue
        yield part, reference
        start = part.stop


def _unless_out_of_memory(model: nn.Module, x: Tensor, mask: Tensor, may_fail: bool) -> Tensor | None:
    try:
        output: Tensor = model(x, mask)
    except (RuntimeError, MemoryError) as error:
        if may_fail and is_out_of_memory(error):
            return None
        raise
    return output


def _rows_that_fit(drawn: Drawn, x: Tensor) -> int:
    """How many sequences the baseline takes at once, by what it holds at its worst moment."""
    shape = drawn.case.shape
    room = free_bytes(x.device) * USABLE_SHARE - x.numel() * x.element_size()
    return min(len(x), max(1, int(room // shape.baseline_bytes(1))))


def by_oracle(drawn: Drawn, x: Tensor, mask: Tensor, seed: int, seconds: float) -> Iterator[Part]:
    """Yield the oracle's output a sequence at a time, in an order drawn by the seed, while time allows.

    One sequence always comes; another only if it would be done in time. Float32 is never TF32.
    """
    shape, weights = drawn.case.shape, drawn.baseline.state_dict()
    scores = min(MOST_SCORES, max(SCORES, free_bytes(x.device) // _BYTES_PER_SCORE))
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed)).tolist()
    begin = time.monotonic()
    for done, row in enumerate(order):
        spent = time.monotonic() - begin
        if done and spent + spent / done > seconds:
            return
        part = slice(row, row + 1)
        with full_float32():
            reference = walk(weights, x[part], mask[part], shape.heads, shape.causal, scores)
        yield part, reference


def in_float32(drawn: Drawn) -> Drawn:
    """Return the same with the baseline in float32; its weights stay as they were rounded to the dtype."""
    return replace(drawn, baseline=copy.deepcopy(drawn.baseline).float())


def free_bytes(device: torch.device) -> int:
    """Return the bytes that can still be had on the device; where nobody knows, more than there can be."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + unused
    meminfo = Path("/proc/meminfo")
    if not meminfo.exists():
        return sys.maxsize
    fields = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
    return int(fields["MemAvailable"].split()[0]) * 1024
''',
    'harness/script.py': r'''"""The contest's script: its flags, its order of events, its exit codes."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import torch
from torch import nn

from harness.baseline import BaselineTransformer, TransformerConfig
from harness.candidate import Candidate, load_candidate, locate, make_importable, origin
from harness.gate import run_accuracy_tests
from harness.shapes import DTYPE_BYTES, OFFICIAL_COUNTS, Settings, settings_of, settings_parser
from harness.timing import benchmark_models

OWN_MODEL = "model"
ACCURACY_FAILED = 2


def resolve_device(name: str) -> torch.device:
    """Return the device; `auto` is CUDA where there is any, else the CPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def resolve_dtype(name: str) -> torch.dtype:
    """Return the dtype called float32, float16 or bfloat16. Raises ValueError for any other name."""
    if name not in DTYPE_BYTES:
        raise ValueError(f"dtype {name!r} is none of {', '.join(DTYPE_BYTES)}")
    dtype: torch.dtype = getattr(torch, name)
    return dtype


def maybe_compile(model: nn.Module, enabled: bool, mode: str) -> nn.Module:
    """Return the model, compiled in `mode` if enabled; the compilation itself comes with its first calls."""
    return cast("nn.Module", torch.compile(model, mode=mode)) if enabled else model


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harness",
        description="Check a transformer against the contest's baseline, then time both.",
        parents=[settings_parser()],
    )
    parser.add_argument("--model", type=Path, help="a file or a package; gpuferry's own model by default")
    for name, size in (
        ("--batch-size", 8),
        ("--seq-len", 128),
        ("--d-model", 512),
        ("--heads", 8),
        ("--ffn-dim", 2048),
        ("--layers", 6),
        ("--warmup", OFFICIAL_COUNTS.warmup),
        ("--repeats", OFFICIAL_COUNTS.repeats),
        ("--benchmark-rounds", OFFICIAL_COUNTS.rounds),
    ):
        parser.add_argument(name, type=int, default=size)
    parser.add_argument("--causal", action="store_true")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", choices=tuple(DTYPE_BYTES), default="float32")
    parser.add_argument("--padding-ratio", type=float, default=0.0)
    parser.add_argument("--benchmark-on-failure", action="store_true")
    parser.add_argument("--compile-baseline", action="store_true")
    parser.add_argument("--compile-user", action="store_true")
    parser.add_argument(
        "--compile-mode", choices=("default", "reduce-overhead", "max-autotune"), default="default"
    )
    return parser


def parse_args(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the flags of `argv`, or of the command line. A bad one is reported and exits 2."""
    return _parser().parse_args(argv)


def validate_args(args: argparse.Namespace) -> None:
    """Raise ValueError for a value that makes no run."""
    for name in ("accuracy_trials", "repeats", "benchmark_rounds"):
        if getattr(args, name) <= 0:
            raise ValueError(f"{name} must be positive, it is {getattr(args, name)}")
    for name in ("warmup", "rtol", "atol"):
        if getattr(args, name) < 0:
            raise ValueError(f"{name} must not be negative, it is {getattr(args, name)}")
    if not 0 <= args.padding_ratio <= 1:
        raise ValueError(f"padding_ratio must be between 0 and 1, it is {args.padding_ratio}")


def set_up_torch(settings: Settings, device: torch.device) -> None:
    """Seed the global generators and choose the arithmetic of float32 matrix products.

    On CUDA `allow_tf32` is set last and so wins over the matmul precision.
    """
    torch.manual_seed(settings.seed)
    torch.set_float32_matmul_precision(settings.matmul_precision)
    if device.type == "cuda":
        torch.cuda.manual_seed_all(settings.seed)
        torch.backends.cuda.matmul.allow_tf32 = settings.allow_tf32
        torch.backends.cudnn.allow_tf32 = settings.allow_tf32


def _build(
    candidate: Candidate, config: TransformerConfig, strict: bool, device: torch.device, dtype: torch.dtype
) -> list[nn.Module]:
    """Return the baseline and the candidate with the same weights, ready to run."""
    # The baseline comes first: what the candidate's constructor draws must not change its weights.
    baseline = BaselineTransformer(config)
    optimized = candidate.model_class(config)
    candidate.copy_model_weights(baseline, optimized, strict=strict)
    return [model.to(device=device, dtype=dtype).eval() for model in (baseline, optimized)]


def _print_setting(config: TransformerConfig, device: torch.device, dtype: torch.dtype) -> None:
    print(f"config   : {config}")
    print(f"device   : {device} | dtype={str(dtype).removeprefix('torch.')} | torch={torch.__version__}")
    if device.type == "cuda":
        print(f"gpu      : {torch.cuda.get_device_name(device)}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the contest's protocol once; return 0 when the gate passed and 2 when it did not."""
    args = parse_args(argv)
    settings = settings_of(args)
    device, dtype = resolve_device(args.device), resolve_dtype(args.dtype)
    sizes = (args.batch_size, args.seq_len, args.d_model, args.heads, args.ffn_dim, args.layers)
    config = TransformerConfig(*sizes, args.causal)
    config.validate()
    validate_args(args)
    model = make_importable(args.model) if args.model else OWN_MODEL
    print(f"model    : {origin(locate(model))}", flush=True)
    candidate = load_candidate(model)
    set_up_torch(settings, device)
    baseline, optimized = _build(candidate, config, not settings.non_strict_weight_copy, device, dtype)
    baseline = maybe_compile(baseline, args.compile_baseline, args.compile_mode)
    optimized = maybe_compile(optimized, args.compile_user, args.compile_mode)
    _print_setting(config, device, dtype)
    subject = (baseline, optimized, config, device, dtype)
    inputs = (args.padding_ratio, settings.input_scale)
    passed = run_accuracy_tests(
        *subject, settings.accuracy_trials, settings.seed, *inputs, settings.rtol, settings.atol
    )
    if passed or args.benchmark_on_failure:
        benchmark_models(*subject, settings.seed, *inputs, args.warmup, args.repeats, args.benchmark_rounds)
    else:
        print("timing skipped: the accuracy gate failed")
    return 0 if passed else ACCURACY_FAILED
''',
    'harness/seal.py': r'''"""The seal on a driver's events, which only the driver can write. Standard library only.

The driver draws a key when it starts and keeps it in its memory alone. The plan, its first event, has the
key's SHA-256, each event an HMAC under the key, and the last event reveals the key, once no other process
of the run lives. Whoever reads the log afterwards can check each line; whoever wrote into it before, could
not know the key.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

# 96 bits of HMAC-SHA-256, in hex. Nobody can try a guess before the key is out, and a guess is right once in
# 2**96; the whole 256 bits would make the log of suite `official` a twentieth longer.
_MAC_HEX = 24
_SEALED = re.compile(rf'(\{{.*),"mac":"([0-9a-f]{{{_MAC_HEX}}})","check":"[0-9a-f]{{8}}"\}}$', re.DOTALL)


class Seal:
    """A key and what is done with it."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = secrets.token_bytes(32) if key is None else key

    @property
    def sha256(self) -> str:
        """What the plan says of the key."""
        return hashlib.sha256(self._key).hexdigest()

    def reveal(self) -> str:
        """Return the key, in hex."""
        return self._key.hex()

    def mac(self, text: str) -> str:
        """Return the text's code under the key."""
        return hmac.digest(self._key, text.encode(errors="surrogatepass"), "sha256").hex()[:_MAC_HEX]

    def holds(self, line: str) -> bool:
        """Whether an event's line was sealed with this key; what stands before its object does not count."""
        found = _SEALED.search(line)
        return found is not None and hmac.compare_digest(found[2], self.mac(found[1]))


def revealed(key: str) -> Seal | None:
    """Return the seal of a key that was revealed; None for what is no key."""
    try:
        return Seal(bytes.fromhex(key)) if key else None
    except ValueError:
        return None
''',
    'harness/senses.py': r'''"""Who is asked about the hardware: nvidia-smi, torch in a child, the network. Standard library only."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness.cards import Card, find_gpus
from harness.events import Device, from_plain
from harness.limits import Limits
from harness.plain import UNREADABLE
from harness.process import ROOT, interpreter

TORCH_DEADLINE_S = 120.0  # a cold disk takes most of a minute to import torch
INTERNET_S = 3.0
WELL_KNOWN = ("example.com", 443)
_TICK_S = 0.25
# Where a GPU's driver shows itself even when there is no nvidia-smi.
_TRACES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg", "/dev/kfd")


@dataclass(frozen=True)
class TorchView:
    """What torch said: its versions, what it has code for, its GPUs; `problem` is why it cannot use them.

    All is empty where there is no torch.
    """

    torch: str = ""
    triton: str = ""
    cuda: str = ""
    arches: tuple[str, ...] = ()
    cards: tuple[Device, ...] = ()
    problem: str = ""


class Senses(Protocol):
    """What the first check asks; the machine answers, or a file that a test wrote."""

    simulated: bool

    def gpus(self) -> list[Card]:
        """Return what nvidia-smi lists."""

    def traces(self) -> bool:
        """Whether there may be a GPU although nvidia-smi lists none."""

    def torch(self, cards: Sequence[Card]) -> TorchView:
        """Return what torch says of these cards, of all when none is named."""

    def internet(self) -> bool:
        """Whether the internet answers."""


class Real:
    """The machine itself."""

    simulated = False

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def gpus(self) -> list[Card]:
        """Return what nvidia-smi lists."""
        return find_gpus()

    def traces(self) -> bool:
        """Whether a driver has left its mark."""
        return any(Path(trace).exists() for trace in _TRACES)

    def torch(self, cards: Sequence[Card]) -> TorchView:
        """Ask torch in a process of its own, which may take its time but not for ever."""
        pins = ",".join(card.pin for card in cards)
        command = [interpreter(), "-m", "harness.torch_view"]
        return asked(command, {"CUDA_VISIBLE_DEVICES": pins} if pins else {}, self._limits)

    def internet(self) -> bool:
        """Whether a well-known host can be reached within three seconds."""
        return answers(*WELL_KNOWN)


def asked(
    command: Sequence[str], more: dict[str, str], limits: Limits, deadline_s: float = TORCH_DEADLINE_S
) -> TorchView:
    """Run the program that asks torch; whatever becomes of it, there is a view, and it is gone."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **more},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )
    end = time.monotonic() + deadline_s
    while time.monotonic() < end and not limits.reason():
        with contextlib.suppress(subprocess.TimeoutExpired):
            output, _ = process.communicate(timeout=_TICK_S)
            return _read(output, process.returncode)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):  # stuck in the driver of a sick card
        process.communicate(timeout=2)
    return TorchView(problem=f"no answer within {deadline_s:g} s")


def _read(output: str, code: int) -> TorchView:
    lines = output.strip().splitlines()
    for line in reversed(lines):
        with contextlib.suppress(*UNREADABLE):
            return from_plain(TorchView, json.loads(line))
    last = lines[-1] if lines else ""
    if re.match(r"(ModuleNotFound|Import)Error\b", last):
        return TorchView()  # no word about the card; the first case's error tells the whole story
    print(output, file=sys.stderr)
    return TorchView(problem=f"it ended with {code}{last and ': '}{last}")


def answers(host: str, port: int, limit_s: float = INTERNET_S) -> bool:
    """Whether a host takes a connection in time; looking up its name may hang longer, and is left behind."""
    reached = threading.Event()

    def reach() -> None:
        with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=limit_s):
            reached.set()

    looking = threading.Thread(target=reach, daemon=True)
    looking.start()
    looking.join(limit_s)
    return reached.is_set()
''',
    'harness/serving.py': r'''"""The children's side of the channel: a loop that answers the driver. Standard library only.

A child is started as `python -m harness.worker REQUESTS REPLIES FOLDER`: two file descriptors and the
working folder. Its start is in the bundle's folder, so that nothing in the working folder can stand in
for a module of ours.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from harness.channel import Hello, Message, Problem
from harness.wire import pack, unpack

ERROR_CHARACTERS = 3000  # of a traceback; its end says most
_PR_SET_PDEATHSIG = 1
_NOT_THE_AUTHORS = (f"{Path(__file__).parent}{os.sep}", "<frozen importlib", importlib.__file__)

Answer = Callable[[Message], Message]


class RefusedError(Exception):
    """The candidate did something that is a finding of its own and has no traceback worth showing."""

    def __init__(self, status: str, kind: str, error: str) -> None:
        super().__init__(error)
        self.problem = Problem(status, kind, error)


def serve(module: str, oom_score: int) -> None:
    """Answer requests until the driver closes the channel.

    `module` has a class `Desk`, made from Hello's device; it is imported only when Hello comes, so that a
    missing torch is an answer like any other. `oom_score` is added to what the kernel's out-of-memory
    killer sees: the highest goes first.
    """
    requests, replies = (int(number) for number in sys.argv[1:3])
    _settle((requests, replies), sys.argv[3], oom_score)
    del sys.argv[1:]  # what reads the command line at import finds none
    me, desk = os.getpid(), _Door(module)
    with open(requests, "rb") as incoming, open(replies, "wb") as outgoing:  # noqa: PTH123 (descriptors)
        for line in incoming:
            request, number = unpack(line)
            reply = _answer(desk, request)
            if os.getpid() != me:
                os._exit(0)  # a fork that the candidate let run out of its own code
            outgoing.write(pack(reply, number))
            outgoing.flush()
        _leave()


class _Door:
    """Opens the desk at Hello and passes all requests on to it."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._answer: Answer | None = None

    def __call__(self, request: Message) -> Message:
        if self._answer is None:
            assert isinstance(request, Hello)
            self._answer = importlib.import_module(self._module).Desk(request.device).answer
        return self._answer(request)


def _answer(desk: Answer, request: Message) -> Message:
    try:
        return desk(request)
    except RefusedError as refused:
        return refused.problem
    except BaseException as error:  # noqa: BLE001 (whatever a candidate raises, SystemExit too, is its result)
        return _problem(error)


def _problem(error: BaseException) -> Problem:
    status = "oom" if is_out_of_memory(error) else "error"
    return Problem(status, type(error).__name__, _tail_of_traceback(error))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that there was no more memory, on the device or here."""
    # torch's class is known by its name: this module must not need torch.
    names = {cls.__name__ for cls in type(error).__mro__}
    return bool(names & {"MemoryError", "OutOfMemoryError"}) or any(
        words in str(error)
        for words in (
            "DefaultCPUAllocator: ",
            "CUDA out of memory",
            "CUDA error: out of memory",
            "STATUS_ALLOC_FAILED",
        )
    )


def _tail_of_traceback(error: BaseException) -> str:
    """Format the traceback as the candidate's author would see it: it begins in the author's own code."""
    shown = traceback.TracebackException.from_exception(error)
    while len(shown.stack) > 1 and shown.stack[0].filename.startswith(_NOT_THE_AUTHORS):
        del shown.stack[0]
    return "".join(shown.format()).strip()[-ERROR_CHARACTERS:]


def _leave() -> None:
    """End at once: torch takes half a second to clean up what the end of the process cleans up anyway."""
    with contextlib.suppress(Exception):  # a candidate may have put anything in stdout's place, or closed it
        sys.stdout.flush()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).fflush(None)  # what extensions have printed and C still holds back
    os._exit(0)


def _settle(descriptors: tuple[int, ...], folder: str, oom_score: int) -> None:
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)  # programs that the candidate starts get no hold of the channel
    with contextlib.suppress(OSError, AttributeError):  # where there is no prctl, the closed channel ends us
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(oom_score))
    os.chdir(folder)
''',
    'harness/shapes.py': r'''"""What is measured: shapes, suites, settings and cases. Standard library only; the host imports this module.

A shape is one row of a table; a suite names shapes and how they are run; a case is
shape x route x levers x dtype x protocol and has the same id in every run.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import NoReturn

from harness.sizes import DTYPE_BYTES as DTYPE_BYTES
from harness.sizes import OFFICIAL as OFFICIAL
from harness.sizes import OFFICIAL_SMALL as OFFICIAL_SMALL
from harness.sizes import SHAPES as SHAPES
from harness.sizes import STRESS as STRESS
from harness.sizes import TINY as TINY
from harness.sizes import Shape as Shape

# These routes choose among the others; any other route was asked for by its own name and must run as asked.
CHOOSING_ROUTES = frozenset({"auto", "safe", "fast", "fp16"})

# Under these a case is the only one that its worker serves; `short` is `official` with other counts.
FRESH_WORKER = frozenset({"official", "strict"})
PROTOCOLS = ("official", "strict")


@dataclass(frozen=True)
class Counts:
    """Timed calls: `warmup` calls a side, then `rounds` rounds of `repeats` calls a side."""

    warmup: int = 20
    repeats: int = 100
    rounds: int = 3

    def shortened(self, shape: Shape) -> Counts:
        """Shape 14 is timed short (1 warm-up, 3 calls): one call takes seconds."""
        return Counts(1, 3, 1) if shape.key == "s14" else self


OFFICIAL_COUNTS = Counts()


# For all outputs of a case that are held against the oracle; the whole of shape 14 takes an H200 minutes.
ORACLE_S = 900.0

# The timing's input differs from every input of the gate.
TIMING_SEED_OFFSET = 100_000


@dataclass(frozen=True)
class Settings:
    """The options of the contest's script that are no part of a case, with its defaults."""

    seed: int = 1234
    accuracy_trials: int = 5
    input_scale: float = 1.0
    rtol: float = 0.02
    atol: float = 0.002
    matmul_precision: str = "high"
    allow_tf32: bool = True
    non_strict_weight_copy: bool = False


def settings_parser() -> argparse.ArgumentParser:
    """The contest script's options that `Settings` holds; the whole script's parser extends it."""
    parser = argparse.ArgumentParser(prog="--harness-args", add_help=False)
    parser.add_argument("--seed", type=int, default=Settings.seed)
    parser.add_argument("--accuracy-trials", type=int, default=Settings.accuracy_trials)
    parser.add_argument("--input-scale", type=float, default=Settings.input_scale)
    parser.add_argument("--rtol", type=float, default=Settings.rtol)
    parser.add_argument("--atol", type=float, default=Settings.atol)
    parser.add_argument(
        "--matmul-precision", choices=("highest", "high", "medium"), default=Settings.matmul_precision
    )
    parser.add_argument("--allow-tf32", action=argparse.BooleanOptionalAction, default=Settings.allow_tf32)
    parser.add_argument("--non-strict-weight-copy", action="store_true")
    return parser


def parse_settings(args: Sequence[str]) -> Settings:
    """Turn `--harness-args` into `Settings`.

    Raises ValueError for what is no option of the script's, and for values with which the gate means nothing.
    """
    parser = settings_parser()
    parser.error = _raise  # type: ignore[method-assign]
    settings = settings_of(parser.parse_args(args))
    if settings.accuracy_trials < 1:
        raise ValueError("argument --accuracy-trials: must be positive")
    for name in ("rtol", "atol"):
        if not 0 <= getattr(settings, name) < math.inf:
            raise ValueError(f"argument --{name}: must be a number from 0 on")
    return settings


def _raise(message: str) -> NoReturn:
    raise ValueError(message)


def settings_of(parsed: argparse.Namespace) -> Settings:
    """Take the `Settings` out of what `settings_parser`, or a parser that extends it, has read."""
    return Settings(**{f.name: getattr(parsed, f.name) for f in fields(Settings)})


@dataclass(frozen=True)
class Case:
    """One thing to measure. Its id is the same in every run and on every machine."""

    shape: Shape
    route: str = "auto"
    levers: dict[str, str] = field(default_factory=dict)
    dtype: str = "float32"
    protocol: str = "official"
    counts: Counts = OFFICIAL_COUNTS
    harness_args: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """`s08-sdpa-float32-official-<6 hex>`; the hex covers levers and, if any, harness arguments."""
        text = json.dumps([sorted(self.levers.items()), *self.harness_args])
        levers = hashlib.sha256(text.encode()).hexdigest()[:6]
        return f"{self.shape.key}-{self.route}-{self.dtype}-{self.protocol}-{levers}"


# Sustained on a T4, fitted to its published times of the baseline on shapes 6, 8 and 13 (within 1.5 x).
_FLOPS, _BYTES_PER_S, _MEMORY_BYTES = 5.7e12, 256e9, 16 * 10**9
_HOST_S_PER_LAYER = 36 * 12e-6  # that many operations a layer, each at its price on the host
_START_S = 15.0  # two processes that import torch and meet a card
_PASSES, _SCORE_PASSES = 30, 17  # how often a layer reads or writes an activation [B,S,D], a score [B,H,S,S]


def call_cost_s(shape: Shape, scores: bool = True) -> float:
    """Estimate the seconds of one forward of the baseline in float32 on a T4: the larger of host and card.

    Card: L·(8·T·D² + 4·T·D·F + 4·T·S·D) operations with T = B·S, and L·4·(30·T·D + 17·B·H·S²) bytes; the
    latter term is left out for a model that keeps no `scores` in memory.
    """
    tokens, width = shape.tokens, shape.d_model
    flop = tokens * width * (8 * width + 4 * shape.ffn_dim + 4 * shape.seq_len)
    elements = _PASSES * tokens * width + scores * _SCORE_PASSES * tokens * shape.heads * shape.seq_len
    return shape.layers * max(flop / _FLOPS + 4 * elements / _BYTES_PER_S, _HOST_S_PER_LAYER)


def cost_s(case: Case, seeds: int = 1) -> float:
    """Estimate the seconds that a case takes on a T4, its processes' start included; both sides cost alike.

    The gate calls each side once an input and weight seed; then come the warm and the timed calls. Where the
    baseline has no room, the oracle takes its time, and the candidate alone is called: at the same operations
    but for those that causality spares, and without the scores. What does not fit at all is refused at once.
    """
    shape, counts = case.shape, case.counts.shortened(case.shape)
    calls = counts.warmup + counts.rounds * counts.repeats
    if shape.io_bytes(case.dtype) > _MEMORY_BYTES:
        return 0.0
    if not shape.has_baseline(_MEMORY_BYTES):
        flop = shape.tokens * shape.d_model * (8 * shape.d_model + 4 * shape.ffn_dim + 2 * shape.seq_len)
        return _START_S + ORACLE_S + (seeds + calls) * shape.layers * flop / _FLOPS
    gate = seeds * parse_settings(case.harness_args).accuracy_trials
    return _START_S + 2 * (gate + calls) * call_cost_s(shape)


def parse_duration(text: str) -> float:
    """Turn `90s`, `9m`, `1.5h` or plain seconds into seconds. Raises ValueError for anything else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no duration: write 90s, 9m, 1.5h or plain seconds")
    return float(match[1]) * {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}[match[2]]


@dataclass(frozen=True)
class Extra:
    """One more row of a suite, outside its product; an empty route stands for each of the suite's."""

    shape: str
    route: str = ""
    dtype: str = "float32"
    levers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Suite:
    """A named list of cases: shapes x routes x lever settings in float32, and the extra rows.

    What the command line says of routes, levers, dtype and counts goes before what stands here.
    """

    name: str
    about: str
    shapes: tuple[Shape, ...]
    routes: tuple[str, ...] = ("auto",)
    lever_settings: tuple[dict[str, str], ...] = ({},)
    counts: Counts = OFFICIAL_COUNTS
    extras: tuple[Extra, ...] = ()


_ABLATED = ("s01", "s07", "s08", "s13")

SUITES = {
    suite.name: suite
    for suite in (
        Suite(
            "smoke",
            "small, every code path; a minute on two cores",
            TINY,
            routes=("eager", "sdpa"),
            counts=Counts(1, 5, 2),
            # compiling takes ten seconds a shape; not by its own name, as not every machine has a compiler
            extras=(Extra("t03", "fast"), Extra("t05", "sdpa", levers={"LEVER_CHUNK": "3"})),
        ),
        Suite(
            "official",
            "the contest's 14 shapes, and shape 14 in float16",
            OFFICIAL,
            extras=(Extra("s14", dtype="float16"),),
        ),
        Suite("official-small", "the 14 shapes scaled to a CPU", OFFICIAL_SMALL, counts=Counts(3, 20, 3)),
        Suite(
            "ablation",
            "every route, and every lever under `sdpa`, on 4 official shapes",
            tuple(SHAPES[key] for key in _ABLATED),
            routes=("eager", "sdpa", "compiled"),
            extras=tuple(
                Extra(key, "sdpa", levers={name: value})
                for name, value in (
                    ("LEVER_QKV", "separate"),
                    ("LEVER_RESIDUAL", "new"),
                    ("LEVER_CHUNK", "16"),
                )
                for key in _ABLATED
            ),
        ),
        Suite(
            "stress",
            "padding, odd sizes, hard inputs, half precision",
            STRESS,
            counts=Counts(2, 10, 2),
            extras=tuple(
                Extra(key, dtype=dtype)
                for dtype in ("float16", "bfloat16")
                for key in ("x03", "x09", "x17", "x18", "x19", "x20", "x21")
            ),
        ),
    )
}
''',
    'harness/simulated.py': r'''"""`FERRY_TEST_HARDWARE=FILE`: a file's answer in the place of the hardware's, for tests without any.

    {"cards": [{"index": 0, "name": "Tesla T4", "capability": "7.5", "memory_mib": 15360, "driver": "550"}],
     "torch": "2.9.0+cu128", "cuda": "12.8", "arches": ["sm_75", "sm_80"], "problem": "", "nvidia_smi": true,
     "internet": false}

`problem` is what torch says when it cannot use the cards, empty when it can; without `nvidia_smi` only torch
sees them. Everything has a default. Nothing but that answer is replaced: the cases run on this machine's CPU,
a process pair a card, and every device's name begins with `simulated`. Standard library only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.cards import Card
from harness.events import SIMULATED, Device, from_plain
from harness.plain import UNREADABLE
from harness.senses import TorchView

VARIABLE = "FERRY_TEST_HARDWARE"


class NoHardwareError(ValueError):
    """The file does not say what hardware to simulate; the text says why."""


@dataclass(frozen=True)
class Answers:
    """The file's content."""

    cards: tuple[Device, ...] = ()
    torch: str = "0.0"
    cuda: str = ""
    arches: tuple[str, ...] = ()
    problem: str = ""
    nvidia_smi: bool = True
    internet: bool = False


class Simulated:
    """Senses that know only what a file says."""

    simulated = True

    def __init__(self, said: Answers) -> None:
        cards = tuple(replace(card, name=f"{SIMULATED}{card.name}") for card in said.cards)
        self._said = replace(said, cards=cards)

    def gpus(self) -> list[Card]:
        """Return the file's cards, if nvidia-smi is to list them."""
        return [
            Card(
                card.index,
                card.name,
                card.memory_mib * 2**20,
                card.driver,
                capability=card.capability,
                simulated=True,
            )
            for card in (self._said.cards if self._said.nvidia_smi else ())
        ]

    def traces(self) -> bool:
        """Whether there are cards that only torch sees."""
        return bool(self._said.cards)

    def torch(self, cards: Sequence[Card]) -> TorchView:
        """Return what the file has torch say of these cards, of all when none is named."""
        said, indices = self._said, [card.index for card in cards]
        seen = tuple(card for card in said.cards if not cards or card.index in indices)
        return TorchView(said.torch, "", said.cuda, said.arches, seen, said.problem)

    def internet(self) -> bool:
        """Return the file's word: nothing is tried."""
        return self._said.internet


def simulated_hardware() -> Simulated | None:
    """Return the hardware that the environment names a file for, if it does. Raises NoHardwareError."""
    name = os.environ.get(VARIABLE)
    if not name:
        return None
    try:
        return Simulated(from_plain(Answers, json.loads(Path(name).read_text(encoding="utf-8"))))
    except OSError as problem:
        raise NoHardwareError(f"{VARIABLE}: cannot read {name}: {problem.strerror}") from problem
    except UNREADABLE as problem:
        raise NoHardwareError(f"{VARIABLE}: {name} describes no hardware: {problem}") from problem
''',
    'harness/sitting.py': r'''"""The driver's half of protocol `strict`: how many blocks, on which inputs, and which outputs are checked.

Standard library only. Whatever the candidate could use to prepare itself is drawn here, from the system's
entropy, and told when it is needed: seeds and orders when a block begins, and when the block's outputs are
all written, which of them the judge will see.
"""

from __future__ import annotations

import math
import secrets
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from harness.channel import (
    Block,
    Blocked,
    Build,
    Check,
    Done,
    Facts,
    Figures,
    Output,
    Repeat,
    Repeated,
    Rest,
    Show,
    Sprint,
    Sprinted,
    Timed,
    Warm,
    Warmed,
)
from harness.events import Samples, Terms
from harness.exchange import Exchange, NotHandedOverError
from harness.limits import CaseFailureError, Watch
from harness.process import Child
from harness.shapes import Case, parse_settings
from harness.verdict import is_hidden, refuse_disowned, refuse_overfull, refuse_remembered, refuse_wrong

SEED_BITS = 48
BLOCK_TURNS = 50
_CHECKED_BLOCKS = 8  # about so many blocks have outputs checked; where there are no more, all have
_CHECKED_OUTPUTS = 2  # of such a block and side
_MOST_TURNS = 20_000
_FEWEST_TURNS = 30  # before an interval means anything
_SHARE_OF_TIME = 0.6  # of what the case has left
_FURTHER_BLOCKS, _FURTHER_TURNS = 4, 12
_SPRINT_NS = 30_000_000  # short, so that some are not interrupted
_SPRINT_CALLS = 2000
_SPRINTS = 8  # at most
_REPEAT_NS = 1_000_000_000
_REPEAT_CALLS = (2, 20)


@dataclass
class Findings:
    """What the blocks of a case have shown; times in nanoseconds, by the driver's clock and the worker's.

    `walls` has the two walls and the sum of the samples for each block, `sprint` the calls, the driver's wall
    and the worker's span.
    """

    samples: list[Samples] = field(default_factory=list)
    walls: list[tuple[int, int, int]] = field(default_factory=list)
    sprint: tuple[int, int, int] = (0, 0, 0)
    late: dict[str, int] = field(default_factory=dict)
    turns: int = 0
    shared: int = 0
    changed: int = 0
    figures: list[Figures] = field(default_factory=list)
    cut: bool = False
    facts: Facts = field(default_factory=Facts)

    def timed(self) -> Timed:
        """Return the samples, with the facts that a row has of them."""
        return Timed(tuple(self.samples), self.told())

    def told(self) -> Facts:
        """Return the worker's facts with flags for what the driver has seen."""
        late = {f"late_{side}": f"{count}/{self.turns}" for side, count in sorted(self.late.items()) if count}
        shares = [figures.gate_share for figures in self.figures]
        flags = {
            "blocks": str(len(self.walls)),
            "timed_checked": str(len(shares)),
            **({"timed_gate_share": f"{max(shares):.6g}"} if shares else {}),
            **({"cut_short": f"{self.turns} turns"} if self.cut else {}),
            **late,
        }
        return replace(self.facts, flags=self.facts.flags | flags)


class Sitting:
    """One case's strict timing, in a conversation with the worker and, for the checks, the judge."""

    def __init__(
        self,
        case: Case,
        terms: Terms,
        worker: Child,
        judge: Child,
        watch: Watch,
        exchange: Exchange,
        sides: tuple[str, ...],
        oracle_s: float,
        host_is_device: bool,
    ) -> None:
        self._case = case
        self._host_is_device = host_is_device
        self._sides = sides
        self._oracle_s = oracle_s
        self._worker = worker
        self._judge = judge
        self._watch = watch
        self._exchange = exchange
        self._target_ci = terms.target_ci
        self._pairs: list[tuple[int, int]] = []
        self.found = Findings()

    def carry_out(self, learn: Callable[[Facts], None]) -> Timed:
        """Time blocks until there are enough samples or most of the case's time is spent.

        `learn` is told what there is to know, also when CaseFailureError is raised because an output of a
        timed call was not the candidate's to give, or wrong.
        """
        try:
            self._time_blocks()
            self._sprint()
            self._repeat()
        finally:
            learn(self.found.told())
        return self.found.timed()

    def once_more(self) -> tuple[Samples, ...]:
        """Return the samples of a few further blocks, to see whether what was odd was of the moment."""
        before = len(self.found.samples)
        for _ in range(_FURTHER_BLOCKS):
            self._block(min(_FURTHER_TURNS, self.found.turns))
        return tuple(self.found.samples[before:])

    def _time_blocks(self) -> None:
        end = time.monotonic() + _SHARE_OF_TIME * self._watch.left()
        counts = self._case.counts.shortened(self._case.shape)
        warmed = self._worker.ask(Warm(self._sides, counts.warmup), Warmed, self._watch)
        asked = counts.repeats * counts.rounds
        size = max(1, min(warmed.room, BLOCK_TURNS, -(-asked // 2)))
        while self._wants_more(asked) and not self.found.cut:
            left = min(size, asked - self.found.turns) if self.found.turns < asked else size
            self._have_checked(self._block(left), blocks=-(-asked // size))
            self.found.cut = time.monotonic() > end and self._wants_more(asked)

    def _wants_more(self, asked: int) -> bool:
        if not self._target_ci or "baseline" not in self._sides:
            return self.found.turns < asked
        if self.found.turns < _FEWEST_TURNS:
            return True
        return self.found.turns < _MOST_TURNS and half_width(self._pairs) > self._target_ci

    def _block(self, turns: int) -> Block:
        seed, order_seed = (secrets.randbits(SEED_BITS) for _ in range(2))
        block = Block(len(self.found.walls), seed, order_seed, turns, self._sides)
        start = time.monotonic_ns()
        blocked = self._worker.ask(block, Blocked, self._watch)
        wall_ns = time.monotonic_ns() - start
        self._take(blocked, wall_ns, turns)
        return block

    def _take(self, blocked: Blocked, wall_ns: int, turns: int) -> None:
        found = self.found
        by_side = {part.side: part.values for part in blocked.samples}
        found.samples += blocked.samples
        samples_ns = sum(map(sum, by_side.values()))
        found.walls.append((wall_ns, blocked.wall_ns, samples_ns))
        found.turns += turns
        found.shared += blocked.shared
        found.changed += blocked.changed
        for side, count in blocked.late.items():
            found.late[side] = found.late.get(side, 0) + count
        found.facts = blocked.facts
        other, own = self._sides[-2:][0], self._sides[-1]  # the baseline, or the other model to compare with
        self._pairs += zip(by_side[other], by_side[own], strict=False)
        refuse_overfull(samples_ns, wall_ns)
        refuse_disowned(blocked)

    def _have_checked(self, block: Block, blocks: int) -> None:
        """Draw lots, now that all outputs are written: whether the judge looks at this block, and at which.

        A block is looked at for certain when it is the first, or when the case has few.
        """
        if block.number and secrets.randbelow(max(1, blocks)) >= _CHECKED_BLOCKS:
            return
        self._judge.ask(Build(self._case, parse_settings(self._case.harness_args).seed), Done, self._watch)
        order = block.order()
        for side in self._sides:
            if not side.startswith("baseline"):
                places = [position for position, name in enumerate(order) if name == side]
                for position in secrets.SystemRandom().sample(places, min(_CHECKED_OUTPUTS, len(places))):
                    self._check(position, block.seed + position)
        self._judge.ask(Rest(), Done, self._watch)

    def _check(self, position: int, seed: int) -> None:
        output = self._worker.ask(Show(position, self._exchange.folders), Output, self._watch)
        check = Check(seed, taken(self._exchange, output), output.dtype, self._oracle_s)
        figures = self._judge.ask(check, Figures, self._watch)
        self.found.figures.append(figures)
        refuse_wrong(figures)

    def _sprint(self) -> None:
        """Have the candidate called back to back, and time that with a clock it cannot reach.

        Raises CaseFailureError when on a CPU that takes far longer than its samples say. So does the
        baseline's where the host has other work to do; it is asked in the same minute, several times.
        """
        lost: dict[str, float] = {}  # how many times as long as its samples a side took, at best
        for _ in range(_SPRINTS):
            for side in ("candidate", *(["baseline"] if "baseline" in self._sides else [])):
                lost[side] = min(self._sprinted(side), lost.get(side, math.inf))
            if not self._host_is_device or not is_hidden(lost["candidate"], lost.get("baseline", 1.0)):
                return
        words = f"calls in a row took {lost['candidate']:.3g} times as long as the samples say"
        raise CaseFailureError("disqualified", "clock", words)

    def _sprinted(self, side: str) -> float:
        """Return how many times as long as its samples say a side's calls take in a row."""
        sample_ns = self._median_ns(side)
        calls = min(max(1, round(_SPRINT_NS / sample_ns)), _SPRINT_CALLS)
        order = Sprint(side, calls, secrets.randbits(SEED_BITS))
        start = time.monotonic_ns()
        sprinted = self._worker.ask(order, Sprinted, self._watch)
        wall_ns = time.monotonic_ns() - start
        if side == "candidate":
            self.found.sprint = (calls, wall_ns, sprinted.span_ns)
        return wall_ns / (calls * sample_ns)

    def _repeat(self) -> None:
        """Have inputs come again, which they never do in a block; raise CaseFailureError if one is known.

        A call of seconds, which few can be had of, is spared.
        """
        if self._median_ns() > _REPEAT_NS:
            return
        least, most = _REPEAT_CALLS
        calls = min(max(least, round(_REPEAT_NS / self._median_ns())), most)
        order = Repeat("candidate", calls, secrets.randbits(SEED_BITS))
        repeated = self._worker.ask(order, Repeated, self._watch)
        refuse_remembered(repeated.fresh, repeated.again)

    def _median_ns(self, side: str = "candidate") -> float:
        medians = [statistics.median(part.values) for part in self.found.samples if part.side == side]
        return max(1.0, statistics.median(medians))


def taken(exchange: Exchange, output: Output) -> str:
    """Take an output over from the worker; return its path. Raises CaseFailureError for what is none."""
    try:
        return exchange.take(output.path)
    except NotHandedOverError as problem:
        raise CaseFailureError("disqualified", "forged_output", str(problem)) from problem


def half_width(pairs: Sequence[tuple[int, int]]) -> float:
    """Return half the width of a 95 % interval of the pairs' median ratio, as a share of it.

    By order statistics, with no assumption on the distribution: the ranks 0.98 sqrt(n) below and above the
    middle. A rough figure, to know when to stop; the host's bootstrap is the one that is shown.
    """
    ratios = sorted(a / b for a, b in pairs)
    middle, reach = (len(ratios) - 1) / 2, 0.98 * len(ratios) ** 0.5
    low, high = max(0, int(middle - reach)), min(len(ratios) - 1, int(middle + reach + 1))
    return (ratios[high] - ratios[low]) / 2 / statistics.median(ratios)
''',
    'harness/sizes.py': r'''"""The sizes of the problem, one row each. Standard library only; the host has them from `harness.shapes`.

The 14 official shapes are the contest's appendix: all causal, FFN width = model width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

DTYPE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}

# What the baseline holds at its worst moment: a score twice in float32, or once in a half type and twice more
# around its softmax; eight activations; and what masks take.
_BYTES_PER_SCORE, _BYTES_PER_ELEMENT = 10, 32
_USABLE_SHARE = 0.8  # of a device's memory: judge and worker have a context each, allocators lose some
_TILE = 128


@dataclass(frozen=True)
class Shape:
    """One problem size. B, S, D, H, F, L = batch, sequence, width, heads, FFN width, layers.

    `inputs` names what is done to the contest's random inputs, see `harness.inputs`.
    """

    key: str
    batch: int
    seq_len: int
    d_model: int
    heads: int
    ffn_dim: int
    layers: int
    causal: bool = True
    padding_ratio: float = 0.0
    inputs: str = "normal"

    @property
    def tokens(self) -> int:
        """Tokens of one forward, padding included."""
        return self.batch * self.seq_len

    def io_bytes(self, dtype: str) -> int:
        """The bytes of x and y, without which nothing can run."""
        return 2 * self.tokens * self.d_model * DTYPE_BYTES[dtype]

    def reference_bytes(self, dtype: str) -> int:
        """The least memory in bytes that the baseline needs: its [B,H,S,S] scores, x and y."""
        scores = self.batch * self.heads * self.seq_len**2
        return scores * DTYPE_BYTES[dtype] + self.io_bytes(dtype)

    def baseline_bytes(self, rows: int) -> int:
        """An estimate of the bytes that the baseline holds at its worst moment over `rows` sequences."""
        scores, activations = self.heads * self.seq_len**2, self.seq_len * self.d_model
        return rows * (scores * _BYTES_PER_SCORE + activations * _BYTES_PER_ELEMENT)

    def has_baseline(self, memory_bytes: int) -> bool:
        """Whether the baseline can run over one sequence at least; 0 is a memory of unknown size."""
        return not memory_bytes or self.baseline_bytes(1) <= memory_bytes * _USABLE_SHARE

    def truncated(self, memory_bytes: int) -> Shape:
        """Return one sequence of the greatest length at which the baseline fits.

        The length leaves the same rest as the full one when it is cut into tiles of 128.
        """
        longest = math.isqrt(int(memory_bytes * _USABLE_SHARE) // (self.heads * _BYTES_PER_SCORE))
        while longest > 1 and not replace(self, seq_len=longest).has_baseline(memory_bytes):
            longest = longest * 9 // 10
        if longest > _TILE:
            longest -= (longest - self.seq_len) % _TILE
        return replace(self, batch=1, seq_len=max(1, min(longest, self.seq_len)))


def _official(number: int, batch: int, d_model: int, heads: int, seq_len: int, layers: int = 4) -> Shape:
    return Shape(f"s{number:02d}", batch, seq_len, d_model, heads, d_model, layers)


OFFICIAL = (
    _official(1, 64, 128, 4, 128),
    _official(2, 1, 128, 4, 128),
    _official(3, 4, 128, 4, 128),
    _official(4, 16, 128, 4, 128),
    _official(5, 128, 128, 4, 128),
    _official(6, 10000, 128, 4, 128),
    _official(7, 64, 32, 4, 128),
    _official(8, 64, 1024, 4, 128),
    _official(9, 64, 128, 1, 128),
    _official(10, 64, 128, 2, 128),
    _official(11, 64, 128, 16, 128),
    _official(12, 64, 128, 4, 32),
    _official(13, 64, 128, 4, 1024),
    _official(14, 32, 1024, 16, 100000, layers=2),
)

# The same fourteen, each dimension cut until a laptop's CPU runs the whole suite in minutes.
# What makes a shape special (its batch, head count, width or length against the others) is kept.
OFFICIAL_SMALL = (
    Shape("c01", 8, 32, 64, 4, 64, 4),
    Shape("c02", 1, 32, 64, 4, 64, 4),
    Shape("c03", 2, 32, 64, 4, 64, 4),
    Shape("c04", 4, 32, 64, 4, 64, 4),
    Shape("c05", 16, 32, 64, 4, 64, 4),
    Shape("c06", 256, 32, 64, 4, 64, 4),
    Shape("c07", 8, 32, 32, 4, 32, 4),
    Shape("c08", 8, 32, 256, 4, 256, 4),
    Shape("c09", 8, 32, 64, 1, 64, 4),
    Shape("c10", 8, 32, 64, 2, 64, 4),
    Shape("c11", 8, 32, 64, 16, 64, 4),
    Shape("c12", 8, 8, 64, 4, 64, 4),
    Shape("c13", 8, 256, 64, 4, 64, 4),
    Shape("c14", 2, 512, 128, 16, 128, 2),
)

TINY = (
    Shape("t01", 2, 16, 32, 4, 32, 2),
    Shape("t02", 3, 17, 24, 3, 40, 1, causal=False),
    Shape("t03", 4, 19, 32, 2, 32, 2, padding_ratio=0.5),
    Shape("t04", 3, 16, 32, 4, 32, 1, causal=False, padding_ratio=0.5),
    Shape("t05", 8, 16, 32, 4, 32, 2),
)

# What a kernel is likely to get wrong: lengths, heads and batches that fit no tile, padding, and inputs that
# are hard on the arithmetic.
STRESS = (
    *(
        Shape(f"x{number:02d}", 16, 96, 64, 4, 64, 2, padding_ratio=ratio)
        for number, ratio in enumerate((0.1, 0.3, 0.5, 0.7, 0.9), start=1)
    ),
    *(
        Shape(f"x{number:02d}", 4, seq_len, 64, 4, 64, 2)
        for number, seq_len in enumerate((1, 31, 127, 129, 257), start=6)
    ),
    Shape("x11", 1, 65, 64, 4, 64, 2),
    Shape("x12", 4, 64, 96, 3, 96, 2),
    Shape("x13", 4, 64, 64, 8, 64, 2),
    Shape("x14", 4, 64, 120, 3, 72, 2),
    Shape("x15", 4, 64, 160, 2, 160, 2),
    Shape("x16", 8, 100, 64, 4, 64, 2, causal=False, padding_ratio=0.5),
    *(
        Shape(f"x{number:02d}", 8, 64, 128, 4, 128, 4, inputs=inputs)
        for number, inputs in enumerate(("small", "large", "offset", "outliers", "near_zero"), start=17)
    ),
    Shape("x22", 8, 64, 128, 4, 128, 4, padding_ratio=0.5, inputs="offset"),
)

SHAPES = {shape.key: shape for shape in (*OFFICIAL, *OFFICIAL_SMALL, *TINY, *STRESS)}
''',
    'harness/station.py': r'''"""One card and the two processes on it: a case's life, gate first, timing second. Standard library only."""

from __future__ import annotations

import secrets
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from harness import trials
from harness.cards import Card
from harness.channel import (
    Alone,
    Done,
    Enter,
    Facts,
    Load,
    Look,
    Looked,
    Time,
    Timed,
)
from harness.chatter import Relay
from harness.crew import Crew
from harness.environment import Setting, setting_of, thread_flags
from harness.events import CaseDone, Device, Profile, Samples, Terms
from harness.exchange import Exchange
from harness.gating import Gating
from harness.hardware import as_seen
from harness.limits import CaseFailureError, Limits, Watch
from harness.originals import Originals
from harness.process import ROOT
from harness.shapes import CHOOSING_ROUTES, FRESH_WORKER, Case, parse_settings
from harness.sitting import SEED_BITS, Sitting
from harness.telemetry import Monitor
from harness.verdict import SLOWED_ON_CPU, SLOWED_ON_GPU, TOLD, refuse_slowed, slowdown


class Station:
    """A card, its judge, and the worker of the moment. `say` takes lines of chatter for the log."""

    def __init__(
        self, card: Card, terms: Terms, limits: Limits, scratch: Path, say: Callable[[list[str]], None]
    ) -> None:
        self.card = card
        self._terms = terms
        self._limits = limits
        self._relay = Relay(f"gpu{card.index}| " if card.is_gpu else "cpu| ", say)
        self._exchange = Exchange(scratch)
        self._crew = Crew(card, scratch, self._exchange, self._relay)
        self._unloadable: dict[Setting, CaseFailureError] = {}
        self._before: tuple[Samples, ...] = ()  # of the worker's only case, before there was a candidate
        self._further: tuple[Samples, ...] = ()  # of the case that is timed, taken in doubt
        self._done = CaseDone("", card.index, "unknown")
        self._monitor = Monitor(card)
        self._originals = Originals(ROOT)

    def open(self, first: Case | None) -> Device:
        """Start the judge, and beside it the worker that `first` will need; return what the card is.

        Raises CaseFailureError when no case can ever be carried here: no torch, no working card.
        """
        judge = self._crew.hire_judge()
        if first is not None:
            self._crew.hire_worker(first)
        seen = as_seen(self.card, judge.welcome(Load(self._terms.own_harness), self._watch()))
        # A slice's size is not known before; without one nothing would be infeasible.
        self.card = replace(self.card, memory_bytes=self.card.memory_bytes or seen.memory_mib * 2**20)
        return seen

    def carry(self, case: Case, again: bool = False) -> tuple[tuple[Samples | Profile, ...], CaseDone]:
        """Take one case through its life and return how it ended; only a passed case has samples.

        `again`: compare the baseline with itself, too.
        """
        self._monitor.begin()
        self._done = CaseDone(case.id, self.card.index, "error", flags=self._first_flags(case))
        samples: tuple[Samples, ...] = ()
        profiles: tuple[Profile, ...] = ()
        try:
            watch = self._watch()
            self._refuse_infeasible(case)
            self._gather(case, watch)
            self._gate(case, watch)
            with self._monitor.timing(self._crew.pids):
                timed = self._time(case, watch, again)
            profiles = self._look(timed, watch)
            self._refuse_forger()
            self._judge_baseline(case, timed, watch)
            samples = timed.samples
            self._done = replace(
                self._done, status="passed", samples=sum(len(part.values) for part in samples)
            )
        except CaseFailureError as failure:
            self._fail(failure)
        except Exception as error:  # noqa: BLE001 (a fault of our own costs the case, too, and not the run)
            traceback.print_exc()
            self._crew.end_judge()
            words = f"the driver failed, its traceback is in the log: {error}"
            self._fail(CaseFailureError("error", f"driver:{type(error).__name__}", words))
        self._relay.end()
        restored = {"harness_restored": " ".join(touched)} if (touched := self._originals.restore()) else {}
        flags = {**self._done.flags, **self._monitor.flags(), **restored}
        self._done = replace(self._done, flags=flags)
        return (*samples, *profiles), self._done

    def _fail(self, failure: CaseFailureError) -> None:
        self._done = replace(self._done, status=failure.status, error_kind=failure.kind, error=failure.error)

    def tidy(self, case: Case) -> None:
        """After the case's end is told: part with whoever must not serve the next one."""
        if self._done.error_kind.startswith("judge:"):
            self._crew.end_judge()
        # On a GPU what has looked at the kernels stays in the process and slows every launch down.
        fresh = case.protocol in FRESH_WORKER or self.card.torch_device == "cuda"
        if fresh or self._done.status not in ("passed", "infeasible"):
            self._crew.end_worker()

    def close(self) -> None:
        """End both processes and remove what they have exchanged."""
        self._crew.end_worker()
        self._crew.end_judge()
        self._relay.end()
        self._exchange.close()

    # --- a case's life ------------------------------------------------------------------------------------

    def _refuse_infeasible(self, case: Case) -> None:
        # On a CPU the worker's output and the judge's share the memory.
        copies = 1 if self.card.torch_device == "cuda" else 2
        if words := trials.infeasible(case, self.card.memory_bytes, copies):
            raise CaseFailureError("infeasible", "memory", words)

    def _gather(self, case: Case, watch: Watch) -> None:
        """Have judge and worker ready for the case."""
        setting = setting_of(case)
        if setting in self._unloadable:
            raise self._unloadable[setting]
        judge, worker = self._crew.hire_judge(), self._crew.hire_worker(case)
        is_new = self._crew.put_to_use()
        judge.welcome(Load(self._terms.own_harness), watch)
        worker.welcome(Load(self._terms.own_harness), watch)
        if (
            is_new
            and case.protocol in FRESH_WORKER
            and not trials.baseline_lacks(case, self.card.memory_bytes)
        ):
            alone = Alone(case, parse_settings(case.harness_args).seed, secrets.randbits(SEED_BITS))
            self._before = worker.ask(alone, Timed, watch).samples
        elif is_new:
            self._before = ()
        try:
            if is_new:
                worker.ask(Enter(self._terms.model, self._terms.against), Done, watch)
        except CaseFailureError as failure:
            if worker.alive:  # it could say what is wrong: a second try would say the same
                self._unloadable[setting] = failure
            raise

    def _gate(self, case: Case, watch: Watch) -> None:
        """Let the judge compare every output with the reference. Raises CaseFailureError unless all pass."""
        judge, worker = self._crew.judge, self._crew.worker
        assert judge and worker

        def learn(facts: Facts) -> None:
            self._learn(facts)
            self._check_route(case)

        gating = Gating(worker, judge, self._exchange, watch, learn)
        if self._terms.against:
            self._gate_other(case, gating)
        tried = gating.carry_out(trials.plan(case, self._terms.seeds, self.card.memory_bytes))
        whole = [pair for pair in tried if not pair[0].truncated]
        flags = {**self._done.flags, **trials.flags_of(case, tried)}
        self._done = replace(self._done, gate=trials.gate_of(whole or tried), flags=flags)
        if words := trials.verdict(case, tried):
            raise CaseFailureError("failed_gate", "gate", words)

    def _gate_other(self, case: Case, gating: Gating) -> None:
        """The same for the model that the candidate is compared with: a wrong one's time means nothing."""
        tried = gating.carry_out(trials.plan(case, 1, self.card.memory_bytes), "against")
        gate, flags = trials.gate_of(tried), dict(self._done.flags)
        flags |= {
            "against": self._terms.against_name.replace(";", ","),
            "against_gate_share": f"{gate.gate_share:.6g}",
        }
        self._done = replace(self._done, flags=flags)
        if words := trials.verdict(case, tried):
            raise CaseFailureError(
                "failed_gate", "against", f"the model that was to be compared with: {words}"
            )

    def _time(self, case: Case, watch: Watch, again: bool) -> Timed:
        judge, worker = self._crew.judge, self._crew.worker
        assert judge and worker
        lacks = trials.baseline_lacks(case, self.card.memory_bytes)
        again = again and not lacks
        asked = {"baseline": not lacks, "baseline_again": again, "against": self._terms.against}
        sides = (*(side for side, wanted in asked.items() if wanted), "candidate")
        if case.protocol == "strict":
            oracle_s = trials.oracle_s_of_timed(case, self.card.memory_bytes)
            places = (worker, judge, watch, self._exchange)
            sitting = Sitting(case, self._terms, *places, sides, oracle_s, not self.card.is_gpu)
            timed = sitting.carry_out(self._learn)
            in_doubt = slowdown((*self._before, *timed.samples)) > self._most_slowed
            self._further = sitting.once_more() if in_doubt else ()
        else:
            timed = worker.ask(Time(again, not lacks), Timed, watch)
            self._learn(timed.facts)
        self._check_route(case)
        return replace(timed, samples=(*self._before, *timed.samples))

    def _refuse_forger(self) -> None:
        if self._relay.forged:
            words = "the candidate printed a line with the marker of the driver's events"
            raise CaseFailureError("disqualified", "forged_event", words)

    def _judge_baseline(self, case: Case, timed: Timed, watch: Watch) -> None:
        """Compare the baseline's times with those before there was a candidate, and in doubt with new ones.

        Raises CaseFailureError when the candidate has slowed it. Only `strict` can tell: under `official`
        launches are in the times, and whatever else the process has to do.
        """
        strict = case.protocol == "strict"
        samples = (*timed.samples, *self._further) if strict else timed.samples
        ratio = slowdown(samples)
        if ratio > self._most_slowed and strict:
            ratio = slowdown(samples, self._time_alone(case, watch))
        if ratio > TOLD:
            self._done = replace(self._done, flags={**self._done.flags, "baseline_slower": f"{ratio:.2f}x"})
        if strict:
            refuse_slowed(ratio, self._most_slowed)

    @property
    def _most_slowed(self) -> float:
        return SLOWED_ON_GPU if self.card.is_gpu else SLOWED_ON_CPU

    def _time_alone(self, case: Case, watch: Watch) -> tuple[Samples, ...]:
        """Time the baseline in a new process, when the candidate and all that it has started are dead."""
        self._crew.end_worker()
        worker = self._crew.hire_worker(case)
        worker.welcome(Load(self._terms.own_harness), watch)
        alone = Alone(case, parse_settings(case.harness_args).seed, secrets.randbits(SEED_BITS))
        return worker.ask(alone, Timed, watch).samples

    def _look(self, timed: Timed, watch: Watch) -> tuple[Profile, ...]:
        """Let the worker see what really ran. The case is timed: nothing that fails here can cost it."""
        assert self._crew.worker
        try:
            looked = self._crew.worker.ask(Look(timed.call_ms(), self._terms.profile), Looked, watch)
        except CaseFailureError as failure:
            told = " ".join(failure.error.split()).replace(";", ",")[-200:]
            self._done = replace(self._done, flags={**self._done.flags, "looked": f"failed: {told}"})
            self._crew.end_worker()
            return ()
        flags = {**looked.flags, **self._done.flags}  # what is known already is not the candidate's to change
        self._done = replace(self._done, attention_backend=looked.attention_backend, flags=flags)
        return looked.profiles

    def _learn(self, facts: Facts) -> None:
        seen = {**vars(facts), "flags": {**self._done.flags, **facts.flags}}
        self._done = replace(self._done, **seen)

    def _check_route(self, case: Case) -> None:
        ran, note = self._done.route_ran, self._done.route_note
        if case.route not in CHOOSING_ROUTES and ran != case.route:
            what = f"{ran} ran" if ran else "the model does not say that it ran"
            words = f"route {case.route} was asked for by name, {what}{note and ': ' + note}"
            raise CaseFailureError("error", "route", words)

    def _first_flags(self, case: Case) -> dict[str, str]:
        counts = case.counts.shortened(case.shape)
        short = {"timed_short": f"{counts.warmup}/{counts.repeats}/{counts.rounds}"}
        need = trials.baseline_lacks(case, self.card.memory_bytes)
        unable = {"baseline": f"not timed, its scores need {need} bytes"}
        mismatch = {"mismatch": self.card.mismatch.replace(";", ",")}
        return {
            **thread_flags(self.card),
            "isolated": self._crew.isolated,
            **(short if counts != case.counts else {}),
            **(unable if need else {}),
            **(mismatch if self.card.mismatch else {}),
        }

    def _watch(self) -> Watch:
        return Watch(self._limits, self._terms.case_timeout_s)
''',
    'harness/stopwatch.py': r'''"""How one call is timed under `strict`: cold caches, and a device that does not wait for the host.

On CUDA a call is enqueued like this, all of it on one stream:

    spin | flush | start event | the call | end event | copy of the output

The flush writes over the whole second-level cache. While the device spins, the host enqueues the rest, so
the pair of events holds the device's work for the call and not the host's launches. Where the call itself
waits for the device, or takes the host longer than the spin, the host's time is in the pair again, and the
call is counted as late.

A candidate can replace what it finds in torch's modules. What this module needs is therefore taken when it is
imported, before there is a candidate, and from torch's C classes, which Python code cannot alter.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

Call = Callable[[], Tensor]

now_ns = time.perf_counter_ns  # for its users, too, to take at import
_CudaEvent: Any = getattr(torch._C, "_CudaEventBase", None)
_cuda_sleep: Any = getattr(torch._C, "_cuda_sleep", None)
_cuda_synchronize: Any = getattr(torch._C, "_cuda_synchronize", None)
_on_stream = torch.cuda.stream

_UNKNOWN_CACHE = 32 << 20
_MOST_FLUSHED = 64 << 20  # on a CPU, where writing costs more than most calls
_CALIBRATION_CYCLES = 2_000_000
_SHORTEST_SPIN_MS = 0.1
_LONGEST_SPIN_MS = 10.0
_LEARNING_CALLS = 3


class HostWatch:
    """Times calls on a CPU by its clock, each after a write over the last-level cache."""

    def __init__(self) -> None:
        self._flushed = torch.zeros(min(2 * _last_level_cache(), _MOST_FLUSHED) // 4, dtype=torch.float32)
        self._ns: list[int] = []

    def wait(self) -> None:
        """Wait for the device: there is none to wait for."""

    def stream(self) -> AbstractContextManager[object]:
        """Return where calls are to be enqueued: there is one place only."""
        return contextlib.nullcontext()

    def learn(self, call: Call) -> None:
        """Nothing is to be learned of a call: its host is the device."""

    def time(self, call: Call) -> tuple[Tensor, bool]:
        """Return the call's output, and that the host's time is not at issue."""
        self._flushed.add_(1.0)
        start = now_ns()
        output = call()
        self._ns.append(now_ns() - start)
        return output, False

    def taken(self) -> list[int]:
        """Return the times since the last call of this, in nanoseconds, in order."""
        ns, self._ns = self._ns, []
        return ns

    def span(self, calls: Callable[[], None]) -> int:
        """Return how long several calls in a row take, in nanoseconds."""
        start = now_ns()
        calls()
        return now_ns() - start


class CudaWatch:
    """Times calls on the current CUDA device, on the stream that is current now."""

    def __init__(self, device: torch.device) -> None:
        cache = getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0) or _UNKNOWN_CACHE
        self._flushed = torch.zeros(2 * cache // 4, dtype=torch.float32, device=device)
        self._stream = torch.cuda.current_stream(device)
        self._pairs: list[tuple[Any, Any]] = []
        self._spin_ms = _SHORTEST_SPIN_MS
        self._cycles_per_ms = self._calibrated()

    def _calibrated(self) -> float:
        """Spin twice, the first time to warm up, and see how long it takes."""
        ms = 1.0
        for _ in range(2):
            start, end = _event(), _event()
            start.record(self._stream)
            _cuda_sleep(_CALIBRATION_CYCLES)
            end.record(self._stream)
            _cuda_synchronize()
            ms = start.elapsed_time(end)
        return float(_CALIBRATION_CYCLES / max(ms, 1e-3))

    def wait(self) -> None:
        """Wait for all that the device has to do, on all streams."""
        _cuda_synchronize()

    def stream(self) -> AbstractContextManager[object]:
        """Return a context in which the stream of the timing is the current one, whoever has changed it."""
        return _on_stream(self._stream)

    def learn(self, call: Call) -> None:
        """Call a few times in `stream()`; from now on the spin outlasts the host's work for it, in bounds."""
        host_ms = []
        for _ in range(_LEARNING_CALLS):
            self.wait()
            start = now_ns()
            call()
            host_ms.append((now_ns() - start) / 1e6)
        self.wait()
        self._spin_ms = min(max(self._spin_ms, 1.5 * sorted(host_ms)[_LEARNING_CALLS // 2]), _LONGEST_SPIN_MS)

    def time(self, call: Call) -> tuple[Tensor, bool]:
        """Return the output of a call in `stream()`, and whether the device may have waited for the host."""
        start, end = _event(), _event()
        _cuda_sleep(int(self._spin_ms * self._cycles_per_ms))
        self._flushed.add_(1.0)
        start.record(self._stream)
        output = call()
        is_late = bool(start.query())
        end.record(self._stream)
        self._pairs.append((start, end))
        return output, is_late

    def taken(self) -> list[int]:
        """Wait, and return the times since the last call of this, in nanoseconds, in order."""
        self.wait()
        pairs, self._pairs = self._pairs, []
        return [round(start.elapsed_time(end) * 1e6) for start, end in pairs]

    def span(self, calls: Callable[[], None]) -> int:
        """Return the time between events around several calls in a row in `stream()`, in nanoseconds."""
        start, end = _event(), _event()
        self.wait()
        start.record(self._stream)
        calls()
        end.record(self._stream)
        self.wait()
        return int(start.elapsed_time(end) * 1e6)


Watch = HostWatch | CudaWatch


def watch_of(device: torch.device) -> Watch:
    """Return how calls on the device are timed."""
    return CudaWatch(device) if device.type == "cuda" else HostWatch()


def _event() -> Any:
    return _CudaEvent(enable_timing=True, blocking=False, interprocess=False)


def _last_level_cache() -> int:
    """Return the bytes of the largest cache of the first core."""
    sizes = [_UNKNOWN_CACHE // 4]
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = path.read_text(encoding="ascii").strip()
        if text.endswith("K") and text[:-1].isdecimal():
            sizes.append(int(text[:-1]) << 10)
    return max(sizes)
''',
    'harness/strict.py': r'''"""The worker's half of protocol `strict`: what is called, on what, in which order, and what becomes of it.

In a block the sides take turns call by call, in an order drawn anew for every turn. Each call has an input of
its own, drawn from the block's seed and the call's position, in memory that other inputs have had before.
Right after a candidate's call its output is copied on the same stream: what the call had not finished by then
is not in the copy. The output itself is kept, too; at the block's end the two must be the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from harness import observing, switches
from harness.channel import Block, Blocked, Repeat, Repeated, Sprint, Sprinted, Warmed
from harness.drawing import Drawn
from harness.events import Samples
from harness.plain import pack_ns
from harness.serving import RefusedError
from harness.stopwatch import Watch, now_ns

ALONE = "baseline_before"
BASELINES = frozenset({"baseline", "baseline_again", ALONE})
_ALONE_NS = 1_000_000_000  # about so long is the baseline timed before there is a candidate
_MOST_ALONE = 100
_LONG_NS = 100_000_000  # of so long a call the host's share is none
_SLOTS = 3  # of memory that inputs take in turns
_SHARE_OF_MEMORY = 4  # a quarter of what is free may hold a block's inputs and outputs
_ROOM_ON_CPU = 512 << 20
_WARM_SEED = 1 << 49  # above every block's seed

Room = Callable[[], AbstractContextManager[object]]


@dataclass
class Side:
    """One model, the process-wide switches that it runs under, and what puts its modules in place."""

    model: nn.Module
    switches: switches.State
    room: Room = contextlib.nullcontext


@dataclass
class Kept:
    """What a call returned, and the copy that was taken right after it; a baseline's copy is let go.

    A baseline's outputs are kept, too, so that no side finds memory that it has just had again.
    """

    output: Tensor
    copy: Tensor | None


class Strict:
    """One case's strict timing. `sides` are by name: `baseline`, `candidate`, perhaps `against`."""

    def __init__(self, drawn: Drawn, sides: Mapping[str, Side], watch: Watch) -> None:
        self._drawn = drawn
        self._sides = dict(sides)
        self._watch = watch
        self._slots: list[tuple[Tensor, Tensor]] = []
        self._seeds: list[int] = []  # of what the slots hold
        self._drawings = 0
        self._kept: dict[int, Kept] = {}

    # --- before the first block ---------------------------------------------------------------------------

    def warm(self, calls: int) -> Warmed:
        """Call every side until it is warm, and see how large a block may be and how long a turn takes."""
        turn_ns = 0
        for name in self._sides:
            for number in range(max(1, calls)):
                start = now_ns()
                self._call(name, _WARM_SEED + number, lambda call: call())
                self._watch.wait()
            call_ns = now_ns() - start  # of the last call, which is the warmest
            turn_ns += call_ns
            if call_ns < _LONG_NS:
                self._call(name, _WARM_SEED, self._learned)
        half = _room(self._drawn.device) // 2  # for inputs, and for outputs
        if _SLOTS * self._output_bytes <= half:
            self._slots = [self._drawn.inputs(_WARM_SEED) for _ in range(_SLOTS)]
            self._seeds = [_WARM_SEED] * _SLOTS
        return Warmed(max(1, half // (_tensors_kept(self._sides) * self._output_bytes)), turn_ns)

    def _learned(self, call: Callable[[], Tensor]) -> Tensor:
        self._watch.learn(call)
        return call()

    @property
    def _output_bytes(self) -> int:
        shape = self._drawn.case.shape
        return shape.tokens * shape.d_model * self._drawn.dtype.itemsize

    # --- a block ------------------------------------------------------------------------------------------

    def block(self, order: Block) -> Blocked:
        """Time a block's calls; its outputs are kept until the next one."""
        self._kept.clear()
        turns = order.order()
        late: dict[str, int] = dict.fromkeys(order.sides, 0)
        self._reserve(turns)
        start = now_ns()
        for position, name in enumerate(turns):
            late[name] += self._timed(name, position, order.seed + position)
        ns = self._watch.taken()
        wall_ns = now_ns() - start
        switches.put(self._sides[order.sides[-1]].switches)  # as if nobody had put them back in between
        samples = tuple(
            Samples(self._drawn.case.id, name, order.number, 0, *_packed(ns, turns, name))
            for name in order.sides
        )
        self._refuse_spoiled_inputs()
        shared, changed = self._disowned()
        return Blocked(samples, wall_ns, late, shared, changed)

    def _reserve(self, turns: list[str]) -> None:
        """Have torch get the memory that the block will keep now: getting it stops the device."""
        d = self._drawn
        shape = (d.case.shape.batch, d.case.shape.seq_len, d.case.shape.d_model)
        held = [torch.empty(shape, dtype=d.dtype, device=d.device) for _ in range(_tensors_kept(turns))]
        del held

    def _timed(self, name: str, position: int, seed: int) -> bool:
        """Time one call. Return whether the device had to wait for the host."""
        late = False

        def timed(call: Callable[[], Tensor]) -> Tensor:
            nonlocal late
            output, late = self._watch.time(call)
            copy = output.clone()
            self._kept[position] = Kept(output, None if name in BASELINES else copy)
            return output

        self._call(name, seed, timed)
        return late

    def _call(self, name: str, seed: int, how: Callable[[Callable[[], Tensor]], Tensor]) -> None:
        """Call a side on the input of a seed, under its own switches, and remember how it left them."""
        side = self._sides[name]
        switches.put(side.switches)
        with self._watch.stream():
            x, mask = self._input(seed)
            with side.room(), torch.inference_mode():
                observing.checked(how(lambda: side.model(x, mask)), x)
        if name not in BASELINES:
            side.switches = switches.read()

    def _input(self, seed: int) -> tuple[Tensor, Tensor]:
        """Draw an input; where there is memory for it, into one of a few places that take turns."""
        x, mask = self._drawn.inputs(seed)
        if not self._slots:
            return x, mask
        place = self._drawings % len(self._slots)
        slot = self._slots[place]
        self._seeds[place] = seed
        self._drawings += 1
        slot[0].copy_(x)
        slot[1].copy_(mask)
        return slot

    def _refuse_spoiled_inputs(self) -> None:
        """Raise RefusedError when the block's last inputs are not what was drawn any more."""
        for slot, seed in zip(self._slots, self._seeds, strict=True):
            if not all(map(same_bits, slot, self._drawn.inputs(seed))):
                raise RefusedError("disqualified", "input_changed", "an input was changed by a timed call")

    def _disowned(self) -> tuple[int, int]:
        """Return how many outputs share memory with another or with an input, and how many have changed."""
        handed = [kept for kept in self._kept.values() if kept.copy is not None]
        shared = overlapping([kept.output for kept in handed], [x for x, _ in self._slots])
        return shared, sum(not same_bits(kept.output, kept.copy) for kept in handed if kept.copy is not None)

    # --- after it -----------------------------------------------------------------------------------------

    def output(self, position: int) -> Tensor:
        """Return the copy of the output of the call at a position of the last block."""
        copy = self._kept[position].copy
        assert copy is not None
        return copy

    def sprint(self, order: Sprint) -> Sprinted:
        """Run one side's calls back to back; whoever asked has a clock of its own."""
        self._kept.clear()
        side = self._sides[order.side]
        seeds = range(order.seed, order.seed + max(1, len(self._slots)))
        inputs = [self._input(seed) for seed in seeds]
        switches.put(side.switches)

        def run() -> None:
            with self._watch.stream(), side.room(), torch.inference_mode():
                for number in range(order.calls):
                    side.model(*inputs[number % len(inputs)])

        return Sprinted(self._watch.span(run))

    def repeat(self, order: Repeat) -> Repeated:
        """Time calls on new inputs and on one input that comes again and again, in turns."""
        self._kept.clear()
        for number in range(order.calls + 1):
            for seed in (order.seed + 1 + number, order.seed):
                self._call(order.side, seed, lambda call: self._watch.time(call)[0])
        ns = self._watch.taken()[2:]  # the first time, no input has been seen before
        return Repeated(tuple(ns[::2]), tuple(ns[1::2]))


def alone(drawn: Drawn, baseline: Side, watch: Watch, seed: int) -> tuple[Samples, ...]:
    """Return times of the baseline before there is a candidate: as many as a second and the memory hold."""
    sitting = Strict(drawn, {ALONE: baseline}, watch)
    warmed = sitting.warm(3)
    turns = min(max(3, round(_ALONE_NS / max(1, warmed.turn_ns))), _MOST_ALONE, warmed.room)
    return sitting.block(Block(0, seed, seed, turns, (ALONE,))).samples


def _tensors_kept(sides: Iterable[str]) -> int:
    """Return how many tensors of an output's size the calls of these sides leave to be kept."""
    return sum(1 if name in BASELINES else 2 for name in sides)


def overlapping(outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> int:
    """Return how many outputs have memory in common with another output or with an input.

    Parts of one allocation that do not touch each other are each a caller's own.
    """
    begins = sorted((*_span(tensor), number) for number, tensor in enumerate((*outputs, *inputs)))
    touched: set[int] = set()
    last_end, last = 0, -1
    for begin, end, number in begins:
        if begin < last_end:
            touched |= {number, last}
        if end > last_end:
            last_end, last = end, number
    return len([number for number in touched if number < len(outputs)])


def _span(tensor: Tensor) -> tuple[int, int]:
    """Return the addresses of a tensor's first byte and after its last."""
    reach = sum((size - 1) * abs(stride) for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    begin = tensor.data_ptr()
    return begin, begin + (reach + 1) * tensor.element_size()


def same_bits(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors of one shape and dtype hold the same bits, nan or not."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    width = {2: torch.int16, 4: torch.int32, 8: torch.int64}.get(a.element_size(), torch.uint8)
    return torch.equal(a.contiguous().view(width), b.contiguous().view(width))


def _packed(ns: list[int], turns: list[str], name: str) -> tuple[str, str]:
    own = [position for position, turn in enumerate(turns) if turn == name]
    return pack_ns([ns[position] for position in own]), pack_ns(own)


def _room(device: torch.device) -> int:
    """Return how many bytes a block's inputs and outputs may take."""
    if device.type != "cuda":
        return _ROOM_ON_CPU
    free = torch.cuda.mem_get_info(device)[0]
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(free + cached) // _SHARE_OF_MEMORY
''',
    'harness/sweep.py': r'''"""All cases of an order dealt to all cards. Standard library only."""

from __future__ import annotations

import datetime
import math
import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from harness.cards import Card
from harness.carried import Carried
from harness.cores import keep_to
from harness.events import (
    FINAL_STATUSES,
    CaseDone,
    Device,
    End,
    Note,
    Order,
    Plan,
    Planned,
    Profile,
    Samples,
    Started,
)
from harness.hardware import Machine, as_seen
from harness.limits import WORDS, CaseFailureError, Limits
from harness.outlet import Outlet
from harness.process import none_alive
from harness.shapes import FRESH_WORKER, Case, cost_s
from harness.station import Station

GRACE_S = 4.0  # for the cards' threads to cut their cases; shorter than the deadline's margin


class Sweep:
    """One attempt at an order: it announces, deals, and closes with a count of every planned case."""

    def __init__(self, order: Order, carried: Carried, limits: Limits, outlet: Outlet) -> None:
        self._order = order
        self._carried = carried
        self._limits = limits
        self._outlet = outlet
        self._waiting = deque(case for case in order.cases if case.id not in carried.final)
        self._wrong: Machine | None = None  # what came in the place of what was asked for
        self._statuses = dict(carried.final)
        self._devices: set[int] = set()
        self._hopeless: list[tuple[Card, CaseFailureError]] = []  # cards that can carry no case, and why
        self._again = compared_with_themselves(order.cases)
        self._lock = threading.Lock()

    @property
    def passed(self) -> bool:
        """Whether every case has passed."""
        return all(self._statuses.get(case.id) == "passed" for case in self._order.cases)

    def announce(self) -> None:
        """Repeat what is carried over, then say what is planned, before anything can go wrong."""
        self._outlet.replay(self._carried.lines)
        plan = Plan(
            self._carried.ref,
            self._order.terms,
            planned=len(self._order.cases),
            started_at=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            carried=len(self._carried.final),
            deadline_s=self._limits.seconds,
            key_sha256=self._outlet.seal.sha256,
        )
        self._outlet.emit(plan, *(Planned(index, case) for index, case in enumerate(self._order.cases)))
        if self._carried.damaged:
            self._outlet.emit(
                Note(f"{self._carried.damaged} damaged lines of the earlier attempt are left out")
            )

    def refuse_wrong_accelerator(self, machine: Machine) -> bool:
        """Tell what was found; whether it is not what was asked for, so that no case will run."""
        self._outlet.emit(machine.record)
        if not machine.record.finding or self._order.terms.allow_mismatch or self._limits.reason():
            return False
        self._wrong = machine
        for card in machine.came:
            self._introduce(as_seen(card))
        return True

    def carry_out(self, cards: Sequence[Card], scratch: Path) -> str:
        """Run the waiting cases, one thread a card, and return why it ended: `complete` or what else.

        One card takes them in the plan's order. Several take the longest first, so that none works alone
        at the end.
        """
        if len(cards) > 1:
            self._waiting = deque(longest_first(self._waiting, self._order.terms.seeds))
        threads = [
            threading.Thread(target=self._serve, args=(card, scratch / f"card{number}"), daemon=True)
            for number, card in enumerate(cards[: len(self._waiting)])
        ]
        for thread in threads:
            thread.start()
        self._await(threads)
        reason = self._limits.reason()
        if not reason and self._hopeless and len(self._hopeless) == len(threads):
            self._give_up_waiting()
        ended = [case for case in self._order.cases if self._statuses.get(case.id) in FINAL_STATUSES]
        return "complete" if len(ended) == len(self._order.cases) else reason or "driver_error"

    def close(self, reason: str) -> None:
        """Say of every case without an end that it was not run, and why; then end the attempt."""
        words, index = WORDS.get(reason, "the driver failed, its traceback is in the log"), -1
        if self._wrong:
            words, index = f"{words}: {self._wrong.record.finding}", self._wrong.came[0].index
        for case in self._order.cases:
            self._tell(CaseDone(case.id, index, "not_run", reason, f"not started: {words}"))
        counts = dict(Counter(self._statuses.values()))
        key = self._outlet.seal.reveal() if none_alive() else ""
        self._outlet.emit(End(reason, counts, round(self._limits.elapsed(), 3), key), last=True)

    # --- one thread a card --------------------------------------------------------------------------------

    def _serve(self, card: Card, scratch: Path) -> None:
        keep_to(card.cores)
        scratch.mkdir(parents=True, exist_ok=True)
        station = Station(card, self._order.terms, self._limits, scratch, self._outlet.say)
        try:
            self._introduce(station.open(first=next(iter(tuple(self._waiting)), None)))
            for case in self._deal():
                self._outlet.emit(Started(case.id, card.index))
                samples, done = station.carry(case, case.id in self._again)
                self._tell(*samples, done)
                station.tidy(case)
        except CaseFailureError as failure:
            self._introduce(as_seen(card))
            if (
                failure.status != "not_run"
            ):  # else it is the run that ends, and nothing is wrong with the card
                self._hopeless.append((card, failure))
                self._outlet.emit(Note(f"{card.name} takes no case: {failure.error.splitlines()[-1]}"))
        finally:
            station.close()

    def _deal(self) -> Iterator[Case]:
        while not self._limits.reason():
            try:
                case = self._waiting.popleft()
            except IndexError:
                return
            yield case

    def _introduce(self, device: Device) -> None:
        with self._lock:
            if device.index in self._devices:
                return
            self._devices.add(device.index)
        self._outlet.emit(device)

    def _tell(self, *bodies: Samples | Profile | CaseDone) -> None:
        """Write a case's samples and its end in one go, once, and remember the status."""
        done = bodies[-1]
        assert isinstance(done, CaseDone)
        with self._lock:
            if done.case_id in self._statuses:  # a card that was no longer waited for comes late
                return
            self._statuses[done.case_id] = done.status
            self._outlet.emit(*bodies)

    # --- the end ------------------------------------------------------------------------------------------

    def _await(self, threads: list[threading.Thread]) -> None:
        """Wait for the cards' threads; once the run must end, for a short while only."""
        for thread in threads:
            while thread.is_alive() and not self._limits.overdue(GRACE_S):
                thread.join(0.1)

    def _give_up_waiting(self) -> None:
        """No card can carry any case: each gets the reason."""
        card, failure = self._hopeless[0]
        while self._waiting:
            case = self._waiting.popleft()
            self._tell(CaseDone(case.id, card.index, failure.status, failure.kind, failure.error))


def longest_first(cases: Iterable[Case], seeds: int) -> list[Case]:
    """Return the cases by their estimated cost, equal ones as they were."""
    # What a T4 refuses at once is the longest of all where it fits.
    return sorted(cases, key=lambda case: cost_s(case, seeds) or math.inf, reverse=True)


def compared_with_themselves(cases: Sequence[Case]) -> frozenset[str]:
    """Return the ids of cases of three shapes, spread: there the baseline is compared with itself, too."""
    first: dict[str, str] = {}
    for case in cases:
        if case.protocol in FRESH_WORKER and case.shape.key != "s14":
            first.setdefault(case.shape.key, case.id)
    ids = list(first.values())
    return frozenset((*ids[:1], *ids[len(ids) // 2 :][:1], *ids[-1:]))
''',
    'harness/switches.py': r'''"""Torch's process-wide switches, so that each side of a comparison runs under its own.

A candidate may set them, at import, in its constructor or in a call; the baseline must not run any slower or
coarser for it. The order of the table is the order of setting: a precision by its old name comes before the
same one by its new name, which has the last word.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import torch

State = Mapping[str, Any]

_MISSING = (AttributeError, RuntimeError, TypeError)  # an older torch; old and new ways of setting mixed


def _attribute(path: str) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    """Return how to read and set what stands at a dotted path under `torch.backends`."""
    *holders, name = path.split(".")

    def holder() -> Any:
        found: Any = torch.backends
        for step in holders:
            found = getattr(found, step)
        return found

    return lambda: getattr(holder(), name), lambda value: setattr(holder(), name, value)


_SWITCHES: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
    "matmul_precision": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    **{
        path: _attribute(path)
        for path in (
            "cuda.matmul.allow_tf32",
            "cudnn.allow_tf32",
            "cuda.matmul.fp32_precision",
            "cudnn.conv.fp32_precision",
            "cudnn.rnn.fp32_precision",
            "mkldnn.matmul.fp32_precision",
            "cuda.matmul.allow_fp16_reduced_precision_reduction",
            "cuda.matmul.allow_bf16_reduced_precision_reduction",
            "cuda.matmul.allow_fp16_accumulation",
            "cudnn.enabled",
            "cudnn.benchmark",
            "cudnn.deterministic",
        )
    },
    "deterministic": (
        torch.are_deterministic_algorithms_enabled,
        torch.use_deterministic_algorithms,
    ),
    "flash_sdp": (torch.backends.cuda.flash_sdp_enabled, torch.backends.cuda.enable_flash_sdp),
    "mem_efficient_sdp": (
        torch.backends.cuda.mem_efficient_sdp_enabled,
        torch.backends.cuda.enable_mem_efficient_sdp,
    ),
    "math_sdp": (torch.backends.cuda.math_sdp_enabled, torch.backends.cuda.enable_math_sdp),
    "cudnn_sdp": (torch.backends.cuda.cudnn_sdp_enabled, torch.backends.cuda.enable_cudnn_sdp),
    "threads": (torch.get_num_threads, torch.set_num_threads),
    "default_dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "grad": (torch.is_grad_enabled, torch._C._set_grad_enabled),
    "autocast": (
        lambda: torch.is_autocast_enabled("cuda"),
        lambda on: torch.set_autocast_enabled("cuda", on),
    ),
    "cpu_autocast": (
        lambda: torch.is_autocast_enabled("cpu"),
        lambda on: torch.set_autocast_enabled("cpu", on),
    ),
}


def read() -> State:
    """Return the state of every switch that this torch has and can read."""
    state = {}
    for name, (get, _) in _SWITCHES.items():
        try:
            state[name] = get()
        except _MISSING:
            continue
    return state


def put(state: State) -> list[str]:
    """Put the switches as they were read; return the names of those that would not go.

    Costs nothing but the reading when they stand so already.
    """
    if read() == state:
        return []
    for name, (_, set_to) in _SWITCHES.items():
        if name in state:
            with contextlib.suppress(*_MISSING):
                set_to(state[name])
    return changed(state, read())


def changed(before: State, after: State) -> list[str]:
    """Return the names of the switches that differ."""
    return [name for name in _SWITCHES if before.get(name) != after.get(name)]
''',
    'harness/telemetry.py': r'''"""What a card does before, while and after a case is timed, asked of nvidia-smi. Standard library only.

The driver asks, not the candidate's process. A card that does not answer costs no case: the row says so.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import threading
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from harness.cards import Card

CLOCK_BAND = 0.05  # an SM clock that moves by more of its highest value while a case is timed is flagged
PERIOD_MS = 500
DEADLINE_S = 3.0

_FIELDS = "clocks.sm,clocks.mem,temperature.gpu,power.draw,utilization.gpu"
# The second is the first one's name before driver 535; some drivers know neither.
_REASONS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active", "")
_FORMAT = "--format=csv,noheader,nounits"
# NVML's bits. Idle is no throttling.
_IDLE = 0x1
_THROTTLES = {
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}


class SilentCardError(Exception):
    """The card cannot be asked; the text says why."""


# --- one moment -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reading:
    """One moment of a card; None for what it does not say. `reasons` holds NVML's bits for its clocks."""

    sm_mhz: float | None = None
    mem_mhz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    busy_percent: float | None = None
    reasons: int | None = None

    @property
    def idle(self) -> bool:
        """Whether the card lowers its clocks because it has nothing to do."""
        return bool((self.reasons or 0) & _IDLE)

    def __str__(self) -> str:
        """What is known, each with its unit."""
        values = (
            (self.sm_mhz, "{:.0f} MHz"),
            (self.mem_mhz, "memory {:.0f} MHz"),
            (self.temperature_c, "{:.0f} C"),
            (self.power_w, "{:.0f} W"),
            (self.busy_percent, "{:.0f} % busy"),
        )
        known = [form.format(value) for value, form in values if value is not None]
        return ", ".join(known) or "says nothing"


def parse_reading(line: str) -> Reading | None:
    """Return the reading on a line of nvidia-smi's CSV, or None when it is none."""
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) not in (5, 6):
        return None
    sm, mem, temperature, power, busy = map(_number, cells[:5])
    reading = Reading(sm, mem, temperature, power, busy, _bits(cells[5]) if len(cells) == 6 else None)
    return None if reading == Reading() else reading


def _number(cell: str) -> float | None:
    with contextlib.suppress(ValueError):  # `[N/A]`, `[Not Supported]`, `ERR!` and whatever comes next
        return float(cell)
    return None


def _bits(cell: str) -> int | None:
    with contextlib.suppress(ValueError):
        return int(cell, 16)
    return None


def parse_processes(text: str) -> set[int]:
    """Return the process ids that nvidia-smi lists, one on a line."""
    return {int(line) for line in map(str.strip, text.splitlines()) if line.isdigit()}


# --- one case ---------------------------------------------------------------------------------------------


class Monitor:
    """Watches one card, case after case. On a CPU it has nothing to say."""

    def __init__(self, card: Card) -> None:
        self._card = card
        self._silent = "" if not card.pin.startswith("MIG-") else "a slice of a card has no clocks of its own"
        self._reasons = list(_REASONS)
        self._before: Reading | None = None
        self._during: list[Reading] = []
        self._after: Reading | None = None
        self._processes: set[int] = set()
        self._ours: set[int] = set()

    def begin(self) -> None:
        """A case begins: take a reading."""
        self._during, self._after, self._processes = [], None, set()
        self._before = self._read()

    @contextlib.contextmanager
    def timing(self, ours: Collection[int]) -> Iterator[None]:
        """Take readings as long as the block lasts, and one at its end; see who is there beside `ours`."""
        self._ours = set(ours)
        self._see_processes()
        sampler = Sampler(self._query(f"--loop-ms={PERIOD_MS}")) if self._talks else None
        try:
            yield
        finally:
            self._during = sampler.stop() if sampler else []
            self._after = self._read()
            self._see_processes()

    def flags(self) -> dict[str, str]:
        """Return what the row says of the card."""
        if self._card.torch_device != "cuda":
            return {}
        if self._before is None and self._after is None:
            return {"telemetry": f"none: {self._silent or 'nothing was asked'}"}
        flags = {"card_before": str(self._before or self._silent)}
        if self._after is None:
            return flags | ({"card_after": self._silent} if self._silent else {})
        flags |= {"card_after": str(self._after), "clocks": clocks(self._during)}
        flags["throttle"] = throttle(self._during or [self._after])
        return flags | {"other_processes": others(self._processes, self._ours)}

    # --- asking -------------------------------------------------------------------------------------------

    @property
    def _talks(self) -> bool:
        return self._card.torch_device == "cuda" and not self._silent

    def _read(self) -> Reading | None:
        while self._talks:
            try:
                lines = ask(self._query()).splitlines()
                return next(filter(None, map(parse_reading, lines)), Reading())
            except SilentCardError as problem:
                self._reasons.pop(0)
                self._silent = "" if self._reasons and "not a valid field" in str(problem) else str(problem)
        return None

    def _query(self, *more: str) -> list[str]:
        fields = ",".join(filter(None, (_FIELDS, *self._reasons[:1])))
        return ["nvidia-smi", f"--id={self._card.pin}", f"--query-gpu={fields}", _FORMAT, *more]

    def _see_processes(self) -> None:
        if self._talks:
            with contextlib.suppress(SilentCardError):
                query = ["nvidia-smi", f"--id={self._card.pin}", "--query-compute-apps=pid", _FORMAT]
                self._processes |= parse_processes(ask(query))


def ask(command: Sequence[str]) -> str:
    """Return what the program prints. Raises SilentCardError when it fails or takes longer than it may."""
    try:
        return subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", timeout=DEADLINE_S, check=True
        ).stdout
    except subprocess.TimeoutExpired:
        raise SilentCardError(f"nvidia-smi did not answer within {DEADLINE_S:g} s") from None
    except subprocess.CalledProcessError as problem:
        said = " ".join(f"{problem.stdout} {problem.stderr}".split()).replace(";", ",")
        raise SilentCardError(f"nvidia-smi ended with {problem.returncode}: {said[:120]}") from None
    except OSError as problem:
        raise SilentCardError(f"nvidia-smi cannot be run: {problem.strerror}") from None


# The program ends when its stdin does: with `stop`, and with this process, whatever ends it.
_UNTIL_STDIN_ENDS = ("sh", "-c", '"$@" & read -r _; kill $!', "sh")


class Sampler:
    """An nvidia-smi that repeats its query until `stop`, and a thread that reads it."""

    def __init__(self, command: Sequence[str]) -> None:
        self.readings: list[Reading] = []
        self._process: subprocess.Popen[bytes] | None = None
        with contextlib.suppress(OSError, RuntimeError):  # no terminal, process or thread to be had
            self._mine, its = os.openpty()  # into a pipe a program may hold back what it prints
            self._thread = threading.Thread(target=self._listen, daemon=True)
            try:
                self._process = subprocess.Popen(
                    [*_UNTIL_STDIN_ENDS, *command],
                    stdin=subprocess.PIPE,
                    stdout=its,
                    stderr=subprocess.DEVNULL,
                )
            finally:
                os.close(its)
            self._thread.start()

    def stop(self) -> list[Reading]:
        """End the program and return its readings, the first one first."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=1)
            with contextlib.suppress(RuntimeError):  # it was not started
                self._thread.join(timeout=1)
        return list(self.readings)

    def _listen(self) -> None:
        with contextlib.suppress(OSError), os.fdopen(self._mine, "rb") as lines:  # EIO: the program has ended
            for line in lines:
                reading = parse_reading(line.decode(errors="replace"))
                if reading is not None:
                    self.readings.append(reading)


# --- what it comes to -------------------------------------------------------------------------------------


def clocks(during: Sequence[Reading]) -> str:
    """Return whether the SM clock kept within CLOCK_BAND: of readings under load, first against last third.

    A dip between them counts, too: what is compared with the band is the highest and the lowest reading.
    """
    loaded = [reading.sm_mhz for reading in during if reading.sm_mhz and not reading.idle]
    if len(loaded) < 2:
        return f"unseen, {len(loaded)} readings under load"
    third = max(1, len(loaded) // 3)
    first, last = statistics.median(loaded[:third]), statistics.median(loaded[-third:])
    low, high = min(loaded), max(loaded)
    moved = high - low > CLOCK_BAND * high
    return f"{'moved' if moved else 'steady'} {first:.0f}>{last:.0f} MHz, {low:.0f} to {high:.0f}"


def throttle(readings: Sequence[Reading]) -> str:
    """Return why the card held its clocks back, each reason with its share of the readings, or `none`."""
    known = [reading.reasons for reading in readings if reading.reasons is not None]
    if not known:
        return "unknown"
    counts = {name: sum(bool(reasons & bit) for reasons in known) for bit, name in _THROTTLES.items()}
    return ", ".join(f"{name} {count}/{len(known)}" for name, count in counts.items() if count) or "none"


def others(seen: Collection[int], ours: Collection[int]) -> str:
    """Return how many processes beside ours were on the card.

    In a container nvidia-smi may list no process, or give numbers of outside: where ours are not among
    them, nobody knows.
    """
    strangers = set(seen) - set(ours)
    return str(len(strangers)) if set(seen) & set(ours) else f"unknown, {len(seen)} listed and none is ours"
''',
    'harness/timing.py': r'''"""The contest's timing: one fixed input, warm calls, each call between its own pair of clock readings."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from harness.baseline import TransformerConfig
from harness.inputs import generate_random_case
from harness.shapes import TIMING_SEED_OFFSET

SEED_OFFSET = TIMING_SEED_OFFSET


def percentile(values: Sequence[float], q: float) -> float:
    """Return the quantile q (0 to 1) of the values, linear between the two nearest.

    Raises ValueError when there are no values or q is out of range.
    """
    if not values or not 0 <= q <= 1:
        raise ValueError(f"no quantile {q} of {len(values)} values")
    ordered = sorted(values)
    position = q * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


@dataclass(frozen=True)
class TimingResult:
    """The times of one side's calls in milliseconds, all rounds pooled."""

    samples_ms: list[float]

    @property
    def mean_ms(self) -> float:
        """The mean."""
        return statistics.fmean(self.samples_ms)

    @property
    def median_ms(self) -> float:
        """The median."""
        return statistics.median(self.samples_ms)

    @property
    def p90_ms(self) -> float:
        """The 90th percentile."""
        return percentile(self.samples_ms, 0.90)

    @property
    def min_ms(self) -> float:
        """The shortest."""
        return min(self.samples_ms)


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def warmup_model(
    model: nn.Module, x: Tensor, valid_mask: Tensor, iterations: int, device: torch.device
) -> None:
    """Call the model `iterations` times, then wait for the device."""
    with torch.inference_mode():
        for _ in range(iterations):
            model(x, valid_mask)
    _synchronize(device)


def benchmark_once(
    model: nn.Module, x: Tensor, valid_mask: Tensor, iterations: int, device: torch.device
) -> list[float]:
    """Return the times of `iterations` calls in milliseconds.

    On CUDA each call is enqueued between two events with no wait between calls: the host may run ahead, and
    where its work for a call outlasts the device's, the events measure the host.
    """
    time_calls = _time_on_cuda if device.type == "cuda" else _time_on_host
    _synchronize(device)
    with torch.inference_mode():
        return time_calls(model, x, valid_mask, iterations, device)


def _time_on_cuda(
    model: nn.Module, x: Tensor, valid_mask: Tensor, iterations: int, device: torch.device
) -> list[float]:
    with torch.cuda.device(device):  # events are recorded on the current device's current stream
        pairs = [(_cuda_event(), _cuda_event()) for _ in range(iterations)]
        for start, end in pairs:
            start.record()
            model(x, valid_mask)
            end.record()
        torch.cuda.synchronize(device)
        return [start.elapsed_time(end) for start, end in pairs]


def _cuda_event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def _time_on_host(
    model: nn.Module, x: Tensor, valid_mask: Tensor, iterations: int, _device: torch.device
) -> list[float]:
    samples_ms = []
    for _ in range(iterations):
        start = time.perf_counter_ns()
        model(x, valid_mask)
        samples_ms.append((time.perf_counter_ns() - start) / 1e6)
    return samples_ms


def benchmark_models(
    baseline: nn.Module,
    optimized: nn.Module,
    config: TransformerConfig,
    device: torch.device,
    dtype: torch.dtype,
    seed: int,
    padding_ratio: float,
    input_scale: float,
    warmup: int,
    repeats: int,
    rounds: int,
) -> None:
    """Time both models on one input and print their figures and the ratio of their medians.

    Both are warmed first; then even rounds time the baseline first, odd rounds the optimized model.
    """
    case = generate_random_case(config, device, dtype, seed + SEED_OFFSET, padding_ratio, input_scale)
    sides: list[tuple[nn.Module, list[float]]] = [(baseline, []), (optimized, [])]
    for model, _ in sides:
        warmup_model(model, *case, warmup, device)
    for number in range(rounds):
        for model, samples_ms in sides if number % 2 == 0 else reversed(sides):
            samples_ms.extend(benchmark_once(model, *case, repeats, device))
    reference, candidate = (TimingResult(samples_ms) for _, samples_ms in sides)
    tokens = config.batch_size * config.seq_len
    print(f"baseline : {_figures(reference, tokens)}")
    print(f"optimized: {_figures(candidate, tokens)}")
    speedup = reference.median_ms / candidate.median_ms
    print(f"speedup  : {speedup:.3f}x based on median latency", flush=True)


def _figures(timing: TimingResult, tokens: int) -> str:
    throughput = tokens / (timing.median_ms / 1000)
    return (
        f"median={timing.median_ms:.4f} ms | mean={timing.mean_ms:.4f} ms | p90={timing.p90_ms:.4f} ms | "
        f"min={timing.min_ms:.4f} ms | throughput={throughput:.2f} token/s"
    )
''',
    'harness/torch_view.py': r'''"""What torch says of the GPUs that it sees: `python -m harness.torch_view` prints it as one line of JSON.

A process of its own: CUDA may hang, crash, or take a driver's word for what then does not work.
"""

from __future__ import annotations

import json
from dataclasses import replace

import torch

from harness.drawing import describe, take_device
from harness.events import to_plain
from harness.senses import TorchView


def look() -> TorchView:
    """Run one small operation on every GPU in sight; the first that fails is the problem."""
    found = describe(torch.device("cpu"))
    view = TorchView(found.torch, found.triton, found.cuda)
    if not torch.cuda.is_available():
        return replace(view, problem="CUDA: no")
    try:
        view = replace(view, arches=tuple(torch.cuda.get_arch_list()))
        for index in range(torch.cuda.device_count()):
            device = torch.device("cuda", index)
            view = replace(view, cards=(*view.cards, replace(describe(device), index=index)))
            take_device(str(device))
    except Exception as error:  # noqa: BLE001 (whatever it is, this GPU cannot be used)
        return replace(
            view, problem=str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
        )
    return view


if __name__ == "__main__":
    print(json.dumps(to_plain(look())), flush=True)
''',
    'harness/trials.py': r'''"""What the gate tries for a case: weights, inputs, sizes, references; and what the figures come to.

The contest's own seeds are always there, and come last: the timing goes on with the last weights. All others
come from the operating system's entropy when the case begins, so that no candidate can be made for them; the
row records them. None is the timing's input. Standard library only.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from harness.channel import Figures
from harness.events import Gate
from harness.shapes import ORACLE_S, TIMING_SEED_OFFSET, Case, Settings, parse_settings

ORACLE_S_TIMED = 60.0  # for each output of a timed call
_SEEDS = 2**31
_ENTROPY = random.SystemRandom()

Tried = list[tuple["Trial", Figures]]


def infeasible(case: Case, memory_bytes: int, copies: int) -> str:
    """Return why the case cannot exist on a device of this memory (0: unknown), or nothing."""
    need = copies * case.shape.io_bytes(case.dtype)
    is_so = memory_bytes and need > memory_bytes
    return f"input and output need {need} bytes at this size, the device has {memory_bytes}" if is_so else ""


def baseline_lacks(case: Case, memory_bytes: int) -> int:
    """Return how many bytes the whole baseline needs where the device has fewer, else 0: it is not timed."""
    need = case.shape.reference_bytes(case.dtype)
    return need if memory_bytes and need > memory_bytes else 0


def oracle_s_of_timed(case: Case, memory_bytes: int) -> float:
    """Return how long the oracle may take for an output of a timed call; 0 where the baseline has room."""
    return 0.0 if case.shape.has_baseline(memory_bytes) else ORACLE_S_TIMED


@dataclass(frozen=True)
class Trial:
    """One output to gate. `truncated`: the case is cut shorter; `oracle_s` and `recompute` are `Check`'s."""

    case: Case
    weight_seed: int
    input_seed: int
    oracle_s: float = 0.0
    recompute: bool = False
    truncated: bool = False


def plan(case: Case, seeds: int, memory_bytes: int, dice: random.Random = _ENTROPY) -> list[Trial]:
    """Return a case's trials in order, with `seeds` weight seeds, on a device of this memory (0: unknown).

    Where the baseline cannot run over a single sequence, the oracle stands in for it, over one input a weight
    seed; before that the case is tried against the baseline itself, at the greatest length where that fits.
    """
    settings = parse_settings(case.harness_args)
    has_baseline = case.shape.has_baseline(memory_bytes)
    count = settings.accuracy_trials if has_baseline else 1
    drawn = list(_drawn(settings, max(1, seeds), count, dice))
    oracle_s = 0.0 if has_baseline else ORACLE_S / len(drawn)
    trials = [Trial(case, weights, seed, oracle_s) for weights, inputs in drawn for seed in inputs]
    own = len(trials) - count
    trials[own] = replace(trials[own], recompute=True)
    if has_baseline:
        return trials
    short = replace(case, shape=case.shape.truncated(memory_bytes))
    return [Trial(short, settings.seed, settings.seed, recompute=True, truncated=True), *trials]


def _drawn(
    settings: Settings, seeds: int, count: int, dice: random.Random
) -> Iterator[tuple[int, Sequence[int]]]:
    """Yield each weight seed with its input seeds, the contest's own last."""
    own = range(settings.seed, settings.seed + count)
    taken = {*own, settings.seed + TIMING_SEED_OFFSET}
    for _ in range(seeds - 1):
        weights, *inputs = (_fresh(taken, dice) for _ in range(1 + count))
        yield weights, sorted(inputs)
    yield settings.seed, own


def _fresh(taken: set[int], dice: random.Random) -> int:
    while (seed := dice.randrange(_SEEDS)) in taken:
        pass
    taken.add(seed)
    return seed


def gate_of(tried: Tried) -> Gate:
    """Sum the counts of all trials and keep the worst of each figure."""
    figures = [part for _, part in tried]
    trial, most = max(tried, key=lambda pair: _badness(pair[1].gate_share))
    total = sum(part.total_elements for part in figures)
    return Gate(
        failed_elements=sum(part.failed_elements for part in figures),
        total_elements=total,
        max_abs=worst(part.max_abs for part in figures),
        max_rel=worst(part.max_rel for part in figures),
        gate_share=most.gate_share,
        weight_seeds=tuple(dict.fromkeys(trial.weight_seed for trial, _ in reversed(tried))),
        input_seeds=tuple(sorted({trial.input_seed for trial, _ in tried})),
        reference=most.reference,
        coverage=total / sum(part.total_elements / part.coverage for part in figures),
        rtol=figures[0].rtol,
        atol=figures[0].atol,
        worst_index=most.worst_index,
        worst_reference=most.worst_reference,
        worst_output=most.worst_output,
        worst_seeds=(trial.weight_seed, trial.input_seed),
        failed_dims=tuple(sorted({dim for part in figures for dim in part.failed_dims})),
    )


def worst(values: Iterable[float]) -> float:
    """Return the largest; nan is worse than any number."""
    return max(values, key=_badness)


def _badness(value: float) -> tuple[bool, float]:
    return (math.isnan(value), value)


def flags_of(case: Case, tried: Tried) -> dict[str, str]:
    """Return what a row has no column for: what was cut short, and how good the reference itself is."""
    flags: dict[str, str] = {}
    figures = tried[-1][1]
    if (figures.rtol, figures.atol) != (Settings.rtol, Settings.atol):
        flags["tolerances"] = f"rtol {figures.rtol:g} atol {figures.atol:g}"
    for trial, part in tried:
        if trial.truncated:
            flags["truncated_s"] = str(trial.case.shape.seq_len)
            flags["truncated_share"] = f"{part.gate_share:.6g}"
        elif trial.oracle_s:
            flags["accuracy_trials"] = "1"
            flags["oracle_sequences"] = f"{round(part.coverage * case.shape.batch)} of {case.shape.batch}"
    if shares := dtype_shares(tried):
        flags["dtype_share"] = f"{max(shares):.6g}"
    return flags


def dtype_shares(tried: Tried) -> list[float]:
    """Return what the baseline itself uses of its budget, held against itself in float32, where measured."""
    return [part.dtype_share for _, part in tried if part.dtype_share is not None]


def verdict(case: Case, tried: Tried) -> str:
    """Return why the gate fails, or nothing when every element of every trial passes.

    Where the dtype itself cannot hold the gate, so that not even the baseline would pass, it says so.
    """
    failed = [(trial, part) for trial, part in tried if not part.passed]
    if not failed:
        return ""
    elements = sum(part.failed_elements for _, part in failed)
    total = sum(part.total_elements for _, part in tried)
    words = f"{elements} of {total} elements are outside the tolerances"
    if short := [trial.case.shape.seq_len for trial, _ in failed if trial.truncated]:
        words = f"cut to a length of {short[0]}, against the baseline itself, {words}"
    if max(shares := dtype_shares(tried), default=0.0) > 1:
        words += (
            f"; {case.dtype} cannot hold them here: the baseline itself, against itself in float32, "
            f"uses {max(shares):.3g} times its budget"
        )
    return words
''',
    'harness/tripwires.py': r'''"""What a candidate must leave alone, watched from inside of its own process.

Each finding is something that happened, never what the candidate's source says. All that is needed to look is
bound before there is a candidate. None of this binds code that sets out to deceive it in particular: what a
hostile process can alter is checked outside of it, by the driver's clock and by the judge.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from harness.lookout import Lookout
from harness.serving import RefusedError

_sum: Any = torch._C._VariableFunctions.sum
_MODULES = (torch, torch.cuda, torch.cuda.streams, torch.nn.functional, torch.random, time, gc)
_CLASSES = (
    *(Tensor, nn.Module, nn.Linear, nn.LayerNorm, nn.GELU, nn.ModuleList),
    *(torch.cuda.Event, torch.cuda.Stream, torch.Generator),
)
_PART = 1 << 20  # elements
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")
_TORCH = str(Path(torch.__file__).parent) + os.sep

Place = tuple[Any, str, Any]  # whose attribute, its name, what it is
Bits = tuple[int, ...]


class Tripwires:
    """Knows how things are when it is made; `check` raises RefusedError once they are not so any more."""

    def __init__(self, contract: ModuleType) -> None:
        self._lookout = Lookout()
        self._places = list(_places(contract))
        self._codes = [(value, _code(value)) for _, _, value in self._places if _code(value)]
        self._baseline: nn.Module | None = None
        self._structure: list[object] = []
        self._weights: Bits = ()

    def guard(self, baseline: nn.Module) -> None:
        """Remember a baseline as it is now: its modules, their hooks, its weights."""
        self._baseline, self._structure = baseline, structure(baseline)
        self._weights = weights(baseline)

    def check(self) -> None:
        """Raise RefusedError, `disqualified`, at what has been touched since."""
        if found := self._lookout.found:
            _refuse(*found)
        for owner, name, value in self._places:
            now = vars(owner).get(name)
            if now is not value and not wrapped_by_torch(now, value):
                _refuse("replaced", f"{_named(owner)}.{name} is not what it was before the candidate came")
        for function, code in self._codes:
            if _code(function) != code:
                _refuse("replaced", f"{_named(function)} has other code than before the candidate came")
        if self._baseline is not None:
            self._check_baseline(self._baseline)

    def _check_baseline(self, baseline: nn.Module) -> None:
        if structure(baseline) != self._structure:
            _refuse("baseline_touched", "the baseline's modules or hooks are not what they were")
        if weights(baseline) != self._weights:
            _refuse("weights_changed", "the baseline's weights are not what they were before the candidate")


def check_input(tensors: tuple[Tensor, ...], before: Bits) -> None:
    """Raise RefusedError, `disqualified`, when a call has changed its input."""
    if bits(*tensors) != before:
        _refuse("input_changed", "the input was changed by the candidate's call")


def _refuse(kind: str, words: str) -> None:
    raise RefusedError("disqualified", kind, words)


# --- how things are ---------------------------------------------------------------------------------------


def bits(*tensors: Tensor) -> Bits:
    """Return sums over the tensors' bits, which hardly any change leaves as they are."""
    with torch.inference_mode():
        return tuple(int(number) for tensor in tensors for number in _sums(tensor.detach()))


def _sums(tensor: Tensor) -> Iterator[Tensor]:
    """Yield the sum over all elements and that over every third, in parts: torch copies to add in 64 bits."""
    width = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    whole = tensor.contiguous().view(width).flatten()
    part = max(_PART, whole.numel() // 64)
    for step in (1, 3):
        pieces = (whole[begin : begin + part : step] for begin in range(0, whole.numel(), part))
        totals = [_sum(piece, dtype=torch.int64) for piece in pieces]
        yield _sum(torch.stack(totals))


def weights(module: nn.Module) -> Bits:
    """Return the bits of a module's parameters and buffers."""
    state = module.state_dict(keep_vars=True)
    return bits(*state.values())


def structure(module: nn.Module) -> list[object]:
    """Return what a module is made of: its parts, their classes, their attributes' names, their hooks."""
    return [
        (id(part), type(part), sorted(vars(part)), [len(vars(part).get(name) or ()) for name in _HOOKS])
        for part in module.modules()
    ]


def _places(contract: ModuleType) -> Iterator[Place]:
    """Yield what measuring and judging depend on, and the baseline's own arithmetic."""
    ours = [module for name, module in sys.modules.items() if name.partition(".")[0] == "harness"]
    for module in (*ours, contract):
        for name, value in vars(module).items():
            if not name.startswith("__"):
                yield module, name, value
            if isinstance(value, type) and value.__module__ == module.__name__:
                yield from _members(value)
    for module in _MODULES:
        yield from ((module, name, value) for name, value in vars(module).items() if callable(value))
    for cls in _CLASSES:
        yield from _members(cls)


def _members(cls: type) -> Iterator[Place]:
    return (
        (cls, name, value)
        for name, value in vars(cls).items()
        if (callable(value) or isinstance(value, (property, staticmethod, classmethod)))
    )


def wrapped_by_torch(now: object, before: object) -> bool:
    """Whether torch itself has put a function around another, as it does where it begins to compile."""
    if not isinstance(now, FunctionType) or not now.__code__.co_filename.startswith(_TORCH):
        return False
    inside = [getattr(now, "__wrapped__", None), *(cell.cell_contents for cell in now.__closure__ or ())]
    return any(held is before for held in inside)


def _code(value: object) -> tuple[object, ...]:
    """Return what a function does when called; nothing for what is no function written in Python."""
    if not isinstance(value, FunctionType):
        return ()
    return value.__code__, value.__defaults__, tuple((value.__kwdefaults__ or {}).items())


def _named(thing: Any) -> str:
    name = getattr(thing, "__qualname__", "")
    return f"{thing.__module__}.{name}" if name else str(getattr(thing, "__name__", thing))
''',
    'harness/verdict.py': r'''"""What speaks against a case's times: the driver's own clock, the baseline before there was a candidate.

Standard library only. An honest case on a noisy host must never be disqualified, so the bands are wide: what
lies between is a flag in the row.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.channel import Blocked, Figures
from harness.events import Samples
from harness.limits import CaseFailureError

# Interference only ever adds time, so the low quantile is what a side takes when it is left alone.
_QUANTILE = 0.2
# Times what the baseline took before, and takes again when the candidate is gone.
SLOWED_ON_GPU, SLOWED_ON_CPU = 1.3, 2.0  # a device's times are steady, a host has other work to do
TOLD = 1.1  # from here on the row says so
_TOO_MUCH = 1.05  # of the wall, that samples add up to
_PLAIN, _HIDDEN = 1.5, 2.5  # times what the samples say, and times as much as of the baseline's
_REMEMBERED = 0.6  # of the time of an input that is new
_FAR, _MANY = 10.0, 0.001  # a budget ten times overdrawn, by one element in a thousand
_SLACK_NS = 5_000_000  # a round trip to the worker on a busy machine


def slowdown(samples: Sequence[Samples], clean: Sequence[Samples] = ()) -> float:
    """Return how many times as long the baseline took beside the candidate as without it; 0 if unknown.

    Beside it: in the round in which it took the least. Without it: before there was one or, with `clean`
    times of a process that never had one, in the slower of the two.
    """
    beside = [_quantile(part.values) for part in samples if part.side == "baseline"]
    alone = [_quantile(part.values) for part in (*samples, *clean) if part.side == "baseline_before"]
    return min(beside) / max(alone) if beside and alone else 0.0


def _quantile(values: Sequence[int]) -> int:
    ordered = sorted(values)
    return ordered[int(_QUANTILE * (len(ordered) - 1))]


def refuse_slowed(ratio: float, most: float) -> None:
    """Raise CaseFailureError when the baseline was slowed beyond what noise can do."""
    if ratio > most:
        words = f"the baseline took {ratio:.2f} times as long beside the candidate as without it"
        raise CaseFailureError("disqualified", "slowed_baseline", words)


def refuse_overfull(samples_ns: int, wall_ns: int) -> None:
    """Raise CaseFailureError when a block's samples add up to more time than the block took."""
    if samples_ns > _TOO_MUCH * wall_ns + _SLACK_NS:
        words = f"samples of {samples_ns / 1e6:.4g} ms were taken in {wall_ns / 1e6:.4g} ms"
        raise CaseFailureError("disqualified", "clock", words)


def is_hidden(candidate: float, baseline: float) -> bool:
    """Whether calls in a row show time that the samples hide: far more of the candidate's than of the other.

    Each is the wall of a side's calls in a row, by the driver's clock, over what its samples say. Only where
    the host's time is the device's, on a CPU, can nothing honest explain that.
    """
    return candidate > max(_PLAIN, _HIDDEN * baseline)


def refuse_remembered(fresh: Sequence[int], again: Sequence[int]) -> None:
    """Raise CaseFailureError when an input that was seen before is answered in far less time than a new one.

    Seven in ten of the repeated calls must have been faster than nine in ten of the new ones, by far; with
    twenty of each, noise does that once in 100,000 cases even if it makes half of all calls slow.
    """
    slowest = sorted(again)[-(-7 * len(again) // 10) - 1]
    fastest = sorted(fresh)[len(fresh) // 10]
    if slowest < _REMEMBERED * fastest:
        words = f"an input seen before takes {slowest / 1e6:.4g} ms, a new one {fastest / 1e6:.4g} ms"
        raise CaseFailureError("disqualified", "remembered_output", words)


def refuse_wrong(figures: Figures) -> None:
    """Raise CaseFailureError when a timed call's output is outside the tolerances.

    A little outside is a candidate at the edge of its budget, and no worse than the same at the gate; far
    outside, after outputs at the gate that were right, is other work than the gate has seen.
    """
    if figures.passed:
        return
    words = f"{figures.failed_elements} of {figures.total_elements} elements of a timed call's output"
    if figures.gate_share > _FAR and figures.failed_elements > _MANY * figures.total_elements:
        words += " are far outside the tolerances, though the gate's outputs were right"
        raise CaseFailureError("disqualified", "timed_output", words)
    raise CaseFailureError("failed_gate", "timed_gate", f"{words} are outside the tolerances")


def refuse_disowned(blocked: Blocked) -> None:
    """Raise CaseFailureError when outputs were not the caller's own from the end of their call on."""
    if blocked.shared:
        words = f"{blocked.shared} outputs of timed calls share memory with another output or with an input"
        raise CaseFailureError("disqualified", "shared_output", words)
    if blocked.changed:
        words = f"{blocked.changed} outputs of timed calls changed after the call had returned"
        raise CaseFailureError("disqualified", "changed_output", words)
''',
    'harness/what_ran.py': r'''"""What really ran in a case: seen by running it again once it is timed, so that looking disturbs nothing."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor, nn

from harness import attention, observing
from harness.events import Profile, Work
from harness.profiling import Seen, watch
from harness.serving import is_out_of_memory
from harness.shapes import Case

T = TypeVar("T")

HOST_BOUND_BELOW = 0.8  # of a call's time: when the device works for less of it, it waits for the host
LOOK_S = 0.3  # how much of a side's calls is watched
LONGEST_CALL_S = 10.0  # of a longer one only `--profile` asks for another
MOST_CALLS = 5
TOP = 10
NAME_CHARACTERS = 120
_LIMIT = re.compile(r"(recompile|cache.?size).?limit")
# cuBLAS: s1688 is the tensor cores' TF32 step; Hopper's `nvjet` names its operands, s is float32.
_TF32 = re.compile(r"tf32|s1688gemm|nvjet_(sm\d+_)?s", re.IGNORECASE)


@dataclass(frozen=True)
class Side:
    """One side, `baseline` or `candidate`, and its time for one call in milliseconds.

    `enter` sets the process up as it was while the side was timed.
    """

    name: str
    model: nn.Module
    call_ms: float
    enter: Callable[[], object] = list

    @property
    def is_long(self) -> bool:
        """Whether only somebody who asked waits for one more call."""
        return self.call_ms > LONGEST_CALL_S * 1e3


@dataclass
class Findings:
    """What was seen; `profiles` only when they were asked for."""

    attention_backend: str
    flags: dict[str, str]
    profiles: list[Profile]


def look(case: Case, sides: Sequence[Side], x: Tensor, mask: Tensor, full: bool) -> Findings:
    """Watch the sides, the candidate last, on x [B,S,D] and mask [B,S]; `full` asks for the top work.

    Nothing that goes wrong here is a failure of the case: the flags say what could not be seen.
    """
    found = Findings("", compilation(), [])
    for side in sides:
        _look_at(side, found, case, x, mask, full)
    if x.is_cuda:
        could = guarded(found.flags, "sdpa_eligible", partial(_eligible, sides[-1], case, x, mask))
        found.flags |= could.flags() if could else {}
    return found


def _look_at(side: Side, found: Findings, case: Case, x: Tensor, mask: Tensor, full: bool) -> None:
    prefix = "" if side.name == "candidate" else f"{side.name}_"
    side.enter()
    before = observing.precision_state()
    seen = guarded(found.flags, f"{prefix}profile", partial(_watch, side, x, mask, full))
    if x.is_cuda:
        after = observing.precision_state()
        found.flags[f"{prefix}precision"] = before if before == after else f"{before} to {after}"
    if seen is None:
        return
    found.flags |= {f"{prefix}{name}": text for name, text in told(seen, side, x.is_cuda).items()}
    found.profiles += [top(case.id, side, seen)] if full else []
    if side.name == "candidate" and seen.work:
        found.attention_backend = attention.fired(seen.names)


def _eligible(side: Side, case: Case, x: Tensor, mask: Tensor) -> attention.Eligible:
    query = partial(_query, x, case.shape.heads)
    if side.is_long:
        return attention.supposed(query, case.shape.causal)
    return attention.eligible(lambda: side.model(x, mask), query, case.shape.causal)


def _watch(side: Side, x: Tensor, mask: Tensor, full: bool) -> Seen:
    if side.is_long and not full:
        raise TooLongError(f"a call takes {side.call_ms / 1e3:.3g} s, --profile looks all the same")
    calls = min(MOST_CALLS, max(1, int(LOOK_S * 1e3 / side.call_ms)))
    return watch(lambda: side.model(x, mask), calls, x.device)


def _query(x: Tensor, heads: int) -> Tensor:
    """A query of the case's sizes: [1,H,S,D/H]."""
    _, seq_len, width = x.shape
    return torch.zeros(1, heads, seq_len, width // heads, dtype=x.dtype, device=x.device)


class TooLongError(Exception):
    """One more call would take too long."""


def guarded(flags: dict[str, str], name: str, find: Callable[[], T]) -> T | None:
    """Return what `find` returns; when it fails, None, and the flag of this name says why."""
    try:
        with torch.inference_mode():
            return find()
    except Exception as error:  # noqa: BLE001 (looking costs no case, whatever a candidate or a profiler raises)
        first = str(error).strip().partition("\n")[0].replace(";", ",")[:NAME_CHARACTERS]
        kind = "out of memory" if is_out_of_memory(error) else f"{type(error).__name__}: {first}"
        flags[name] = f"none: {first if isinstance(error, TooLongError) else kind}"
        return None


# --- what it comes to -------------------------------------------------------------------------------------


def told(seen: Seen, side: Side, on_gpu: bool) -> dict[str, str]:
    """Return what a row says of one side's kernels; of a CPU's operators there is nothing to say."""
    if not on_gpu:
        return {}
    if not seen.work:
        return {"profile": "none: the profiler saw no kernel"}
    share = seen.busy_ms / side.call_ms
    return {
        "gpu_ms": f"{seen.busy_ms:.6g}",
        "host_bound": "yes" if share < HOST_BOUND_BELOW else "no",
        "tf32_ran": "yes" if any(map(_TF32.search, seen.names)) else "no",
        **({"cuda_graphs": f"{seen.graph_launches / seen.calls:g} a call"} if seen.graph_launches else {}),
    }


def top(case_id: str, side: Side, seen: Seen) -> Profile:
    """Return the longest work of one side as an event."""
    total = sum(work.ns for work in seen.work)
    cut = (Work(work.name[:NAME_CHARACTERS], work.count, work.ns) for work in seen.work[:TOP])
    return Profile(case_id, side.name, seen.calls, total, tuple(cut))


def compilation() -> dict[str, str]:
    """Return what torch's compiler has counted since the last case; nothing when it was never called."""
    utils = sys.modules.get("torch._dynamo.utils")
    if utils is None:
        return {}
    counters = utils.counters
    graphs, breaks = counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())
    reasons = " ".join(str(reason) for counter in tuple(counters.values()) for reason in counter).lower()
    told = [f"{graphs} graphs"]
    told += [f"{breaks} graph breaks"] if breaks else []
    told += ["recompile limit hit"] if _LIMIT.search(reasons) else []
    called = graphs or counters["frames"]["total"]  # a function compiled as one graph is no frame
    counters.clear()
    return {"compiled": ", ".join(told)} if called else {}
''',
    'harness/wire.py': r'''"""How a request or a reply travels between the driver and its children. Standard library only.

Each message is one JSON line, `["Build", {…}, 7]`, over a pair of pipes that are nobody's stdin, stdout or
stderr: what a candidate prints can never be taken for a reply, and nothing is ever unpickled.
"""

from __future__ import annotations

import json

from harness.channel import KINDS, Message
from harness.events import from_plain, to_plain
from harness.plain import UNREADABLE


class BrokenMessageError(ValueError):
    """A line on the channel is no message: somebody else wrote there."""


def pack(message: Message, number: int) -> bytes:
    """Return the message's line, line end included; a reply has its request's number."""
    return json.dumps([type(message).__name__, to_plain(message), number]).encode() + b"\n"


def unpack(line: bytes) -> tuple[Message, int]:
    """Undo `pack`. Raises BrokenMessageError when the line is not what it wrote."""
    try:
        kind, body, number = json.loads(line)
        message: Message = from_plain(KINDS[kind], body)
        return message, from_plain(int, number)
    except UNREADABLE as problem:
        raise BrokenMessageError(f"{line[:80]!r} is no message") from problem
''',
    'harness/worker.py': r'''"""The worker: the process that holds the candidate, and the baseline for timing."""

from __future__ import annotations

from harness.serving import serve

if __name__ == "__main__":
    serve("harness.measuring", oom_score=900)
''',
    'model/__init__.py': r'''"""The drop-in transformer of the contest: `from model import OptimizedTransformer`.

The folder stands alone: standard library and torch, nothing else of this repository. Importing the package,
`model.levers` or `model.router` does not import torch, so that a tool can list levers and routes anywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .transformer import OptimizedTransformer, UserOptimizedTransformer

__all__ = ["OptimizedTransformer", "UserOptimizedTransformer"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import transformer

    return getattr(transformer, name)
''',
    'model/chunking.py': r'''"""Running a batch in chunks of rows when it does not fit: planned from free memory, halved on failure.

Rows of a batch do not see each other, so chunks change nothing where the same kernels run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

# The estimate of a route's bytes is no measurement, and allocators lose some to fragments.
USABLE_SHARE = 0.9
COUNTABLE = 2**31 - 1

_OUT_OF_MEMORY = ("out of memory", "DefaultCPUAllocator", "CUBLAS_STATUS_ALLOC_FAILED")


def free_bytes(device: torch.device) -> int:
    """Bytes that can still be allocated: the driver's figure + what torch's allocator holds unused.

    On a CPU MemAvailable; where nobody knows, more than any machine has.
    """
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + unused
    meminfo = Path("/proc/meminfo")
    if device.type == "cpu" and meminfo.exists():
        fields = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        return int(fields["MemAvailable"].split()[0]) * 1024
    return sys.maxsize


def plan_rows(batch: int, row_bytes: int, output_bytes: int, free: int, element_bytes: int) -> int:
    """Rows of a chunk: the output and one chunk's work fit in `free` bytes; chunks are evened out.

    All of a chunk's elements, of `element_bytes`, can be counted in 32 bits, as some kernels do.
    """
    room = int(free * USABLE_SHARE) - output_bytes
    room = min(room, COUNTABLE * element_bytes)
    most = min(max(room // max(row_bytes, 1), 1), batch)
    chunks = -(-batch // most)
    return -(-batch // chunks)


def run_in_chunks(run: Callable[[int, int], Tensor], x: Tensor, rows: int) -> tuple[Tensor, int]:
    """The output [B,S,D] of `run(start, stop)` over all rows of x, and the rows of a chunk that fitted.

    Out of memory: starts again with half the rows. Raises what one row raises.
    """
    while True:
        try:
            return _fill(run, x, rows), rows
        except (RuntimeError, MemoryError) as error:
            if rows <= 1 or not is_out_of_memory(error):
                raise
        # Outside the handler: the error, and the tensors its traceback holds, are gone.
        rows = -(-rows // 2)
        if x.is_cuda:
            torch.cuda.empty_cache()


def _fill(run: Callable[[int, int], Tensor], x: Tensor, rows: int) -> Tensor:
    batch = x.shape[0]
    if rows >= batch:
        return run(0, batch)
    output = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    for start in range(0, batch, rows):
        stop = min(start + rows, batch)
        output[start:stop] = run(start, stop)
    return output


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: the GPU's, the CPU allocator's (a plain RuntimeError) or Python's."""
    if isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _OUT_OF_MEMORY)
''',
    'model/levers.py': r'''"""The levers: environment variables `LEVER_*` that change how the model runs with no code edit.

They are read here and nowhere else, when a model is built. Standard library only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from . import router

PREFIX = "LEVER_"


@dataclass(frozen=True)
class Lever:
    """One environment variable, what it may hold and what it means; `counts` allows whole numbers from 1."""

    name: str
    values: tuple[str, ...]
    default: str
    about: str
    counts: bool = False

    def read(self, environ: Mapping[str, str]) -> str:
        """The lever's value. Raises ValueError, with the allowed values, for any other."""
        value = environ.get(self.name, self.default)
        number = self.counts and value.isascii() and value.isdigit() and int(value) > 0
        if value in self.values or number:
            return value
        allowed = [*self.values, *(["a whole number from 1"] if self.counts else [])]
        raise ValueError(f"{self.name}={value!r} is not one of: {', '.join(allowed)}")


ROUTE = Lever("LEVER_ROUTE", router.names(), router.AUTO, "which route runs the model")
QKV = Lever(
    "LEVER_QKV", ("fused", "separate"), "fused", "one matrix product for q, k and v, or three (not in eager)"
)
RESIDUAL = Lever(
    "LEVER_RESIDUAL", ("inplace", "new"), "inplace", "add to the residual in place or not (not in eager)"
)
CHUNK = Lever("LEVER_CHUNK", ("auto",), "auto", "rows of a batch that run at once", counts=True)

LEVERS = (ROUTE, QKV, RESIDUAL, CHUNK)


@dataclass(frozen=True)
class Settings:
    """What the levers say; `chunk` is None when the rows of a chunk are planned from free memory."""

    route: str
    fused_qkv: bool
    inplace_residual: bool
    chunk: int | None


def read(environ: Mapping[str, str] = os.environ) -> Settings:
    """Read every lever. Raises ValueError, with the known ones, for an unknown `LEVER_` name or value."""
    known = [lever.name for lever in LEVERS]
    for name in environ:
        if name.startswith(PREFIX) and name not in known:
            raise ValueError(f"unknown lever {name}; known are: {', '.join(known)}")
    chunk = CHUNK.read(environ)
    return Settings(
        route=ROUTE.read(environ),
        fused_qkv=QKV.read(environ) == "fused",
        inplace_residual=RESIDUAL.read(environ) == "inplace",
        chunk=None if chunk == "auto" else int(chunk),
    )
''',
    'model/padding.py': r'''"""What a mask of valid tokens asks of a route, found out once a forward."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Padding:
    """The tokens that count: `valid` [B,S], None when all do. `holes`: in some row they are no prefix."""

    valid: Tensor | None = None
    holes: bool = False

    @classmethod
    def of(cls, valid_token_mask: Tensor | None) -> Padding:
        """Look at a boolean mask [B,S], True where a token counts. Waits for the device."""
        mask = valid_token_mask
        if mask is None or bool(mask.all()):
            return cls()
        return cls(mask, holes=bool((mask[:, 1:] & ~mask[:, :-1]).any()))

    def rows(self, start: int, stop: int) -> Padding:
        """The same for rows `start` to `stop`; `holes` stays the whole batch's, so that all run alike."""
        return self if self.valid is None else Padding(self.valid[start:stop], self.holes)
''',
    'model/router.py': r'''"""Which routes there are, and which one a name stands for. Standard library only until a route is loaded.

A route is one file in `routes/`; its file name is its name. A name in `CHOICES` is no file: it stands for
what the model picks among them.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from .routes import Route

AUTO = "auto"

# What the model does unasked is `auto`; `fast` compiles where that works. `safe` and `fp16` join here, once
# there is a choice to make.
CHOICES = {AUTO: "sdpa", "fast": "compiled"}


def files() -> tuple[str, ...]:
    """The names of the routes, sorted: one for each file in `routes/`."""
    found = (Path(__file__).parent / "routes").glob("[!_]*.py")
    return tuple(sorted(path.stem for path in found))


def names() -> tuple[str, ...]:
    """Every name that may be asked for: the choices, then the routes."""
    return (*CHOICES, *files())


def choose(name: str) -> str:
    """The route that a name stands for. Raises ValueError, with the known names, for an unknown one."""
    if name not in names():
        raise ValueError(f"unknown route {name!r}; known are: {', '.join(names())}")
    return CHOICES.get(name, name)


def load(name: str) -> Route:
    """A fresh route of that name; imports its file. Raises ValueError for an unknown name."""
    module = import_module(f"{__package__}.routes.{choose(name)}")
    return cast("type[Route]", module.Route)()
''',
    'model/routes/__init__.py': r'''"""What a route is: each file here defines one as a class named `Route`; the file's name is the route's."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor

from ..levers import Settings
from ..padding import Padding
from ..weights import Weights


class Route(ABC):
    """One way to run the model. After a run its attributes say what really ran.

    `ran`: the name of the route that did the work; `note`: why, when that is another one; `compile_s`:
    seconds spent in compilation, None where nothing is compiled.
    """

    ran: str
    note: str = ""
    compile_s: float | None = None

    @abstractmethod
    def run(self, x: Tensor, padding: Padding, weights: Weights, levers: Settings) -> Tensor:
        """Map x [B,S,D] to a fresh [B,S,D] with zeros where a token does not count; x is only read."""

    @abstractmethod
    def bytes_per_row(self, x: Tensor, padding: Padding, weights: Weights) -> int:
        """An estimate of the bytes that one row of the batch takes at its worst moment, x not counted."""
''',
    'model/routes/compiled.py': r'''"""The sdpa route's computation, compiled by torch.compile at the first forward."""

from __future__ import annotations

import time
from collections.abc import Callable
from subprocess import CalledProcessError
from types import FunctionType

import torch
from torch import Tensor

from ..chunking import is_out_of_memory
from ..weights import Tensors
from . import sdpa


class Route(sdpa.Route):
    """Compiles itself; where that fails it runs as sdpa from then on, and `note` gives the first cause."""

    ran = "compiled"

    def __init__(self) -> None:
        self._compiled: Callable[..., Tensor] | None = None
        self._met: set[tuple[object, ...]] = set()

    def stack(
        self, x: Tensor, valid: Tensor | None, tensors: Tensors, heads: int, causal: bool, inplace: bool
    ) -> Tensor:
        """`sdpa.stack`, compiled where that works."""
        args = x, valid, tensors, heads, causal, inplace
        if self.ran == Route.ran:
            try:
                return self._timed(x, valid, lambda: self._call(*args))
            except Exception as error:
                # Compilers fail in every way there is; running out of memory is the caller's to mend.
                if is_out_of_memory(error):
                    raise
                self.ran = sdpa.Route.ran
                self.note = f"compilation failed, ran {self.ran}: {first_cause(error)}"
        return sdpa.stack(*args)

    def _call(self, *args: object) -> Tensor:
        if self._compiled is None:
            # Dynamo counts recompilations by code object: with one of its own, this model's limit is its own.
            # fullgraph: past the limit it raises, where it would silently stop compiling.
            own = FunctionType(sdpa.stack.__code__.replace(), sdpa.stack.__globals__, sdpa.stack.__name__)
            self._compiled = torch.compile(own, fullgraph=True)
        return self._compiled(*args)

    def _timed(self, x: Tensor, valid: Tensor | None, call: Callable[[], Tensor]) -> Tensor:
        """Call; the first one of each kind of input, where compilation happens, counts to `compile_s`."""
        kind = (x.shape, x.dtype, x.device, valid is None)
        if kind in self._met:
            return call()
        start = time.perf_counter()
        try:
            result = call()
            if x.is_cuda:
                torch.cuda.synchronize(x.device)
            self._met.add(kind)
            return result
        finally:
            self.compile_s = (self.compile_s or 0.0) + time.perf_counter() - start


def first_cause(error: BaseException) -> str:
    """Class and first line of the error at the root of a compiler's chain of wrappers.

    Where a program failed, the first line in its output that tells an error, not the command it was given.
    """
    while cause := getattr(error, "inner_exception", None) or error.__cause__:
        error = cause
    text = str(error)
    if isinstance(error, CalledProcessError) and error.output:
        text = error.output if isinstance(error.output, str) else error.output.decode(errors="replace")
    lines = text.strip().splitlines() or [""]
    told = next((line for line in lines if "error:" in line and "collect2" not in line), lines[0])
    return f"{type(error).__name__}: {told}"[:300]
''',
    'model/routes/eager.py': r'''"""The baseline's arithmetic, plainly: every score in memory, the softmax in float32, three zeroings."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ..levers import Settings
from ..padding import Padding
from ..weights import Attention, Weights
from . import Route as Base


class Route(Base):
    """Every step of the baseline in its order."""

    ran = "eager"

    def run(self, x: Tensor, padding: Padding, weights: Weights, levers: Settings) -> Tensor:
        """See `routes.Route.run`. No lever changes the arithmetic."""
        del levers
        heads, causal, valid = weights.config.num_heads, weights.config.causal, padding.valid
        for block in weights.blocks:
            x = x + zero(attention(block.norm1(x), block.attention, heads, causal, valid), valid)
            x = zero(x + block.ffn_out(functional.gelu(block.ffn_in(block.norm2(x)))), valid)
        return zero(weights.final_norm(x), valid)

    def bytes_per_row(self, x: Tensor, padding: Padding, weights: Weights) -> int:
        """Attention: two [H,S,S] in float32, a third in a half type, a mask, seven [S,D]; or feed-forward."""
        del padding
        _, seq_len, width = x.shape
        size = x.element_size()
        score = 8 if size == 4 else size + 8
        scores = seq_len**2 * (weights.config.num_heads * score + 1)
        attention_bytes = scores + 7 * seq_len * width * size
        return max(attention_bytes, seq_len * (2 * width + 2 * weights.config.ffn_dim) * size)


def attention(x: Tensor, part: Attention, heads: int, causal: bool, valid: Tensor | None) -> Tensor:
    """Attention over x [B,S,D] with all scores [B,H,S,S] in memory; keys that do not count are masked."""
    q, k, v = (split(proj(x), heads) for proj in (part.q_proj, part.k_proj, part.v_proj))
    scores = (q @ k.transpose(-2, -1)) * q.shape[-1] ** -0.5
    if causal:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
        scores = scores.masked_fill(future, float("-inf"))
    if valid is not None:
        scores = scores.masked_fill(~valid[:, None, None, :], float("-inf"))
    shares = torch.softmax(scores, dim=-1, dtype=torch.float32).to(x.dtype)
    merged = (shares @ v).transpose(1, 2).reshape(x.shape)
    return functional.linear(merged, part.out_proj.weight, part.out_proj.bias)


def split(x: Tensor, heads: int) -> Tensor:
    """[B,S,D] to [B,H,S,D/H], contiguous."""
    batch, seq_len, width = x.shape
    return x.view(batch, seq_len, heads, width // heads).transpose(1, 2).contiguous()


def zero(x: Tensor, valid: Tensor | None) -> Tensor:
    """x [B,S,D] with zeros where a token does not count; filled, since nan times 0 is nan."""
    return x if valid is None else x.masked_fill(~valid[..., None], 0.0)
''',
    'model/routes/sdpa.py': r'''"""PyTorch's fused attention: causality inside the call, no S x S mask or score in memory."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ..levers import Settings
from ..padding import Padding
from ..weights import Layer, Pair, Tensors, Weights
from . import Route as Base


class Route(Base):
    """Turns every mask into one that needs no S x S tensor, then computes `stack`.

    Causal, valid tokens first in each row: no valid token sees a padded one, so the keys need no mask.
    Causal with holes: valid tokens are moved to the front, in order, and back afterwards; position enters
    by that order only. Not causal: the keys' mask [B,1,1,S] is broadcast.
    """

    ran = "sdpa"

    def run(self, x: Tensor, padding: Padding, weights: Weights, levers: Settings) -> Tensor:
        """See `routes.Route.run`."""
        if padding.valid is None or not (padding.holes and weights.config.causal):
            return self._run(x, padding.valid, weights, levers)
        order = torch.argsort(padding.valid, dim=1, descending=True, stable=True)
        index = order[..., None].expand_as(x)
        packed = self._run(x.gather(1, index), padding.valid.gather(1, order), weights, levers)
        return torch.empty_like(packed).scatter_(1, index, packed)

    def _run(self, x: Tensor, valid: Tensor | None, weights: Weights, levers: Settings) -> Tensor:
        config, tensors = weights.config, weights.tensors(levers.fused_qkv)
        return self.stack(x, valid, tensors, config.num_heads, config.causal, levers.inplace_residual)

    def stack(
        self, x: Tensor, valid: Tensor | None, tensors: Tensors, heads: int, causal: bool, inplace: bool
    ) -> Tensor:
        """Compute `stack`; a route that does it another way replaces this."""
        return stack(x, valid, tensors, heads, causal, inplace)

    def bytes_per_row(self, x: Tensor, padding: Padding, weights: Weights) -> int:
        """The larger of attention (x, q, k, v, result, projection) and feed-forward, and packed copies."""
        _, seq_len, width = x.shape
        ffn_dim = weights.config.ffn_dim
        widest = max(6 * width, 2 * width + ffn_dim, width + 2 * ffn_dim)
        packed = 2 * width if padding.holes else 0
        row_sums = 4 * seq_len * weights.config.num_heads
        return seq_len * (widest + packed) * x.element_size() + row_sums


def stack(
    x: Tensor, valid: Tensor | None, tensors: Tensors, heads: int, causal: bool, inplace: bool
) -> Tensor:
    """The whole model over x [B,S,D]; valid [B,S], and if causal each row of it is a prefix.

    Rows that do not count are zeroed after each layer and at the end. Inside a layer they cannot reach a row
    that counts, so zeroing the attention's output too would change nothing.
    """
    pad = None if valid is None else ~valid[..., None]
    keys = None if valid is None or causal else valid[:, None, None, :]
    for layer in tensors.layers:
        x = add(x, attend(x, layer, heads, causal, keys), inplace)
        x = add(x, feed_forward(x, layer), inplace)
        if pad is not None:
            x.masked_fill_(pad, 0.0)
    x = norm(x, tensors.final_norm)
    return x if pad is None else x.masked_fill_(pad, 0.0)


def add(x: Tensor, branch: Tensor, inplace: bool) -> Tensor:
    """x + branch, in place in the branch, which is always ours; the first x is the caller's."""
    return branch.add_(x) if inplace else x + branch


def attend(x: Tensor, layer: Layer, heads: int, causal: bool, keys: Tensor | None) -> Tensor:
    """Normalise, attend and project x [B,S,D]; keys [B,1,1,S] is True where a key counts."""
    q, k, v = project(norm(x, layer.norm1), layer.qkv, heads)
    merged = functional.scaled_dot_product_attention(q, k, v, attn_mask=keys, is_causal=causal)
    return functional.linear(merged.transpose(1, 2).reshape(x.shape), *layer.out)


def project(x: Tensor, qkv: tuple[Pair, ...], heads: int) -> tuple[Tensor, ...]:
    """q, k and v [B,H,S,D/H] of x [B,S,D]: views of what the one or three products wrote."""
    batch, seq_len, width = x.shape
    products = [functional.linear(x, *pair).view(batch, seq_len, -1, heads, width // heads) for pair in qkv]
    return tuple(part.transpose(1, 2) for product in products for part in product.unbind(2))


def feed_forward(x: Tensor, layer: Layer) -> Tensor:
    """Normalise x [B,S,D], widen to F, GELU, back to D."""
    hidden = functional.gelu(functional.linear(norm(x, layer.norm2), *layer.ffn_in))
    return functional.linear(hidden, *layer.ffn_out)


def norm(x: Tensor, pair: Pair) -> Tensor:
    """LayerNorm over the last dimension with eps 1e-5, as `nn.LayerNorm`."""
    return functional.layer_norm(x, x.shape[-1:], *pair)
''',
    'model/transformer.py': r'''"""The drop-in transformer.

    from model import OptimizedTransformer
    model = OptimizedTransformer(config)                      # reads the levers
    model.load_state_dict(baseline.state_dict(), strict=True)
    y = model(x, valid_token_mask)                            # [B,S,D]; model.route_ran says how

B, S, D, H, F, L = batch, sequence, width, heads, FFN width, layers.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from . import chunking, levers, router
from .padding import Padding
from .weights import Config, Weights

Forward = Callable[[Tensor, "Tensor | None"], Tensor]


class OptimizedTransformer(Weights):
    """The contest's transformer for inference, run by the route that `LEVER_ROUTE` names.

    After a forward: `route_ran`, the route that did the work; `route_note`, why when it is not the one asked
    for; `compile_s`, seconds spent compiling; `chunk_rows`, rows of a chunk when the batch was run in chunks.
    Its parameters are NaN until loaded. Raises ValueError for an unknown lever.
    """

    route_ran: str
    route_note: str
    compile_s: float | None
    chunk_rows: int | None

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._levers = levers.read()
        self._route = router.load(self._levers.route)
        self._rows: dict[tuple[object, ...], int] = {}
        self._report(None)

    @torch.no_grad()
    def forward(self, x: Tensor, valid_token_mask: Tensor | None = None) -> Tensor:
        """Map x [B,S,D] to a fresh [B,S,D], zeros where valid_token_mask [B,S] is False; no gradients."""
        if torch.compiler.is_compiling():
            # Somebody compiles the model from outside. It plans, and may compile itself: not to be traced.
            untraced: Callable[[Forward], Forward] = torch.compiler.disable
            return untraced(self._forward)(x, valid_token_mask)
        return self._forward(x, valid_token_mask)

    def _forward(self, x: Tensor, valid_token_mask: Tensor | None) -> Tensor:
        padding = Padding.of(valid_token_mask)
        kind = x.shape, x.dtype, x.device, padding.holes
        planned = self._rows.get(kind) or self._plan(x, padding)
        output, rows = chunking.run_in_chunks(self._runner(x, padding), x, planned)
        # What fitted once is kept: one answer for one shape, and no figure is asked of the driver again.
        self._rows[kind] = rows
        self._report(rows if rows < len(x) else None)
        return output

    @torch.no_grad()
    def chunk_difference(self, x: Tensor, valid_token_mask: Tensor | None = None) -> float:
        """The largest absolute difference that chunks make to the first rows of x, as many as fit at once.

        Compares them in one piece with the same in two halves; call it after a forward of x.
        """
        run = self._runner(x, Padding.of(valid_token_mask))
        rows = self.chunk_rows or len(x)
        half = -(-rows // 2)
        whole = run(0, rows)
        spans = ((start, min(start + half, rows)) for start in range(0, rows, half))
        worst = [run(start, stop).sub_(whole[start:stop]).abs_().max() for start, stop in spans]
        return float(torch.stack(worst).max())

    def _runner(self, x: Tensor, padding: Padding) -> Callable[[int, int], Tensor]:
        def run(start: int, stop: int) -> Tensor:
            return self._route.run(x[start:stop], padding.rows(start, stop), self, self._levers)

        return run

    def _plan(self, x: Tensor, padding: Padding) -> int:
        if self._levers.chunk is not None:
            return min(self._levers.chunk, len(x))
        row_bytes = self._route.bytes_per_row(x, padding, self)
        output_bytes, free = x.numel() * x.element_size(), chunking.free_bytes(x.device)
        return chunking.plan_rows(len(x), row_bytes, output_bytes, free, x.element_size())

    def _report(self, chunk_rows: int | None) -> None:
        self.route_ran, self.route_note = self._route.ran, self._route.note
        self.compile_s, self.chunk_rows = self._route.compile_s, chunk_rows


UserOptimizedTransformer = OptimizedTransformer
''',
    'model/weights.py': r'''"""The contract's parameters, under its names, and the views of them that the routes compute with."""

from __future__ import annotations

from typing import NamedTuple, Protocol, cast

import torch
from torch import Tensor, nn

Pair = tuple[Tensor, Tensor]


class Config(Protocol):
    """What the model reads of the contest's `TransformerConfig`."""

    @property
    def d_model(self) -> int:
        """Width D."""

    @property
    def num_heads(self) -> int:
        """Heads H, a divisor of D."""

    @property
    def ffn_dim(self) -> int:
        """FFN width F."""

    @property
    def num_layers(self) -> int:
        """Layers L."""

    @property
    def causal(self) -> bool:
        """Whether a token attends to earlier ones and itself only."""


class Layer(NamedTuple):
    """One layer's tensors as (weight, bias) pairs; `qkv` is one pair [3D,D], [3D] or three [D,D], [D]."""

    norm1: Pair
    qkv: tuple[Pair, ...]
    out: Pair
    norm2: Pair
    ffn_in: Pair
    ffn_out: Pair


class Tensors(NamedTuple):
    """Every tensor of the model."""

    layers: tuple[Layer, ...]
    final_norm: Pair


class Attention(nn.Module):
    """The four projections of one attention; it holds parameters, the routes compute."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        self._fused: Pair | None = None

    def separate_qkv(self) -> tuple[Pair, Pair, Pair]:
        """The pairs of q, k and v as they are."""
        return pair(self.q_proj), pair(self.k_proj), pair(self.v_proj)

    def fused_qkv(self) -> Pair:
        """Weight [3D,D] and bias [3D] of q, k and v in one.

        The parameters become views of them: loading or changing weights in place reaches both, nothing is
        held twice, and a parameter that was moved, cast or replaced shows by its address.
        """
        weights, biases = zip(*self.separate_qkv(), strict=True)
        if self._fused is None or not (_shares(self._fused[0], weights) and _shares(self._fused[1], biases)):
            self._fused = _join(weights), _join(biases)
        return self._fused


class Block(nn.Module):
    """One layer's parameters."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(config.d_model)
        self.attention = Attention(config.d_model)
        self.norm2 = nn.LayerNorm(config.d_model)
        self.ffn_in = nn.Linear(config.d_model, config.ffn_dim)
        self.ffn_out = nn.Linear(config.ffn_dim, config.d_model)

    def tensors(self, fused: bool) -> Layer:
        """The layer's tensors, q, k and v fused or apart."""
        return Layer(
            pair(self.norm1),
            (self.attention.fused_qkv(),) if fused else self.attention.separate_qkv(),
            pair(self.attention.out_proj),
            pair(self.norm2),
            pair(self.ffn_in),
            pair(self.ffn_out),
        )


class Weights(nn.Module):
    """All parameters of the model, NaN until they are loaded.

    Drawing them would cost time and move the random state; NaN cannot pass for a result.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        device = torch.get_default_device()
        with torch.device("meta"):
            self.layers = nn.ModuleList(Block(config) for _ in range(config.num_layers))
            self.final_norm = nn.LayerNorm(config.d_model)
        self.to_empty(device=device)
        for parameter in self.parameters():
            nn.init.constant_(parameter, float("nan"))

    @property
    def blocks(self) -> list[Block]:
        """The layers in order."""
        return [cast("Block", layer) for layer in self.layers]

    def tensors(self, fused: bool) -> Tensors:
        """Every tensor, q, k and v fused or apart."""
        return Tensors(tuple(block.tensors(fused) for block in self.blocks), pair(self.final_norm))


def pair(module: nn.Linear | nn.LayerNorm) -> Pair:
    """The (weight, bias) of a module that has both."""
    return module.weight, module.bias


def _shares(whole: Tensor, parts: tuple[Tensor, ...]) -> bool:
    # While `whole` lives nothing else can have an address inside it.
    step = parts[0].numel() * whole.element_size()
    return all(part.data_ptr() == whole.data_ptr() + i * step for i, part in enumerate(parts))


def _join(parts: tuple[Tensor, ...]) -> Tensor:
    with torch.inference_mode(False), torch.no_grad():
        whole = torch.cat([part.detach() for part in parts])
        for part, piece in zip(parts, whole.chunk(len(parts)), strict=True):
            part.data = piece
    return whole
''',
    'torch_transformer_benchmark.py': r'''"""The contest script's name for the harness, so that a model written for the script runs."""

from harness.contract import *
''',
}

"""Unpack the files to a temporary folder, check them against the bundle's hash, run their driver."""

import hashlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading


def digest(files):
    """Return the bundle's hash: the SHA-256 of the text that `sha256sum` prints for its files, sorted."""
    lines = [f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items())]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def unpack(files, folder):
    """Write the texts to real files; return what now stands there."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return {name: (folder / name).read_bytes() for name in files}


def drive(command, environment):
    """Run the driver, show each line at once, pass stop signals on; return its exit code after its end."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # a legacy code page must not end the run
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    options.update(env=environment, encoding="utf-8", errors="replace")
    with subprocess.Popen(command, **options) as driver:
        on_main = threading.current_thread() is threading.main_thread()
        stops = (signal.SIGINT, signal.SIGTERM) if on_main else ()
        before = {stop: signal.signal(stop, lambda number, _: driver.send_signal(number)) for stop in stops}
        try:
            for line in driver.stdout:
                print(line, end="", flush=True)
            code = driver.wait()
        finally:
            for stop, handler in before.items():
                signal.signal(stop, handler)
    return code if code >= 0 else 128 - code


def carry_out(order, run, files, bundle_sha256, args=()):
    """Unpack and check this kernel's files, then run their driver; return its exit code, or 2 if altered."""
    with tempfile.TemporaryDirectory(prefix="ferry-", ignore_cleanup_errors=True) as folder:
        home = pathlib.Path(folder)
        home.chmod(0o711)  # a candidate that runs as another user finds its files by name
        found = digest(unpack(files, home / "files"))
        if found != bundle_sha256:
            print(f"stopped: this kernel was altered: its files have hash {found}, not {bundle_sha256}")
            return 2
        if "--check" in args:
            for path in sorted(home.rglob("*.py")):
                compile(path.read_bytes(), str(path), "exec")
            print(f"checked: {len(files)} files, bundle {bundle_sha256}")
            return 0
        (home / "ORDER.json").write_text(order, encoding="utf-8")
        (home / "RUN.json").write_text(run, encoding="utf-8")
        # Running the folder, not `-m`, keeps a `harness/` in the working folder from taking its place.
        command = [sys.executable, "-u", str(home / "files"), str(home / "ORDER.json")]
        python_path = os.pathsep.join(filter(None, [str(home / "files"), os.environ.get("PYTHONPATH")]))
        return drive(
            [*command, "--run", str(home / "RUN.json"), *args], {**os.environ, "PYTHONPATH": python_path}
        )


if __name__ == "__main__":
    sys.exit(carry_out(ORDER, RUN, FILES, BUNDLE_SHA256, sys.argv[1:]))
