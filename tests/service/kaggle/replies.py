"""What an answer is, before it is sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from tests.service.kaggle.knobs import Shape

STATUS_WORDS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}
PAGE = "<!DOCTYPE html>\n<html><head><title>{title}</title></head><body><h1>{title}</h1></body></html>\n"


class ServiceError(Exception):
    """The service's own no, with its HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


@dataclass
class Reply:
    """A whole answer. `declared` is a Content-Length that is not the body's."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    declared: int | None = None


@dataclass
class Stream:
    """An answer that comes in chunks; `whole` turns true at its proper end."""

    chunks: Iterator[bytes]
    content_type: str


def in_json(value: Any, status: int = 200) -> Reply:
    """Return a value as a JSON answer."""
    return Reply(status, json.dumps(value).encode(), {"Content-Type": "application/json"})


def page(title: str, status: int, content_type: str = "text/html; charset=utf-8") -> Reply:
    """Return an HTML page."""
    return Reply(status, PAGE.format(title=title).encode(), {"Content-Type": content_type})


def error(status: int, message: str, shape: Shape) -> Reply:
    """Return an error in one of the shapes that the service has been seen to use."""
    if shape == "html":
        return page(f"{status} {_phrase(status)}", status)
    if shape == "html as json":
        return page(f"{status} {_phrase(status)}", status, "application/json")
    flat = {"code": status, "message": message}
    nested = {"error": flat | {"status": STATUS_WORDS.get(status, "UNKNOWN")}}
    return in_json(nested if shape == "nested" else flat, status)


def _phrase(status: int) -> str:
    return HTTPStatus(status).phrase
