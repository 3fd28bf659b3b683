"""What a sentence says of the circumstances of a figure, held against the rows that the figure comes from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from builder.results import Row
from builder.spec import routes
from harness.shapes import CHOOSING_ROUTES, PROTOCOLS

_DTYPES = {
    "float32": "float32",
    "fp32": "float32",
    "float16": "float16",
    "fp16": "float16",
    "half precision": "float16",
    "bfloat16": "bfloat16",
    "bf16": "bfloat16",
}
_DEVICES = re.compile(r"\b(?:T4|P100|V100|A10G?|A100|L4|L40S?|H100|H200|B100|B200|TPU|CPU)\b")
_PROTOCOLS = (*PROTOCOLS, "short")


def named_otherwise(sentence: str, rows: Sequence[Row]) -> Iterator[str]:
    """Yield what a sentence names that its figure's rows were not: dtype, device, route, protocol.

    A sentence that names several is right when one of them is the rows' own: it may compare. Routes and
    protocols count as code spans only, since their names are words as well.
    """
    words = rf"\b({'|'.join(_DTYPES)})\b"
    dtypes = {_DTYPES[found.lower()] for found in re.findall(words, sentence, re.IGNORECASE)}
    spans = set(re.findall(r"`([^`]+)`", sentence))
    ran = {name for row in rows for name in (row.route, row.route_ran)}
    devices = set(_DEVICES.findall(sentence))
    told = {row.device for row in rows}
    yield from _other("dtype", dtypes, {row.dtype for row in rows})
    yield from _other("route", spans & {*routes(), *CHOOSING_ROUTES}, ran)
    yield from _other("protocol", spans & set(_PROTOCOLS), {row.protocol for row in rows})
    if devices and not any(re.search(rf"\b{word}\b", name, re.I) for word in devices for name in told):
        yield from _other("device", devices, told)


def _other(kind: str, named: set[str], true: set[str]) -> Iterator[str]:
    if named and not named & true:
        told = ", ".join(sorted(filter(None, true))) or "not known"
        yield f"the sentence says {', '.join(sorted(named))}; its {kind} is {told}"
