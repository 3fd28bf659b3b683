"""Write the built kernel: notebook, script, Kaggle's metadata, and in `bundle.json` what is in them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from builder import accelerators, secrets
from builder.bundle import Bundle, make_bundle
from builder.kernel import check_size, kernel_sha256, make_order, notebook, script
from builder.runs import atomic_write, slug
from builder.spec import RunSpec
from harness.events import RunRef, to_plain

CODE_FILES = {"notebook": "kernel.ipynb", "script": "kernel.py"}


@dataclass(frozen=True)
class Built:
    """What a build wrote; `kernel_sha256` is the hash of the kernel of the spec's form with an empty RUN."""

    folder: Path
    bundle: Bundle
    form: str
    kernel_sha256: str
    notebook_bytes: int
    script_bytes: int

    @property
    def files(self) -> list[Path]:
        """The files that were written."""
        return [self.folder / name for name in (*CODE_FILES.values(), "kernel-metadata.json", "bundle.json")]

    def facts(self) -> dict[str, Any]:
        """What `bundle.json` holds: hashes, sizes, and what was left out and why."""
        return {
            "schema": 1,
            "bundle_sha256": self.bundle.sha256,
            "kernel_sha256": self.kernel_sha256,
            "harness_sha256": self.bundle.harness_sha256,
            "model_sha256": self.bundle.model_sha256,
            "model": self.bundle.model,
            "own_harness": self.bundle.own_harness,
            "form": self.form,
            "notebook_bytes": self.notebook_bytes,
            "script_bytes": self.script_bytes,
            "files": [
                {"name": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
                for name, data in self.bundle.files.items()
            ],
            "left_out": [asdict(item) for item in self.bundle.left_out],
        }

    def describe(self) -> list[str]:
        """Say for people what was built, what went in and what was left out, a line each."""
        return [
            *map(str, self.files),
            f"bundle {self.bundle.sha256[:12]}, kernel {self.kernel_sha256[:12]}",
            f"{len(self.bundle.files)} files went in; the notebook has {self.notebook_bytes:,} bytes",
            *(f"  {len(data):>8,}  {name}" for name, data in self.bundle.files.items()),
            *(f"left out: {item.path} ({item.why})" for item in self.bundle.left_out),
        ]


def write_build(
    spec: RunSpec, target: Path, ref: RunRef | None = None, bundle: Bundle | None = None
) -> Built:
    """Build the kernel of a spec into `target`, each file whole or not at all; a push gives `ref`.

    `bundle` is given where the code is not the one that lies here now.

    Raises RefusedHereError for what could not run there, is too large, or holds a credential.
    """
    bundle = bundle or make_bundle(spec)
    order = make_order(spec, bundle)
    texts = {"kernel.ipynb": notebook(order, bundle, ref), "kernel.py": script(order, bundle, ref)}
    check_size(texts["kernel.ipynb"], bundle)
    secrets.refuse_keys(json.dumps(to_plain(order)), "the order (levers, arguments)")
    built = Built(
        target,
        bundle,
        spec.form,
        kernel_sha256(order, bundle, spec.form),
        *(len(text.encode()) for text in texts.values()),
    )
    name = slug(ref.run_id, ref.part) if ref else f"ferry-{built.kernel_sha256[:12]}"
    texts["kernel-metadata.json"] = as_json(metadata(spec, name))
    texts["bundle.json"] = as_json(built.facts())
    for name, text in texts.items():
        atomic_write(target / name, text)
    return built


def metadata(spec: RunSpec, name: str) -> dict[str, Any]:
    """Return Kaggle's `kernel-metadata.json`: a private kernel, without internet unless asked."""
    return {
        "id": name,
        "title": name,
        "code_file": CODE_FILES[spec.form],
        "language": "python",
        "kernel_type": spec.form,
        "is_private": True,
        "enable_internet": spec.internet,
        **accelerators.kaggle_fields(spec.accelerator),
    }


def as_json(content: object) -> str:
    """Return the text of a JSON file."""
    return json.dumps(content, indent=2) + "\n"
