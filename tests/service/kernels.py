"""Small kernels of a run's part, as the Kaggle backend is handed them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from builder.backends import Intent, Submission
from builder.backends.kaggle import Kaggle
from builder.backends.kaggle.wire import Wire
from builder.runs import runs_root
from tests.service.client import NOTEBOOK_KERNEL
from tests.service.kaggle.server import KaggleServer

HELLO = "print('hello')\nopen('result.txt', 'w').write('42')\n"


def intent(source: str = HELLO, number: int = 1, **terms: Any) -> Intent:
    """Put a kernel into a part's folder of its own, as script and as notebook."""
    slug = f"ferry-20261130-101112-abcdef-{number}"
    part = runs_root() / "20261130-101112-abcdef" / "parts" / str(number)
    part.mkdir(parents=True, exist_ok=True)
    (part / "kernel.py").write_text(source, encoding="utf-8")
    (part / "kernel.ipynb").write_text(json.dumps(_notebook(source)), encoding="utf-8")
    return replace(Intent("20261130-101112-abcdef", number, slug, part, "NvidiaTeslaT4"), **terms)


def _notebook(source: str) -> dict[str, object]:
    cell: dict[str, object] = {
        "cell_type": "code",
        "id": "a",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
    }
    about = {"kernelspec": NOTEBOOK_KERNEL}
    return {"cells": [{**cell, "source": source}], "metadata": about, "nbformat": 4, "nbformat_minor": 5}


def backend(read_s: float = 20.0) -> Kaggle:
    """The backend, with less patience than it has with the real service."""
    return Kaggle(Wire(read_s=read_s))


def ended(server: KaggleServer, source: str = HELLO, **terms: Any) -> tuple[Kaggle, Submission]:
    """Push a kernel and wait for its end."""
    place = backend()
    submission = place.submit(intent(source, **terms))
    server.sessions[-1].wait()
    return place, submission


def data_of(blocks: Sequence[bytes]) -> str:
    """The text of a followed log."""
    lines = b"".join(blocks).splitlines()
    return "".join(json.loads(line)["data"] for line in lines)
