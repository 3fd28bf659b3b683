"""A choice among routes, made once for each kind of input."""

from __future__ import annotations

import torch
from torch import Tensor

from . import router
from .levers import Settings
from .routes import Route
from .weights import Weights


class Choices:
    """The routes that a model has in use: one of each name, loaded when it is first taken."""

    def __init__(self, levers: Settings) -> None:
        self._levers = levers
        self._routes: dict[str, Route] = {}
        if levers.route not in router.CHOICES:
            self._load(levers.route)

    def take(self, x: Tensor, weights: Weights) -> tuple[Route, Settings, str]:
        """The route for x [B,S,D], the settings it runs under, and what else was to run but refused.

        A route asked for by its own name is taken, whatever it may say.
        """
        if self._levers.route not in router.CHOICES:
            return self._load(self._levers.route), self._levers, ""
        asked = problem(x, weights)
        note = router.lacking(asked)
        for option in router.options(self._levers.route, asked):
            route, settings = self._load(option.route), self._levers.under(option.levers)
            refusal = route.refusal(x, weights, settings)
            if not refusal:
                return route, settings, note
            note = note or f"{option.route} {refusal}"
        raise AssertionError(f"{router.LAST} refused, which serves every input")

    def _load(self, name: str) -> Route:
        if name not in self._routes:
            self._routes[name] = router.load(name)
        return self._routes[name]


def problem(x: Tensor, weights: Weights) -> router.Problem:
    """What the router knows of x [B,S,D] and the model."""
    batch, seq_len, width = x.shape
    config = weights.config
    device, capability = "cpu", (0, 0)
    if x.is_cuda:
        device = torch.cuda.get_device_name(x.device)
        capability = torch.cuda.get_device_capability(x.device)
    return router.Problem(
        device,
        capability,
        str(x.dtype).removeprefix("torch."),
        x.is_cuda and allows_tf32(),
        batch,
        seq_len,
        width,
        config.num_heads,
        config.ffn_dim,
        config.num_layers,
        config.causal,
    )


def allows_tf32() -> bool:
    """Whether torch may compute float32 products in TF32; where it does not say, it does not."""
    try:
        return bool(torch.backends.cuda.matmul.allow_tf32)
    except RuntimeError:  # the old and the new way of setting it were mixed
        return False
