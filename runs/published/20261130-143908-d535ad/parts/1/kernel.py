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
 "bundle_sha256": "ef9240a36688baa255365897d7847409ac362826c7b3ecfa8a2234150f574443",
 "harness_sha256": "c4734ad54e73dee584104e2249514e327ac786f65d8ea329c48d1ef017662fe2",
 "model_sha256": "e445a0e9ff7a49a2efd301ad4fcd057624ad25d8a973f513e9d806fd9c237085",
 "model": "model",
 "own_harness": false,
 "asked_accelerator": "h200",
 "allow_mismatch": false,
 "devices": 0,
 "seeds": 1,
 "timeout_s": 0.0,
 "case_timeout_s": 1800.0
},
"cases": [
{"shape": {"key": "s01", "batch": 64, "seq_len": 128, "d_model": 128, "heads": 4, "ffn_dim": 128, "layers": 4, "causal": true, "padding_ratio": 0.0}, "route": "sdpa", "levers": {}, "dtype": "float32", "protocol": "official", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s02", "batch": 1, "seq_len": 128, "d_model": 128, "heads": 4, "ffn_dim": 128, "layers": 4, "causal": true, "padding_ratio": 0.0}, "route": "sdpa", "levers": {}, "dtype": "float32", "protocol": "official", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s03", "batch": 4, "seq_len": 128, "d_model": 128, "heads": 4, "ffn_dim": 128, "layers": 4, "causal": true, "padding_ratio": 0.0}, "route": "sdpa", "levers": {}, "dtype": "float32", "protocol": "official", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s04", "batch": 16, "seq_len": 128, "d_model": 128, "heads": 4, "ffn_dim": 128, "layers": 4, "causal": true, "padding_ratio": 0.0}, "route": "sdpa", "levers": {}, "dtype": "float32", "protocol": "official", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s05", "batch": 128, "seq_len": 128, "d_model": 128, "heads": 4, "ffn_dim": 128, "layers": 4, "causal": true, "padding_ratio": 0.0}, "route": "sdpa", "levers": {}, "dtype": "float32", "protocol": "official", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s06", "batch": 10000, "seq_len": 128, "d_model": 128, "heads": 4, "ffn_dim": 128, "layers": 4, "causal": true, "padding_ratio": 0.0}, "route": "sdpa", "levers": {}, "dtype": "float32", "protocol": "official", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s07", "batch": 64, "seq_len": 128, "d_model": 32, "heads": 4, "ffn_dim": 32, "layers": 4, "causal": true, "padding_ratio": 0.0}, "route": "sdpa", "levers": {}, "dtype": "float32", "protocol": "official", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s08", "batch": 64, "seq_len": 128, "d_model": 1024, "heads": 4, "ffn_dim": 1024, "layers": 4, "causal": true, "padding_ratio": 0.0}, "route": "sdpa", "levers": {}, "dtype": "float32", "protocol": "official", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s09", "batch": 64, "seq_len": 128, "d_model": 128, "heads": 1, "ffn_dim": 128, "layers": 4, "causal": true, "padding_ratio": 0.0}, "route": "sdpa", "levers": {}, "dtype": "float32", "protocol": "official", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s10", "batch": 64, "seq_len": 128, "d_model": 128, "heads": 2, "ffn_dim": 128, "layers": 4, "causal": true, "padding_ratio": 0.0}, "route": "sdpa", "levers": {}, "dtype": "float32", "protocol": "official", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s11", "batch": 64, "seq_len": 128, "d_model": 128, "heads": 16, "ffn_dim": 128, "layers": 4, "causal": true, "padding_ratio": 0.0}, "route": "sdpa", "levers": {}, "dtype": "float32", "protocol": "official", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s12", "batch": 64, "seq_len": 32, "d_model": 128, "heads": 4, "ffn_dim": 128, "layers": 4, "causal": true, "padding_ratio": 0.0}, "route": "sdpa", "levers": {}, "dtype": "float32", "protocol": "official", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s13", "batch": 64, "seq_len": 1024, "d_model": 128, "heads": 4, "ffn_dim": 128, "layers": 4, "causal": true, "padding_ratio": 0.0}, "route": "sdpa", "levers": {}, "dtype": "float32", "protocol": "official", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s14", "batch": 32, "seq_len": 100000, "d_model": 1024, "heads": 16, "ffn_dim": 1024, "layers": 2, "causal": true, "padding_ratio": 0.0}, "route": "sdpa", "levers": {}, "dtype": "float32", "protocol": "official", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []},
{"shape": {"key": "s14", "batch": 32, "seq_len": 100000, "d_model": 1024, "heads": 16, "ffn_dim": 1024, "layers": 2, "causal": true, "padding_ratio": 0.0}, "route": "sdpa", "levers": {}, "dtype": "float16", "protocol": "official", "counts": {"warmup": 20, "repeats": 100, "rounds": 3}, "harness_args": []}
]}
'''
RUN = '{"run_id": "20261130-143908-d535ad", "part": 1, "git_commit": "c4f742a26c790a8d71986c5031c1722949ba90c5", "git_dirty": false}'

# The bundle: name and text of each file.
BUNDLE_SHA256 = 'ef9240a36688baa255365897d7847409ac362826c7b3ecfa8a2234150f574443'
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
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

_QUERY = "index,uuid,name,memory.total,driver_version"
_LINE = re.compile(r"\d+(,[^,]*){4}$")
_MIB = 2**20


@dataclass(frozen=True)
class Card:
    """One GPU, or the CPU with index -1. `pin` is what CUDA_VISIBLE_DEVICES gets to see this card alone.

    `threads` is how many CPU threads a process on it may use, 0 for no rule; memory 0 is unknown.
    """

    index: int
    name: str
    memory_bytes: int
    driver: str = ""
    pin: str = ""
    threads: int = 0

    @property
    def is_gpu(self) -> bool:
        """Whether this is a GPU."""
        return self.index >= 0

    def matches(self, asked: str) -> bool:
        """Whether the card is what was asked for: nothing, `any` GPU, `cpu`, or words of its name.

        Whole words: an `L4` is no L40S, an `A10` no A100.
        """
        if asked in ("", "any", "cpu"):
            return asked == "" or self.is_gpu == (asked == "any")
        return self.is_gpu and bool(re.search(rf"(?<!\w){re.escape(asked)}(?!\w)", self.name, re.IGNORECASE))


def find_cards(asked: str, devices: int) -> list[Card]:
    """Return the cards to use: those that match `asked`, else whatever is there; at most `devices`, 0 = all.

    Without a GPU, or when `cpu` is asked for, the CPU is as many equal cards as `devices` says.
    """
    gpus = [] if asked == "cpu" else _visible(_gpus(), os.environ)
    chosen = [card for card in gpus if card.matches(asked)] or gpus
    return chosen[: devices or None] or [_cpu(max(1, devices))] * max(1, devices)


def _gpus() -> list[Card]:
    command = ["nvidia-smi", f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [_gpu(line) for line in answer.splitlines() if _LINE.match(line)]


def _gpu(line: str) -> Card:
    index, uuid, name, memory, driver = (part.strip() for part in line.split(","))
    size = int(memory) * _MIB if memory.isdigit() else 0
    return Card(int(index), name, size, driver, pin=uuid)


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


def _cpu(workers: int) -> Card:
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return Card(-1, f"cpu {_cpu_name()}", _total_memory(), threads=max(1, cores // workers))


def _cpu_name() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _total_memory() -> int:
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
    'harness/channel.py': r'''"""Typed request and reply between the driver and its children. Standard library only.

Each message is one JSON line, `["Build", {…}]`, over a pair of pipes that are nobody's stdin, stdout or
stderr: what a candidate prints can never be taken for a reply, and nothing is ever unpickled.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from harness.events import Device, Samples, from_plain, to_plain
from harness.plain import UNREADABLE
from harness.shapes import Case, Settings

# --- requests ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hello:
    """To both: import torch and take the device, `cuda` or `cpu`. Answer: Ready."""

    device: str


@dataclass(frozen=True)
class Load:
    """To both: import the contract; to the worker: import the candidate, module `model`. Answer: Done."""

    own_harness: bool
    model: str = ""


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


@dataclass(frozen=True)
class Check:
    """To the judge: gate the output at `path`, in its dtype, for the same input. Answer: Figures."""

    input_seed: int
    path: str
    dtype: str


@dataclass(frozen=True)
class Rest:
    """To the judge: let go of the device's memory, the timing comes now. Answer: Done."""


@dataclass(frozen=True)
class Time:
    """To the worker: time baseline and candidate by the contract's protocol. Answer: Timed."""


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
class Figures:
    """The gate's figures of one output, and the tolerances it was held to."""

    passed: bool
    failed_elements: int
    total_elements: int
    max_abs: float
    max_rel: float
    gate_share: float
    rtol: float = Settings.rtol
    atol: float = Settings.atol


@dataclass(frozen=True)
class Timed:
    """Every sample of both sides, in the order taken."""

    samples: tuple[Samples, ...]
    facts: Facts


@dataclass(frozen=True)
class Problem:
    """The request failed and the child lives; `kind` is the exception's class or a word for what is wrong."""

    status: str
    kind: str
    error: str


Message = (
    Hello | Load | Build | Forward | Check | Rest | Time | Ready | Done | Output | Figures | Timed | Problem
)
_KINDS: dict[str, type[Any]] = {
    cls.__name__: cls
    for cls in (
        *(Hello, Load, Build, Forward, Check, Rest, Time),
        *(Ready, Done, Output, Figures, Timed, Problem),
    )
}


class BrokenMessageError(ValueError):
    """A line on the channel is no message: somebody else wrote there."""


def pack(message: Message) -> bytes:
    """Return the message's line, line end included."""
    return json.dumps([type(message).__name__, to_plain(message)]).encode() + b"\n"


def unpack(line: bytes) -> Message:
    """Undo `pack`. Raises BrokenMessageError when the line is not what it wrote."""
    try:
        kind, body = json.loads(line)
        message: Message = from_plain(_KINDS[kind], body)
    except UNREADABLE as problem:
        raise BrokenMessageError(f"{line[:80]!r} is no message") from problem
    return message
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
    """

    def __init__(self, prefix: str, write: Callable[[list[str]], None]) -> None:
        self._prefix = prefix
        self._write = write
        self._partial: dict[str, bytes] = {}
        self._begin()

    def _begin(self) -> None:
        self._head_bytes = self._tail_bytes = self._left_out = 0
        self._tail: deque[str] = deque()

    def hear(self, speaker: str, data: bytes) -> None:
        """Take what `speaker` has printed; a line that has not ended yet waits for its end."""
        *whole, partial = (self._partial.get(speaker, b"") + data).split(b"\n")
        cut = len(partial) - len(partial) % LINE_BYTES
        self._partial[speaker] = partial[cut:]
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
        return x, mask


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

from harness.cards import find_cards
from harness.carried import CannotContinueError, Carried, read_carried
from harness.events import Order, RunRef, from_plain
from harness.limits import Limits
from harness.outlet import Outlet, to_events_file, to_stdout
from harness.process import ROOT
from harness.shapes import SHAPES, Counts, parse_duration, parse_settings
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
    except (UsageError, CannotContinueError) as problem:
        print(f"harness.driver: {problem}", file=sys.stderr)
        return 2
    limits = Limits(min((s for s in (options.deadline_s, order.terms.timeout_s) if s), default=0.0))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: limits.stop())
    places = [to_stdout()] if options.rehearse else [to_stdout(), to_events_file(Path.cwd())]
    outlet = Outlet(carried.ref.run_id, carried.ref.part, carried.attempt, places)
    sweep = Sweep(order, carried, limits, outlet)
    sweep.announce()
    cards = find_cards(order.terms.asked_accelerator, order.terms.devices)
    wrong = sweep.refuse_wrong_accelerator(cards)
    sweep.close("wrong_accelerator" if wrong else sweep.carry_out(cards, ROOT / "scratch"))
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
    """Read the order. Raises UsageError when there is none in the file."""
    order = _read(options.order, Order)
    for case in order.cases:
        try:
            parse_settings(case.harness_args)
        except ValueError as problem:
            raise UsageError(f"{options.order}, {case.id}: {problem}") from problem
    if not order.cases:
        raise UsageError(f"{options.order} orders no case")
    if len({case.id for case in order.cases}) < len(order.cases):
        raise UsageError(f"{options.order} orders a case twice")
    return rehearsal(order) if options.rehearse else order


def rehearsal(order: Order) -> Order:
    """Return an order for one tiny case on the CPU that goes the way of the order's first case."""
    first = order.cases[0]
    case = replace(
        first,
        shape=SHAPES["t01"],
        protocol="short",
        counts=Counts(1, 1, 1),
        harness_args=(*first.harness_args, "--accuracy-trials", "1"),
    )
    terms = replace(order.terms, asked_accelerator="cpu", devices=1, seeds=1)
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
    """Return what a row says of the card's threads."""
    return {"threads": str(card.threads), "wait_policy": "passive"} if card.threads else {}
''',
    'harness/events.py': r'''"""The one event grammar between device and host. Standard library only; the host imports this module.

An event is one log line: a marker that ordinary output never has, then one ASCII JSON object

    @@ferry@@ {"v":1,"run":"…","part":1,"attempt":1,"seq":7,"at":3.2,"kind":"case","body":{…},"check":"9f3a…"}

`check` is the CRC-32 of the text before it. (run, part, attempt, seq) names an event: a replay has the same
name, a restarted kernel has a higher attempt, a hole in seq means that lines were lost.
Times in samples are whole nanoseconds in 64 bits: one call of shape 14 overflows 32.
"""

from __future__ import annotations

import dataclasses
import json
import zlib
from dataclasses import dataclass, field
from typing import Any

from harness.plain import UNREADABLE, unpack_ns
from harness.plain import from_plain as from_plain
from harness.plain import pack_ns as pack_ns
from harness.plain import to_plain as to_plain
from harness.shapes import Case, Settings

MARKER = "@@ferry@@ "
VERSION = 1
SAMPLES_PER_EVENT = 500  # keeps an event under 4 kB


class DamagedEventError(ValueError):
    """A line has the marker, but what follows is not a whole event."""


# --- what the kernel is told ------------------------------------------------------------------------------


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
    `model` is the module to import the candidate from. Times are in seconds; 0 is no limit.
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


@dataclass(frozen=True)
class Order:
    """What a kernel carries out: terms and cases."""

    terms: Terms
    cases: tuple[Case, ...]


# --- what the kernel reports ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """First event of an attempt. `planned` events with each case follow; `carried` cases need no new run."""

    ref: RunRef
    terms: Terms
    planned: int
    started_at: str
    carried: int = 0
    deadline_s: float = 0.0


@dataclass(frozen=True)
class Planned:
    """One case of the plan, in the plan's order."""

    index: int
    case: Case


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
class Started:
    """A case was dealt to a card."""

    case_id: str
    device_index: int


@dataclass(frozen=True)
class Samples:
    """Times of one side (`baseline` or `candidate`) in one round, from sample `start` on, packed."""

    case_id: str
    side: str
    round: int
    start: int
    ns: str

    @property
    def values(self) -> tuple[int, ...]:
        """The times in nanoseconds. Raises DamagedEventError when they do not unpack."""
        try:
            return unpack_ns(self.ns)
        except ValueError as problem:
            raise DamagedEventError(f"samples do not unpack: {problem}") from problem


@dataclass(frozen=True)
class Gate:
    """The worst figures of one case's gate over all weight and input seeds.

    `gate_share` is the worst element's share of its own budget: above 1 it fails.
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
    """Last event of an attempt. `reason`: complete, deadline, stopped, wrong_accelerator, driver_error."""

    reason: str
    counts: dict[str, int]
    wall_s: float


Body = Plan | Planned | Device | Started | Samples | CaseDone | Note | End
KINDS: dict[str, type[Any]] = {
    "plan": Plan,
    "planned": Planned,
    "device": Device,
    "started": Started,
    "samples": Samples,
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


def encode(event: Event) -> str:
    """Return the event's line without a line end."""
    envelope = {
        "v": VERSION,
        **dataclasses.asdict(event.name),
        "at": to_plain(round(event.at, 3)),
        "kind": _KIND_OF[type(event.body)],
        "body": to_plain(event.body),
    }
    text = json.dumps(envelope, separators=(",", ":"), allow_nan=False)[:-1]
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
    if version != VERSION or kind not in KINDS:
        raise ValueError(f"version {version!r:.20}, kind {kind!r:.20}")
    name = from_plain(Name, envelope)
    return Event(name, from_plain(float, envelope["at"]), from_plain(KINDS[kind], envelope["body"]))


def _check(text: str) -> str:
    return f"{zlib.crc32(text.encode(errors='surrogatepass')):08x}"
''',
    'harness/exchange.py': r'''"""Folders through which a worker hands outputs to its judge. Standard library only."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

MEMORY = Path("/dev/shm")  # noqa: S108 (the folder made in it has a random name)
_PREFIX = "ferry-"
_ABANDONED_AFTER_S = 60.0


class Exchange:
    """A folder in memory, where there is one to be had, and one on disk under `scratch`.

    The folder in memory is locked as long as this process lives: what a killed run has left there is found
    by its open lock and removed by the next run.
    """

    def __init__(self, scratch: Path, memory: Path = MEMORY) -> None:
        self.folders: tuple[str, ...] = (tempfile.mkdtemp(prefix=_PREFIX, dir=scratch),)
        self._lock = -1
        with contextlib.suppress(OSError):
            _remove_abandoned(memory)
            folder = tempfile.mkdtemp(prefix=_PREFIX, dir=memory)
            self.folders = (folder, *self.folders)
            self._lock = _locked(Path(folder))

    def clear(self) -> None:
        """Remove what a case has left; a candidate may have removed it, too, even with its folder."""
        for folder in self.folders:
            with contextlib.suppress(OSError):
                Path(folder).mkdir(mode=0o700, exist_ok=True)
                for file in Path(folder).iterdir():
                    file.unlink()

    def close(self) -> None:
        """Remove the folders."""
        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)
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
    'harness/gate.py': r'''"""The contest's accuracy gate: an element passes by its absolute or its relative error, never by a sum."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from harness.baseline import TransformerConfig
from harness.inputs import generate_random_case

SHOWN_FEATURE_DIMS = 16
REFERENCE_FLOOR = 1e-12
INF = float("inf")


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


def _error_and_magnitude(reference: Tensor, optimized: Tensor) -> tuple[Tensor, Tensor]:
    """Return |o - r| and |r| on float32 copies; the error of a pair that is not finite is inf."""
    if reference.shape != optimized.shape:
        raise ValueError(
            f"the output's shape {tuple(optimized.shape)} is not the reference's {tuple(reference.shape)}"
        )
    reference, optimized = reference.float(), optimized.float()
    error = (optimized - reference).abs_()
    error.masked_fill_(~(reference.isfinite() & optimized.isfinite()), INF)
    return error, reference.abs()


def compare_outputs(reference: Tensor, optimized: Tensor, rtol: float, atol: float) -> AccuracyResult:
    """Compare element by element: both finite, and |o - r| <= atol or |o - r| <= rtol * |r|, in float32.

    Raises ValueError when the shapes differ; a difference in dtype only warns.
    """
    if reference.dtype != optimized.dtype:
        warnings.warn(f"the output is {optimized.dtype}, the reference {reference.dtype}", stacklevel=2)
    error, magnitude = _error_and_magnitude(reference, optimized)
    infinite = error.isinf()
    # As the contract writes it: what passes is what compares, so that a budget of nan lets nothing through.
    failed = ~((error <= atol) | (error <= rtol * magnitude)) | infinite
    relative = (error / magnitude.clamp_(min=REFERENCE_FLOOR)).masked_fill_(infinite, INF)
    failed_elements = int(failed.sum())
    worst = tuple(int(i) for i in torch.unravel_index(error.argmax(), error.shape))
    return AccuracyResult(
        passed=failed_elements == 0,
        total_elements=error.numel(),
        failed_elements=failed_elements,
        max_abs_error=float(error.max()),
        max_relative_error=float(relative.max()),
        mean_abs_error=float(error.mean()),
        failed_feature_dims=failed.reshape(-1, failed.shape[-1]).any(dim=0).nonzero().flatten().tolist(),
        worst_index=worst,
        reference_at_worst=float(reference[worst]),
        optimized_at_worst=float(optimized[worst]),
    )


def gate_share(reference: Tensor, optimized: Tensor, rtol: float, atol: float) -> float:
    """Return the worst element's |o - r| as a share of its own budget, max(atol, rtol * |r|).

    Above 1 exactly when `compare_outputs` fails; inf for a nan or an inf on either side.
    Raises ValueError when the shapes differ.
    """
    error, magnitude = _error_and_magnitude(reference, optimized)
    share = error / magnitude.mul_(rtol).clamp_(min=atol)
    # 0/0, under a budget of nothing, is no error at all; inf/inf is one.
    return float(share.masked_fill_(error == 0, 0.0).masked_fill_(error.isinf(), INF).max())


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
    'harness/inputs.py': r'''"""The contest's random inputs."""

from __future__ import annotations

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
from pathlib import Path
from types import ModuleType

import torch

from harness.candidate import load_contract
from harness.channel import Build, Check, Done, Figures, Hello, Load, Message, Ready, Rest
from harness.drawing import Drawn, describe, draw, free_memory, take_device
from harness.gate import gate_share


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
            case Check(input_seed=seed, path=path, dtype=dtype):
                return self._check(seed, Path(path), getattr(torch, dtype))
            case Rest():
                self._drawn = None
                gc.collect()
                free_memory(self._device)
            case _:
                raise TypeError(f"the judge has no answer to {type(request).__name__}")
        return Done()

    def _check(self, seed: int, path: Path, dtype: torch.dtype) -> Figures:
        drawn = self._drawn
        assert drawn is not None
        try:
            with torch.inference_mode():
                return self._figures(drawn, seed, path, dtype)
        finally:
            path.unlink(missing_ok=True)
            free_memory(self._device)

    def _figures(self, drawn: Drawn, seed: int, path: Path, dtype: torch.dtype) -> Figures:
        x, mask = drawn.inputs(seed)
        reference = drawn.baseline(x, mask)
        raw = torch.from_file(str(path), shared=True, size=x.numel(), dtype=dtype)
        output = raw.view(x.shape).to(drawn.device)
        tolerances = (drawn.settings.rtol, drawn.settings.atol)
        result = drawn.contract.compare_outputs(reference, output, *tolerances)
        return Figures(
            passed=bool(result.passed),
            failed_elements=int(result.failed_elements),
            total_elements=int(result.total_elements),
            max_abs=float(result.max_abs_error),
            max_rel=float(result.max_relative_error),
            gate_share=float(gate_share(reference, output, *tolerances)),
            rtol=float(drawn.settings.rtol),
            atol=float(drawn.settings.atol),
        )
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

    def elapsed(self) -> float:
        """Return the seconds since the run began."""
        return time.monotonic() - self._begin


class Watch:
    """Guards one case: `check` raises CaseFailureError once its own limit or the run's has passed."""

    def __init__(self, limits: Limits, seconds: float) -> None:
        self._limits = limits
        self._seconds = seconds
        self._begin = time.monotonic()

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
    "wrong_accelerator": "the accelerator that came is not the one that was asked for",
}
''',
    'harness/measuring.py': r'''"""The worker's desk: builds the candidate as the contest's script does, runs it, and times both sides."""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from harness import observing
from harness.candidate import load_candidate, load_contract
from harness.channel import Build, Done, Facts, Forward, Hello, Load, Message, Output, Ready, Time, Timed
from harness.drawing import Drawn, describe, draw, free_memory, take_device
from harness.events import SAMPLES_PER_EVENT, Samples, pack_ns
from harness.timing import SEED_OFFSET

NOTE_CHARACTERS = 1000


@dataclass
class Built:
    """What one case needs: the drawn baseline and the candidate beside it."""

    drawn: Drawn
    candidate: nn.Module
    precision: str  # the state of the global flags before there was a candidate


class Desk:
    """Answers the driver. One case at a time."""

    def __init__(self, device: str) -> None:
        self._device = take_device(device)
        self._contract: ModuleType | None = None
        self._loaded: Any = None
        self._built: Built | None = None
        self._facts = Facts()

    def answer(self, request: Message) -> Message:
        """Do what is asked and say what came of it."""
        match request:
            case Hello():
                return Ready(describe(self._device))
            case Load():
                self._contract = load_contract(request.own_harness)
                self._loaded = load_candidate(request.model)
            case Build():
                self._build(request)
            case Forward():
                return self._forward(request)
            case Time():
                return self._time()
            case _:
                raise TypeError(f"the worker has no answer to {type(request).__name__}")
        return Done()

    # --- building -----------------------------------------------------------------------------------------

    def _build(self, request: Build) -> None:
        assert self._contract is not None
        if self._built is None or self._built.drawn.case != request.case:
            self._facts = Facts()
        self._built = None
        gc.collect()
        free_memory(self._device)
        drawn = draw(self._contract, request.case, request.weight_seed, self._device)
        precision = observing.precision_state()
        candidate = self._loaded.model_class(drawn.config)
        strict = not drawn.settings.non_strict_weight_copy
        self._loaded.copy_model_weights(drawn.baseline, candidate, strict=strict)
        drawn.placed(drawn.baseline)
        self._built = Built(drawn, drawn.placed(candidate), precision)
        observing.reset_peak_memory(self._device)

    # --- the gate's half ----------------------------------------------------------------------------------

    def _forward(self, request: Forward) -> Output:
        built = self._built
        assert built is not None
        with torch.inference_mode():
            x, mask = built.drawn.inputs(request.input_seed)
            begin = time.perf_counter()
            output = built.candidate(x, mask)
            observing.synchronize(self._device)
            seconds = time.perf_counter() - begin
            path = observing.hand_over(observing.checked(output, x), request.folders)
            dtype = observing.dtype_name(output)
        first = seconds if self._facts.first_call_s is None else self._facts.first_call_s
        flags = self._facts.flags | ({"output_dtype": dtype} if output.dtype != x.dtype else {})
        peak = observing.peak_memory_mib(self._device)
        self._facts = replace(self._facts, first_call_s=first, peak_mem_mib=peak, flags=flags)
        self._ask_candidate(built)
        del output, x, mask
        free_memory(self._device)
        return Output(path, dtype, self._facts)

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

    def _time(self) -> Timed:
        built = self._built
        assert built is not None
        drawn, contract = built.drawn, built.drawn.contract
        counts = drawn.case.counts.shortened(drawn.case.shape)
        inputs = drawn.inputs(drawn.seed + SEED_OFFSET)
        sides = [("baseline", drawn.baseline), ("candidate", built.candidate)]
        for _, model in sides:
            contract.warmup_model(model, *inputs, counts.warmup, self._device)
        samples: list[Samples] = []
        for number in range(counts.rounds):
            for side, model in sides if number % 2 == 0 else reversed(sides):
                taken = contract.benchmark_once(model, *inputs, counts.repeats, self._device)
                samples += packed(drawn.case.id, side, number, taken)
        self._look_after_timing(built, *inputs)
        return Timed(tuple(samples), self._facts)

    def _look_after_timing(self, built: Built, x: Tensor, mask: Tensor) -> None:
        """Find out what would disturb the timing if it came first; too little memory is no failure."""
        self._ask_candidate(built)
        flags = dict(self._facts.flags)
        rows = getattr(built.candidate, "chunk_rows", None)
        with torch.inference_mode():
            aliases = observing.unless_out_of_memory(
                lambda: observing.aliases_output(built.candidate, x, mask)
            )
            if isinstance(rows, int) and 0 < rows < x.shape[0]:
                difference = observing.unless_out_of_memory(
                    lambda: chunk_difference(built.candidate, x, mask)
                )
                flags["chunk_rows"] = str(rows)
                flags["chunk_diff"] = "out of memory" if difference is None else f"{difference:.6g}"
        self._facts = replace(self._facts, aliases_output=aliases, flags=flags)


def chunk_difference(model: Any, x: Tensor, mask: Tensor) -> float:
    """Return the model's own figure for how far its chunked output is from the unchunked one."""
    return float(model.chunk_difference(x, mask))


def packed(case_id: str, side: str, number: int, samples_ms: list[float]) -> list[Samples]:
    """Return one round's times of one side as events of at most SAMPLES_PER_EVENT whole nanoseconds."""
    ns = [round(ms * 1e6) for ms in samples_ms]
    return [
        Samples(case_id, side, number, start, pack_ns(ns[start : start + SAMPLES_PER_EVENT]))
        for start in range(0, len(ns), SAMPLES_PER_EVENT)
    ]
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
    an error. Another floating-point dtype is gated as it is, as in the contest's script.
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
            shared.view(output.shape).copy_(output)
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
    'harness/outlet.py': r'''"""Where the driver's lines go: stdout and the events file. Standard library only."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.events import Body, Event, Name, encode

EVENTS_FILE = "ferry-events.jsonl"

Write = Callable[[bytes], None]


class Outlet:
    """Numbers and writes one attempt's events; many threads may use it.

    A place that can no longer be written to is given up; the others go on.
    """

    def __init__(self, run: str, part: int, attempt: int, places: Sequence[Write]) -> None:
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
                lines.append(encode(event))
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
from typing import TypeVar

from harness.channel import BrokenMessageError, Done, Hello, Load, Message, Problem, Ready, pack, unpack
from harness.events import Device
from harness.limits import CaseFailureError, Watch

ROOT = Path(__file__).resolve().parent.parent  # the folder that the bundle was unpacked to
TICK_S = 0.25
FAREWELL_S = 1.0  # for a child to leave by itself, so that its last words are heard
DYING_S = 5.0  # from the end of its channel to that of the child: a card takes seconds to let go of
REPLY_BYTES = 1 << 24  # a longer one is none of ours
_TAG = "FERRY_CHILD"
_SILENT = "ignore:Failed to initialize NumPy"  # torch says so at every start where there is no numpy

M = TypeVar("M")


class Child:
    """One running `python -m harness.<name>`, greeted at once; `hear` takes the bytes that it prints."""

    def __init__(
        self, name: str, device: str, environment: Mapping[str, str], hear: Callable[[bytes], None]
    ) -> None:
        self.name = name
        self._hear = hear
        self._tag = uuid.uuid4().hex
        self._oom_kills = _oom_kills()
        requests_end, self._requests = os.pipe()
        self._replies, replies_end = os.pipe()
        try:
            self._process = _start(name, requests_end, replies_end, {**environment, _TAG: self._tag})
        finally:
            os.close(requests_end)
            os.close(replies_end)
        assert self._process.stdout is not None
        self._said = self._process.stdout.fileno()
        self._unread = bytearray()
        self._silent_since = math.inf  # when its end of the channel was closed
        self._selector = selectors.DefaultSelector()
        for source in (self._replies, self._said):
            self._selector.register(source, selectors.EVENT_READ)
        self._device: Device | None = None
        self._send(Hello(device))  # the answer is read later: children start side by side

    @property
    def alive(self) -> bool:
        """Whether the child may still be asked."""
        return self._said >= 0

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
            reply = unpack(self._next_line(watch))
            if not isinstance(reply, (kind, Problem)):
                raise BrokenMessageError(f"{type(reply).__name__} is no answer here")
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
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        _kill_tagged(self._tag)
        with contextlib.suppress(subprocess.TimeoutExpired):  # stuck in the driver of a sick card
            self._process.wait(timeout=2)
        self._drain(until=time.monotonic() + TICK_S)
        self._selector.close()
        self._close_requests()
        os.close(self._replies)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._said = -1

    # --- the pipes ----------------------------------------------------------------------------------------

    def _send(self, request: Message) -> None:
        with contextlib.suppress(OSError):  # a dead child is noticed where its reply is missing
            os.write(self._requests, pack(request))

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


def _start(name: str, requests: int, replies: int, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [
            *(interpreter(), "-u", "-X", "faulthandler", "-W", _SILENT, "-m", f"harness.{name}"),
            *(str(requests), str(replies), str(Path.cwd())),
        ],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,
        pass_fds=(requests, replies),
        start_new_session=True,
    )


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

from harness.channel import Hello, Message, Problem, pack, unpack

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
            reply = _answer(desk, unpack(line))
            if os.getpid() != me:
                os._exit(0)  # a fork that the candidate let run out of its own code
            outgoing.write(pack(reply))
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

The 14 official shapes are the contest's appendix: all causal, FFN width = model width.
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

# These routes choose among the others; any other route was asked for by its own name and must run as asked.
CHOOSING_ROUTES = frozenset({"auto", "safe", "fast", "fp16"})

DTYPE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


@dataclass(frozen=True)
class Shape:
    """One problem size. B, S, D, H, F, L = batch, sequence, width, heads, FFN width, layers."""

    key: str
    batch: int
    seq_len: int
    d_model: int
    heads: int
    ffn_dim: int
    layers: int
    causal: bool = True
    padding_ratio: float = 0.0

    @property
    def tokens(self) -> int:
        """Tokens of one forward, padding included."""
        return self.batch * self.seq_len

    def reference_bytes(self, dtype: str) -> int:
        """The least memory in bytes that the baseline needs: its [B,H,S,S] scores, x and y."""
        elements = self.batch * self.heads * self.seq_len**2 + 2 * self.tokens * self.d_model
        return elements * DTYPE_BYTES[dtype]


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

SHAPES = {shape.key: shape for shape in (*OFFICIAL, *OFFICIAL_SMALL, *TINY)}


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
            "4 official shapes under 4 lever settings",
            tuple(SHAPES[key] for key in ("s01", "s07", "s08", "s13")),
            routes=("sdpa",),
            lever_settings=({}, {"LEVER_QKV": "separate"}, {"LEVER_RESIDUAL": "new"}, {"LEVER_CHUNK": "16"}),
        ),
    )
}
''',
    'harness/station.py': r'''"""One card and the two processes on it: a case's life, gate first, timing second. Standard library only."""

from __future__ import annotations

import math
import os
import traceback
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from harness.cards import Card
from harness.channel import Build, Check, Done, Facts, Figures, Forward, Load, Output, Rest, Time, Timed
from harness.chatter import Relay
from harness.environment import for_judge, for_worker, thread_flags
from harness.events import CaseDone, Device, Gate, Samples, Terms
from harness.exchange import Exchange
from harness.limits import CaseFailureError, Limits, Watch
from harness.process import Child
from harness.shapes import CHOOSING_ROUTES, Case, Settings, parse_settings

WEIGHT_SEED_STEP = 1000

Setting = tuple[str, tuple[tuple[str, str], ...]]


class Station:
    """A card, its judge, and the worker of the moment. `say` takes lines of chatter for the log."""

    def __init__(
        self, card: Card, terms: Terms, limits: Limits, scratch: Path, say: Callable[[list[str]], None]
    ) -> None:
        self.card = card
        self._terms = terms
        self._limits = limits
        self._scratch = scratch
        self._relay = Relay(f"gpu{card.index}| " if card.is_gpu else "cpu| ", say)
        self._judge: Child | None = None
        self._worker: Child | None = None
        self._setting: Setting | None = None  # what the worker was started for
        self._used = False  # whether the worker has served a case
        self._unloadable: dict[Setting, CaseFailureError] = {}
        self._done = CaseDone("", card.index, "unknown")
        self._exchange = Exchange(scratch)

    def open(self, first: Case | None) -> Device:
        """Start the judge, and beside it the worker that `first` will need; return what the card is.

        Raises CaseFailureError when no case can ever be carried here: no torch, no working card.
        """
        judge = self._hire_judge()
        if first is not None:
            self._hire_worker(first)
        seen = as_seen(self.card, judge.welcome(Load(self._terms.own_harness), self._watch()))
        # A slice's size is not known before; without one nothing would be infeasible.
        self.card = replace(self.card, memory_bytes=self.card.memory_bytes or seen.memory_mib * 2**20)
        return seen

    def carry(self, case: Case) -> tuple[tuple[Samples, ...], CaseDone]:
        """Take one case through its life and return how it ended; only a passed case has samples."""
        self._done = CaseDone(case.id, self.card.index, "error", flags=self._first_flags(case))
        samples: tuple[Samples, ...] = ()
        try:
            watch = self._watch()
            self._refuse_infeasible(case)
            self._gather(case, watch)
            self._gate(case, watch)
            samples = self._time(case, watch)
            self._done = replace(
                self._done, status="passed", samples=sum(len(part.values) for part in samples)
            )
        except CaseFailureError as failure:
            self._fail(failure)
        except Exception as error:  # noqa: BLE001 (a fault of our own costs the case, too, and not the run)
            traceback.print_exc()
            self._end_judge()
            samples = ()
            words = f"the driver failed, its traceback is in the log: {error}"
            self._fail(CaseFailureError("error", f"driver:{type(error).__name__}", words))
        self._relay.end()
        return samples, self._done

    def _fail(self, failure: CaseFailureError) -> None:
        self._done = replace(self._done, status=failure.status, error_kind=failure.kind, error=failure.error)

    def tidy(self, case: Case) -> None:
        """After the case's end is told: part with whoever must not serve the next one."""
        if self._done.error_kind.startswith("judge:"):
            self._end_judge()
        if case.protocol == "official" or self._done.status not in ("passed", "infeasible"):
            self._end_worker()

    def close(self) -> None:
        """End both processes and remove what they have exchanged."""
        self._end_worker()
        self._end_judge()
        self._relay.end()
        self._exchange.close()

    # --- a case's life ------------------------------------------------------------------------------------

    def _refuse_infeasible(self, case: Case) -> None:
        need, have = case.shape.reference_bytes(case.dtype), self.card.memory_bytes
        if have and need > have:
            raise CaseFailureError(
                "infeasible",
                "memory",
                f"the baseline needs {need} bytes at this size, the device has {have}",
            )

    def _gather(self, case: Case, watch: Watch) -> None:
        """Have judge and worker ready for the case."""
        setting = setting_of(case)
        if setting in self._unloadable:
            raise self._unloadable[setting]
        judge, worker = self._hire_judge(), self._hire_worker(case)
        self._used = True
        judge.welcome(Load(self._terms.own_harness), watch)
        try:
            worker.welcome(Load(self._terms.own_harness, self._terms.model), watch)
        except CaseFailureError as failure:
            if worker.alive:  # it could say what is wrong: a second try would say the same
                self._unloadable[setting] = failure
            raise

    def _gate(self, case: Case, watch: Watch) -> None:
        """Let the judge compare every output with the reference. Raises CaseFailureError unless all pass."""
        assert self._judge and self._worker
        settings = parse_settings(case.harness_args)
        weight_seeds = [settings.seed + WEIGHT_SEED_STEP * i for i in range(max(1, self._terms.seeds))]
        figures, input_seeds = [], []
        for weight_seed in reversed(weight_seeds):  # the contest's own comes last: the timing goes on with it
            self._judge.ask(Build(case, weight_seed), Done, watch)
            self._worker.ask(Build(case, weight_seed), Done, watch)
            for seed in range(weight_seed, weight_seed + settings.accuracy_trials):
                output = self._worker.ask(Forward(seed, self._exchange.folders), Output, watch)
                self._learn(output.facts)
                self._check_route(case)
                figures.append(self._judge.ask(Check(seed, output.path, output.dtype), Figures, watch))
                input_seeds.append(seed)
        self._judge.ask(Rest(), Done, watch)
        gate = gate_of(figures, weight_seeds, sorted(input_seeds))
        flags = dict(self._done.flags)
        if (gate.rtol, gate.atol) != (Settings.rtol, Settings.atol):
            flags["tolerances"] = f"rtol {gate.rtol:g} atol {gate.atol:g}"
        self._done = replace(self._done, gate=gate, flags=flags)
        if not all(part.passed for part in figures):
            words = f"{gate.failed_elements} of {gate.total_elements} elements are outside the tolerances"
            raise CaseFailureError("failed_gate", "gate", words)

    def _time(self, case: Case, watch: Watch) -> tuple[Samples, ...]:
        assert self._worker
        timed = self._worker.ask(Time(), Timed, watch)
        self._learn(timed.facts)
        self._check_route(case)
        return timed.samples

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
        mismatch = {"mismatch": f"asked {self._terms.asked_accelerator}"}
        return {
            **thread_flags(self.card),
            **(short if counts != case.counts else {}),
            **({} if self.card.matches(self._terms.asked_accelerator) else mismatch),
        }

    def _watch(self) -> Watch:
        return Watch(self._limits, self._terms.case_timeout_s)

    # --- the two processes --------------------------------------------------------------------------------

    def _hire_judge(self) -> Child:
        if self._judge is None:
            self._judge = self._hire("judge", for_judge(os.environ, self.card, self._scratch))
        return self._judge

    def _hire_worker(self, case: Case) -> Child:
        """Return the worker that is there if it may serve the case, else a new one."""
        if self._setting != setting_of(case) or (self._used and case.protocol == "official"):
            self._end_worker()
        if self._worker is None:
            self._worker = self._hire("worker", for_worker(os.environ, self.card, self._scratch, case))
            self._setting, self._used = setting_of(case), False
        return self._worker

    def _hire(self, name: str, environment: dict[str, str]) -> Child:
        device = "cuda" if self.card.is_gpu else "cpu"
        try:
            return Child(name, device, environment, lambda data: self._relay.hear(name, data))
        except OSError as problem:
            words = f"the {name} could not be started: {problem}"
            raise CaseFailureError("error", type(problem).__name__, words) from problem

    def _end_judge(self) -> None:
        if self._judge is not None:
            self._judge.end()
        self._judge = None

    def _end_worker(self) -> None:
        if self._worker is not None:
            self._worker.end()
        self._worker = self._setting = None
        self._exchange.clear()


def setting_of(case: Case) -> Setting:
    """Return what a worker's environment depends on: cases with the same setting can share a worker."""
    return case.route, tuple(sorted(case.levers.items()))


def as_seen(card: Card, seen: Device | None = None) -> Device:
    """Return the card with what torch sees of it, if torch came that far.

    Torch calls a slice of a GPU a slice, where the card's own name would pass for the whole.
    """
    memory_mib = card.memory_bytes // 2**20 or (seen.memory_mib if seen else 0)
    known = Device(card.index, card.name, memory_mib=memory_mib, driver=card.driver)
    if seen is None:
        return known
    name = seen.name if card.is_gpu else known.name
    return replace(seen, index=known.index, name=name, memory_mib=known.memory_mib, driver=known.driver)


def gate_of(figures: list[Figures], weight_seeds: list[int], input_seeds: list[int]) -> Gate:
    """Sum the counts of all trials and keep the worst of each figure."""
    return Gate(
        failed_elements=sum(part.failed_elements for part in figures),
        total_elements=sum(part.total_elements for part in figures),
        max_abs=worst(part.max_abs for part in figures),
        max_rel=worst(part.max_rel for part in figures),
        gate_share=worst(part.gate_share for part in figures),
        weight_seeds=tuple(weight_seeds),
        input_seeds=tuple(input_seeds),
        rtol=figures[0].rtol,
        atol=figures[0].atol,
    )


def worst(values: Iterable[float]) -> float:
    """Return the largest; nan is worse than any number."""
    return max(values, key=lambda value: (math.isnan(value), value))
''',
    'harness/sweep.py': r'''"""All cases of an order dealt to all cards. Standard library only."""

from __future__ import annotations

import datetime
import threading
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path

from harness.cards import Card
from harness.carried import Carried
from harness.events import (
    FINAL_STATUSES,
    CaseDone,
    Device,
    End,
    Note,
    Order,
    Plan,
    Planned,
    Samples,
    Started,
)
from harness.limits import WORDS, CaseFailureError, Limits
from harness.outlet import Outlet
from harness.shapes import Case
from harness.station import Station, as_seen

GRACE_S = 4.0  # for the cards' threads to cut their cases; shorter than the deadline's margin


class Sweep:
    """One attempt at an order: it announces, deals, and closes with a count of every planned case."""

    def __init__(self, order: Order, carried: Carried, limits: Limits, outlet: Outlet) -> None:
        self._order = order
        self._carried = carried
        self._limits = limits
        self._outlet = outlet
        self._waiting = deque(case for case in order.cases if case.id not in carried.final)
        self._statuses = dict(carried.final)
        self._devices: set[int] = set()
        self._hopeless: list[tuple[Card, CaseFailureError]] = []  # cards that can carry no case, and why
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
        )
        self._outlet.emit(plan, *(Planned(index, case) for index, case in enumerate(self._order.cases)))
        if self._carried.damaged:
            self._outlet.emit(
                Note(f"{self._carried.damaged} damaged lines of the earlier attempt are left out")
            )

    def refuse_wrong_accelerator(self, cards: list[Card]) -> bool:
        """Whether the cards are not what was asked for; then they are named and no case will run."""
        terms = self._order.terms
        wrong = not cards[0].matches(terms.asked_accelerator) and not terms.allow_mismatch
        if wrong:
            for card in cards:
                self._introduce(as_seen(card))
        return wrong

    def carry_out(self, cards: list[Card], scratch: Path) -> str:
        """Run the waiting cases, one thread a card, and return why it ended: `complete` or what else."""
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
        words = WORDS.get(reason, "the driver failed, its traceback is in the log")
        for case in self._order.cases:
            self._tell(CaseDone(case.id, -1, "not_run", reason, f"not started: {words}"))
        counts = dict(Counter(self._statuses.values()))
        self._outlet.emit(End(reason, counts, round(self._limits.elapsed(), 3)), last=True)

    # --- one thread a card --------------------------------------------------------------------------------

    def _serve(self, card: Card, scratch: Path) -> None:
        scratch.mkdir(parents=True, exist_ok=True)
        station = Station(card, self._order.terms, self._limits, scratch, self._outlet.say)
        try:
            self._introduce(station.open(first=next(iter(tuple(self._waiting)), None)))
            for case in self._deal():
                self._outlet.emit(Started(case.id, card.index))
                samples, done = station.carry(case)
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

    def _tell(self, *bodies: Samples | CaseDone) -> None:
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

# The timing's input differs from every input of the accuracy trials.
SEED_OFFSET = 100_000


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


def plan_rows(batch: int, row_bytes: int, output_bytes: int, free: int) -> int:
    """Rows of a chunk: the output and one chunk's work fit in `free` bytes; chunks are evened out."""
    room = int(free * USABLE_SHARE) - output_bytes
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
        return chunking.plan_rows(
            len(x), row_bytes, x.numel() * x.element_size(), chunking.free_bytes(x.device)
        )

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
