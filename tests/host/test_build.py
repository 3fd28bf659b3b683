"""What a build writes: both forms of the kernel, Kaggle's metadata, and the account of what is in them."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from builder.build import write_build
from builder.errors import RefusedHereError, UsageError
from builder.spec import RunSpec
from harness.events import RunRef
from harness.shapes import SHAPES, Case

MODEL = Path(__file__).parents[1] / "models" / "with_helper.py"
SPEC = RunSpec("smoke", (Case(SHAPES["t01"]),), model_path=str(MODEL))
REF = RunRef("20261130-120000-abcdef", 2, "0123abc", True)
FILES = ["bundle.json", "kernel-metadata.json", "kernel.ipynb", "kernel.py"]


def contents(folder: Path) -> dict[str, bytes]:
    """Name and bytes of everything in a folder."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_build_writes_exactly_four_files_the_same_each_time(tmp_path: Path) -> None:
    """Two builds of the same sources have the same files, byte for byte."""
    built = write_build(SPEC, tmp_path / "a")
    write_build(SPEC, tmp_path / "b")
    assert list(contents(tmp_path / "a")) == FILES == sorted(path.name for path in built.files)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


@pytest.mark.parametrize("form", ["notebook", "script"])
def test_bundle_json_accounts_for_the_kernel(tmp_path: Path, form: str) -> None:
    """Hashes, sizes, files and what was left out stand in bundle.json and agree with the files."""
    built = write_build(replace(SPEC, form=form), tmp_path)
    kernel = (tmp_path / ("kernel.py" if form == "script" else "kernel.ipynb")).read_bytes()
    facts = json.loads((tmp_path / "bundle.json").read_bytes())
    assert facts == built.facts()
    assert facts["kernel_sha256"] == hashlib.sha256(kernel).hexdigest()
    assert facts["bundle_sha256"] == built.bundle.sha256
    assert facts[f"{form}_bytes"] == len(kernel)
    assert {file["name"] for file in facts["files"]} == set(built.bundle.files)
    assert {"path": "one_file.py", "why": "not imported by the model"} in facts["left_out"]


def test_push_fills_run_and_keeps_the_kernels_hash(tmp_path: Path) -> None:
    """With a run id the kernel's text has it, and the hash stays that of the kernel without."""
    built = write_build(SPEC, tmp_path / "built")
    pushed = write_build(SPEC, tmp_path / "pushed", REF)
    assert pushed.kernel_sha256 == built.kernel_sha256
    for name in ("kernel.ipynb", "kernel.py"):
        assert REF.run_id not in (tmp_path / "built" / name).read_text("utf-8")
        assert REF.run_id in (tmp_path / "pushed" / name).read_text("utf-8")


def test_metadata_is_private_offline_and_its_slug_is_its_title(tmp_path: Path) -> None:
    """The kernel is private, has no internet, and is called after run and part, or after its hash."""
    built = write_build(SPEC, tmp_path / "built")
    write_build(replace(SPEC, accelerator="NvidiaTeslaT4", form="script"), tmp_path / "pushed", REF)
    plain, gpu = (
        json.loads((tmp_path / folder / "kernel-metadata.json").read_bytes())
        for folder in ("built", "pushed")
    )
    assert plain == {
        "id": f"ferry-{built.kernel_sha256[:12]}",
        "title": f"ferry-{built.kernel_sha256[:12]}",
        "code_file": "kernel.ipynb",
        "language": "python",
        "kernel_type": "notebook",
        "is_private": True,
        "enable_gpu": False,
        "enable_tpu": False,
        "enable_internet": False,
    }
    name = "ferry-20261130-120000-abcdef-2"
    changed = {"id": name, "title": name, "code_file": "kernel.py", "kernel_type": "script"}
    assert gpu == {**plain, **changed, "enable_gpu": True, "machine_shape": "NvidiaTeslaT4"}


def test_description_says_what_went_in_and_what_stayed(tmp_path: Path) -> None:
    """People read sizes, hashes, each file and each thing left out."""
    built = write_build(SPEC, tmp_path)
    text = "\n".join(built.describe())
    for said in (built.bundle.sha256[:12], built.kernel_sha256[:12], f"{built.notebook_bytes:,}"):
        assert said in text
    assert "  its_helper.py" in text
    assert "left out: one_file.py (not imported by the model)" in text


def test_refused_build_writes_nothing(tmp_path: Path) -> None:
    """A build that is too large, holds a key in a lever, or names no accelerator leaves no file behind."""
    model = tmp_path / "large"
    model.mkdir()
    (model / "__init__.py").write_text("class OptimizedTransformer: ...\n")
    (model / "table.txt").write_text("0123456789\n" * 90_000)
    lever = Case(SHAPES["t01"], levers={"LEVER_X": "hf" + "_abcdefghijklmnopqrstuvwxyzABCDEFGH"})
    faults: dict[str, tuple[RunSpec, type[Exception], str]] = {
        "too_large": (
            replace(SPEC, model_path=str(model)),
            RefusedHereError,
            r"large/table\.txt \(990,000\)",
        ),
        "key_in_lever": (replace(SPEC, cases=(lever,)), RefusedHereError, "holds what looks like a Hugging"),
        "no_accelerator": (replace(SPEC, accelerator="NvidiaTeslaT5"), UsageError, "NvidiaTeslaT5"),
    }
    for fault, (spec, kind, message) in faults.items():
        with pytest.raises(kind, match=message):
            write_build(spec, tmp_path / fault)
        assert not (tmp_path / fault).exists()
