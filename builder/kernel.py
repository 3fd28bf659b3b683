"""The kernel: one self-contained text made from a spec and a bundle. Pure: same input, same bytes.

The script and the notebook hold the same pieces: the order, the files, the bootstrap.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
from typing import Any

from builder import accelerators
from builder.bundle import Bundle
from builder.errors import RefusedHereError, UsageError
from builder.spec import RunSpec
from builder.templating import TEMPLATES, render
from harness.events import MARKER, Order, RunRef, Terms, to_plain

SOURCE_BYTES = 900_000  # Kaggle refuses a megabyte; the largest source seen accepted has 932 KiB


def asked(spec: RunSpec) -> dict[str, Any]:
    """Return the terms of an order that say where it is to run, and how long.

    UsageError for an accelerator that no service knows, and for cases on one that no route runs on.
    """
    known = accelerators.lookup(spec.accelerator) if spec.accelerator else None
    if known and known.is_tpu and spec.cases and not spec.allow_mismatch:
        raise UsageError(
            f"no route runs on a TPU, so that a session with {known.name} would measure nothing",
            f"to see what it is: ferry probe --accelerator {known.name}",
        )
    return {
        "asked_accelerator": known.device if known else spec.accelerator,
        "asked_count": known.count if known else 0,
        "asked_capability": known.capability if known else "",
        "allow_mismatch": spec.allow_mismatch,
        "timeout_s": spec.timeout_s,
    }


def make_order(spec: RunSpec, bundle: Bundle) -> Order:
    """Return what the kernel carries out. UsageError as `asked` raises it."""
    terms = Terms(
        bundle_sha256=bundle.sha256,
        harness_sha256=bundle.harness_sha256,
        model_sha256=bundle.model_sha256,
        model=bundle.model,
        own_harness=bundle.own_harness,
        devices=spec.devices,
        seeds=spec.seeds,
        case_timeout_s=spec.case_timeout_s,
        target_ci=spec.target_ci,
        against=bundle.against,
        against_name=spec.against,
        profile=spec.profiling,
        **asked(spec),
    )
    return Order(terms, spec.cases)


def script(order: Order, bundle: Bundle, ref: RunRef | None = None) -> str:
    """Return the kernel as a Python script; without `ref` its RUN is empty."""
    return render(
        "kernel.py.j2",
        order_cell=_order_cell(order, ref),
        files_cell=_files_cell(bundle),
        bootstrap=_bootstrap(),
        marker=MARKER.strip(),
    )


def notebook(order: Order, bundle: Bundle, ref: RunRef | None = None) -> str:
    """Return the kernel as a notebook, nbformat 4.5, in ASCII; without `ref` its RUN is empty."""
    about = render("kernel_about.md.j2", marker=MARKER.strip()).rstrip("\n")
    cells = [
        {"cell_type": "markdown", "id": "about", "metadata": {}, "source": about},
        _code_cell("order", _order_cell(order, ref)),
        _code_cell("files", _files_cell(bundle)),
        _code_cell("start", render("kernel_start.py.j2", bootstrap=_bootstrap())),
    ]
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"file_extension": ".py", "mimetype": "text/x-python", "name": "python"},
    }
    plain = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(plain, indent=1) + "\n"


FORMS = {"notebook": notebook, "script": script}


def kernel_sha256(order: Order, bundle: Bundle, form: str) -> str:
    """Return the SHA-256 of the built file of that form, with an empty RUN."""
    return hashlib.sha256(FORMS[form](order, bundle).encode()).hexdigest()


def check_size(text: str, bundle: Bundle, limit: int = SOURCE_BYTES) -> None:
    """Raise RefusedHereError when the notebook, escaped as it is sent, has more than `limit` bytes."""
    size = len(text.encode())
    if size <= limit:
        return
    largest = sorted(bundle.files.items(), key=lambda item: -len(item[1]))[:3]
    named = ", ".join(f"{name} ({len(data):,})" for name, data in largest)
    raise RefusedHereError(
        f"the kernel has {size:,} bytes, more than the {limit:,} accepted; its largest files: {named}",
        "make these smaller, or move them out of the model's folder",
    )


def literal(text: str) -> str:
    """Return a Python literal of `text` that a person can read: raw in triple quotes where that is safe.

    Python turns every line end of a source file into a newline, so that a carriage return is escaped, as
    is all that cannot be seen.
    """
    quotes = next((quotes for quotes in ("'''", '"""') if quotes not in text), "")
    if "\n" not in text:
        written = repr(text)
    elif quotes and text.endswith("\n") and _is_plain(text):
        written = f"r{quotes}{text}{quotes}"
    else:
        written = "'''" + "".join(map(_escape, text)) + "'''"
    assert ast.literal_eval(written) == text
    return written


def _is_plain(text: str) -> bool:
    return text.replace("\n", "").replace("\t", "").isprintable()


def _escape(character: str) -> str:
    if character in "\\'":
        return "\\" + character
    return character if _is_plain(character) else character.encode("unicode_escape").decode()


def _bootstrap() -> str:
    return (TEMPLATES / "bootstrap.py").read_text(encoding="utf-8").rstrip("\n") + "\n"


def order_text(plain: Any) -> str:
    """Return an order, made of JSON's types, as the kernel holds it: the terms, and one case a line."""
    cases = ",\n".join(map(json.dumps, plain["cases"]))
    return f'{{"terms": {json.dumps(plain["terms"], indent=1)},\n"cases": [\n{cases}\n]}}\n'


def run_text(ref: RunRef | None) -> str:
    """Return whose run a kernel is as the kernel holds it; nobody's is empty."""
    return json.dumps(to_plain(ref) or {})


def _order_cell(order: Order, ref: RunRef | None) -> str:
    text = order_text(to_plain(order))
    return render("kernel_order.py.j2", order=literal(text), run=literal(run_text(ref)))


def _files_cell(bundle: Bundle) -> str:
    return _files_text(bundle.sha256, tuple(bundle.files.items()))


@functools.lru_cache(maxsize=2)
def _files_text(bundle_sha256: str, files: tuple[tuple[str, bytes], ...]) -> str:
    """Return the cell with the files, which all parts of a run share."""
    literals = [(repr(name), literal(data.decode())) for name, data in files]
    return render("kernel_files.py.j2", bundle_sha256=repr(bundle_sha256), files=literals)


def _code_cell(cell_id: str, source: str) -> dict[str, object]:
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": cell_id,
        "metadata": {},
        "outputs": [],
        "source": source.rstrip("\n"),
    }
