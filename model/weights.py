"""The contract's parameters, under its names, and the views of them that the routes compute with."""

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
