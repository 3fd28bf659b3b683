"""What a sentence says of the circumstances of a figure, held against the rows that the figure comes from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

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


def named_otherwise(scopes: Sequence[str], rows: Sequence[Row]) -> Iterator[str]:
    """Yield what is said around a figure that its rows were not: dtype, device, route, protocol.

    Of each kind the nearest scope counts that names any: the sentence, those before it, the headings above.
    One that names several is right when one of them is the rows' own: it may compare. Routes and protocols
    count as code spans only, since their names are words as well.
    """
    if not rows:
        return
    ran = {name for row in rows for name in (row.route, row.route_ran)}
    known = {*routes(), *CHOOSING_ROUTES}
    yield from _other("dtype", _nearest(scopes, _dtypes), {row.dtype for row in rows})
    yield from _other("route", _nearest(scopes, lambda said: _spans(said) & known), ran)
    protocols = _nearest(scopes, lambda said: _spans(said) & set(_PROTOCOLS))
    yield from _other("protocol", protocols, {row.protocol for row in rows})
    devices, told = _nearest(scopes, lambda said: set(_DEVICES.findall(said))), {row.device for row in rows}
    if devices and not any(re.search(rf"\b{word}\b", name, re.I) for word in devices for name in told):
        yield from _other("device", devices, told)


def _nearest(scopes: Sequence[str], names: Callable[[str], set[str]]) -> set[str]:
    return next(filter(None, map(names, scopes)), set())


def _dtypes(said: str) -> set[str]:
    words = rf"\b({'|'.join(_DTYPES)})\b"
    return {_DTYPES[found.lower()] for found in re.findall(words, said, re.IGNORECASE)}


def _spans(said: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", said))


def _other(kind: str, named: set[str], true: set[str]) -> Iterator[str]:
    if named and not named & true:
        told = ", ".join(sorted(filter(None, true))) or "not known"
        yield f"the text says {', '.join(sorted(named))}; its {kind} is {told}"
