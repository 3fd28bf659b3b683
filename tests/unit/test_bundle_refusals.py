"""What is refused here before anything is pushed: each fault by its name, with file, line and a hint."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from builder.bundle import CONTRACT, HARNESS_NAMES, make_bundle
from builder.errors import RefusedHereError
from builder.spec import RunSpec

ENTRY = "class UserOptimizedTransformer: ...\n"
DEVICE = {
    "harness/__init__.py": "",
    "harness/contract.py": "",
    "model/__init__.py": "class OptimizedTransformer: ...\n",
}

# Fault → (the user's files, what --model names, what the message says).
MODEL_FAULTS: dict[str, tuple[dict[str, str], str, str]] = {
    "no_such_file": ({}, "entry.py", "there is no model at"),
    "no_python_file": ({"entry.txt": ""}, "entry.txt", "is no Python file"),
    "no_init": ({"entry/model.py": ENTRY}, "entry", "folder without an __init__.py"),
    "no_class": ({"entry.py": "x = 1\n"}, "entry.py", "does not define UserOptimizedTransformer or Opt"),
    "class_in_function": ({"entry.py": f"def f():\n    {ENTRY}"}, "entry.py", "does not define"),
    "name_with_dash": ({"my-model.py": ENTRY}, "my-model.py", "'my-model' cannot be imported"),
    "name_is_keyword": ({"class.py": ENTRY}, "class.py", "'class' cannot be imported"),
    "name_is_harness": ({"harness.py": ENTRY}, "harness.py", "hide the kernel's own module harness"),
    "name_is_contract": ({f"{CONTRACT}.py": ENTRY}, f"{CONTRACT}.py", "would hide the kernel's own"),
    "name_is_torch": ({"torch/__init__.py": ENTRY}, "torch", "would hide the device's module torch"),
    "name_is_standard": ({"random.py": ENTRY}, "random.py", "would hide the device's module random"),
    "syntax_error": ({"entry.py": f"{ENTRY}def f(:\n"}, "entry.py", "entry.py:2 is not valid Python"),
    "return_outside": ({"entry.py": f"{ENTRY}\nreturn\n"}, "entry.py", "entry.py:3 is not valid Python"),
    "nul_byte": ({"entry.py": f"{ENTRY}\0"}, "entry.py", "entry.py:1 is not valid Python.*null"),
    "missing_import": ({"entry.py": f"\nimport einops\n{ENTRY}"}, "entry.py", "entry.py:2 imports einops"),
    "missing_in_helper": (
        {"entry.py": f"import helper\n{ENTRY}", "helper.py": "from apex.fused import norm\n"},
        "entry.py",
        r"helper\.py:1 imports norm from apex\.fused",
    ),
    "missing_name_in_helper": (
        {"entry.py": f"from helper import absent\n{ENTRY}", "helper.py": "present = 1\n"},
        "entry.py",
        "entry.py:1 imports absent from helper",
    ),
    "missing_submodule": (
        {"entry/__init__.py": f"from .absent import f\n{ENTRY}"},
        "entry",
        r"__init__\.py:1 imports f from entry\.absent",
    ),
    "missing_sibling": (
        {"entry/__init__.py": f"from . import absent\n{ENTRY}"},
        "entry",
        "imports absent from entry",
    ),
    "relative_in_one_file": (
        {"entry.py": f"from .ops import f\n{ENTRY}", "ops.py": "f = 1\n"},
        "entry.py",
        r"entry\.py:1 imports f from \.ops",
    ),
    "relative_above_package": (
        {"entry/__init__.py": f"from ..ops import f\n{ENTRY}", "ops.py": "f = 1\n"},
        "entry",
        r"imports f from \.\.ops",
    ),
    "dynamic_import": (
        {"entry.py": f"import importlib\nimportlib.import_module('einops')\n{ENTRY}"},
        "entry.py",
        "entry.py:2 imports einops",
    ),
    "fallback_missing_too": (
        {"entry.py": f"try:\n    import apex\nexcept ImportError:\n    import einops\n{ENTRY}"},
        "entry.py",
        "entry.py:4 imports einops",
    ),
    "guarded_by_other_error": (
        {"entry.py": f"try:\n    import einops\nexcept ValueError:\n    pass\n{ENTRY}"},
        "entry.py",
        "entry.py:2 imports einops",
    ),
    "imports_its_tests": (
        {"entry/__init__.py": f"from .tests.data import x\n{ENTRY}", "entry/tests/data.py": "x = 1\n"},
        "entry",
        r"entry/tests was left out: tests",
    ),
    "helper_folder_without_init": (
        {"entry.py": f"import ops.fast\n{ENTRY}", "ops/fast.py": ""},
        "entry.py",
        "ops is a folder without an __init__.py",
    ),
    "helper_hides_standard": (
        {"entry.py": f"import queue\n{ENTRY}", "queue.py": ""},
        "entry.py",
        r"entry\.py:1 imports queue, which the device has",
    ),
    "ours_is_not_there": (
        {"entry.py": f"from model import OptimizedTransformer\n{ENTRY}"},
        "entry.py",
        "imports OptimizedTransformer from model",
    ),
}


@pytest.fixture
def refused(tmp_path: Path) -> Callable[..., RefusedHereError]:
    """Bundle a tree of user's files and return the refusal."""

    def bundle(files: dict[str, str | bytes], model: str = "", harness: str = "") -> RefusedHereError:
        for name, text in {**{f"device/{key}": text for key, text in DEVICE.items()}, **files}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode() if isinstance(text, str) else text)
        spec = RunSpec(
            "smoke",
            (),
            model_path=model and str(tmp_path / model),
            harness_path=harness and str(tmp_path / harness),
        )
        with pytest.raises(RefusedHereError) as caught:
            make_bundle(spec, tmp_path / "device")
        return caught.value

    return bundle


@pytest.mark.parametrize("fault", MODEL_FAULTS)
def test_faulty_models_are_refused(refused: Callable[..., RefusedHereError], fault: str) -> None:
    """Each faulty model is refused with what and where, and a hint."""
    files, model, message = MODEL_FAULTS[fault]
    refusal = refused(files, model)
    assert re.search(message, refusal.message), refusal.message
    assert refusal.hint


HARNESS_FAULTS: dict[str, tuple[dict[str, str | bytes], str]] = {
    "no_such_file": ({}, "there is no harness file"),
    "no_names": ({"theirs.py": "x = 1\n"}, f"does not define {', '.join(HARNESS_NAMES)}"),
    "one_name_missing": (
        {"theirs.py": f"from torch import {', '.join(HARNESS_NAMES[:-1])}\n"},
        "does not define benchmark_once",
    ),
    "syntax_error": ({"theirs.py": "\n\nclass\n"}, "theirs.py:3 is not valid Python"),
    "latin_1": ({"theirs.py": "# caf\xe9\n".encode("latin-1")}, "theirs.py is not UTF-8 text"),
    "module_beside_it": (
        {"theirs.py": f"import beside\nfrom beside import {', '.join(HARNESS_NAMES)}\n", "beside.py": ""},
        "theirs.py:1 imports beside",
    ),
}


@pytest.mark.parametrize("fault", HARNESS_FAULTS)
def test_faulty_harnesses_are_refused(refused: Callable[..., RefusedHereError], fault: str) -> None:
    """Each faulty harness file is refused with what and where, and a hint."""
    files, message = HARNESS_FAULTS[fault]
    refusal = refused(files, harness="theirs.py")
    assert re.search(message, refusal.message), refusal.message
    assert refusal.hint


def test_our_own_files_obey_the_import_rule(refused: Callable[..., RefusedHereError]) -> None:
    """Device code that imports the host's is refused: builder does not travel."""
    refusal = refused({"device/harness/driver.py": "import builder\n"})
    assert "driver.py:1 imports builder" in refusal.message


def test_many_unmet_imports_are_counted(refused: Callable[..., RefusedHereError]) -> None:
    """The message names the first three places and counts the rest."""
    files = {"entry.py": "".join(f"import absent_{n}\n" for n in range(5)) + ENTRY}
    message = refused(files, "entry.py").message
    assert "absent_2 and 2 more" in message
    assert "absent_3" not in message


MET = {
    "standard_and_device": "import json, os.path, torch.nn.functional, triton.language as tl, numpy\n",
    "contract": f"from {CONTRACT} import BaselineTransformer\n",
    "guarded": "try:\n    import einops\nexcept ImportError:\n    einops = None\n",
    "guarded_by_tuple": "try:\n    import einops\nexcept (OSError, ModuleNotFoundError):\n    pass\n",
    "guarded_by_bare": "try:\n    import einops\nexcept:\n    pass\n",
    "fallback_not_needed": "try:\n    import tomllib\nexcept ImportError:\n    import tomli as tomllib\n",
    "suppressed": "import contextlib\nwith contextlib.suppress(ImportError):\n    import einops\n",
    "for_type_checkers": "import typing\nif typing.TYPE_CHECKING:\n    import einops\n",
    "only_as_program": "if __name__ == '__main__':\n    import matplotlib\n",
    "helper_by_star": "from helper import *\n",
    "helper_name_of_any_kind": "from helper import A, f, C, os, deep, late\n",
    "helper_with_getattr": "from dynamic import whatever\n",
    "declared": "import cupy.cuda\n",
}


@pytest.mark.parametrize("way", MET)
def test_imports_that_can_be_met_pass(tmp_path: Path, way: str) -> None:
    """Bundled, standard, declared and optional imports are no reason to refuse."""
    files = {
        **{f"device/{name}": text for name, text in DEVICE.items()},
        "helper.py": "import os\nA = 1\ndef f():\n    global late\n    late = 1\nclass C: ...\n"
        "if A:\n    for deep in (1, 2):\n        pass\n",
        "dynamic.py": "def __getattr__(name):\n    return name\n",
        "entry.py": MET[way] + ENTRY,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    spec = RunSpec("smoke", (), model_path=str(tmp_path / "entry.py"), device_packages=("cupy",))
    assert make_bundle(spec, tmp_path / "device").model == "entry"
