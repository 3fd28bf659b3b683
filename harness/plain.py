"""Dataclasses and samples as JSON's types and back. Standard library only."""

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
