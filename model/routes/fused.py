"""`compiled` with mode "max-autotune-no-cudagraphs": Triton's products are tried, and fused with others."""

from __future__ import annotations

from . import compiled

SERVES: dict[str, dict[str, str]] = {"safe": {}, "fast": {}, "fp16": {}}


class Route(compiled.Route):
    """Takes minutes to compile; whether products of one kind or the other are taken is measured there."""

    ran = "fused"
    mode = "max-autotune-no-cudagraphs"
