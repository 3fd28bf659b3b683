"""The bundle: what goes in under which name, what stays here, and its hashes."""

import hashlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from builder.bundle import CONTRACT, Bundle, make_bundle
from builder.errors import RefusedHereError
from builder.sources import SUFFIXES, gather
from builder.spec import RunSpec

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "tests" / "models"
INDEPENDENT = ROOT / "tests" / "harnesses" / "independent.py"

DEVICE = {
    "harness/__init__.py": "",
    "harness/contract.py": "import torch\n",
    "harness/driver.py": "from harness import contract\n",
    "model/__init__.py": "from .routes.eager import OptimizedTransformer\n",
    "model/routes/__init__.py": "",
    "model/routes/eager.py": "import triton\n\nclass OptimizedTransformer: ...\n",
}
OURS = ["__main__.py", *DEVICE, f"{CONTRACT}.py"]
ENTRY = "class UserOptimizedTransformer: ...\n"

Plant = Callable[[dict[str, str]], Path]


def lay(folder: Path, files: dict[str, str]) -> Path:
    """Write a tree of files under `folder`."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return folder


@pytest.fixture
def device(tmp_path: Path) -> Path:
    """A root with a small harness and a small model."""
    return lay(tmp_path / "device", DEVICE)


@pytest.fixture
def bundle(device: Path, tmp_path: Path) -> Callable[..., Bundle]:
    """Bundle a tree of user's files with the model at `model`; `harness` is a path."""

    def make(files: dict[str, str], model: str = "entry.py", harness: Path | str = "") -> Bundle:
        folder = lay(tmp_path / "user", files)
        spec = RunSpec("smoke", (), model_path=str(folder / model), harness_path=str(harness))
        return make_bundle(spec, device)

    return make


def test_default_bundle_lists_exactly_our_files(device: Path) -> None:
    """Without options the bundle is start, harness, model and the contract's import name, sorted."""
    assert list(make_bundle(RunSpec("smoke", ()), device).files) == OURS


def test_every_device_file_of_the_checkout_travels_and_no_other() -> None:
    """What is read from harness/ and model/ is what git knows there and does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "harness", "model"]
    listed = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not in a git checkout")
    known = [name for name in listed.stdout.split() if name.endswith(SUFFIXES)]
    found = [source.name for room in ("harness", "model") for source in gather(ROOT / room).files]
    assert sorted(found) == sorted(known)


def test_same_sources_give_the_same_bundle(device: Path) -> None:
    """Two bundles of the same files agree in every byte and in their hashes."""
    spec = RunSpec("smoke", ())
    assert make_bundle(spec, device) == make_bundle(spec, device)
    assert make_bundle(spec, device).sha256 == make_bundle(spec, device).sha256


def test_hashes_change_with_their_own_files_only(device: Path) -> None:
    """A changed model leaves the harness's hash, a changed harness the model's."""
    spec = RunSpec("smoke", ())
    before = make_bundle(spec, device)
    lay(device, {"model/extra.py": "A = 1\n"})
    changed_model = make_bundle(spec, device)
    lay(device, {"harness/driver.py": "B = 1\n"})
    changed_both = make_bundle(spec, device)
    assert before.harness_sha256 == changed_model.harness_sha256 != changed_both.harness_sha256
    assert before.model_sha256 != changed_model.model_sha256 == changed_both.model_sha256
    assert len({before.sha256, changed_model.sha256, changed_both.sha256}) == 3


def test_bundle_hash_is_that_of_sha256sums_text(device: Path) -> None:
    """Anybody can recompute the hash with sha256sum."""
    bundle = make_bundle(RunSpec("smoke", ()), device)
    text = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in bundle.files.items())
    assert bundle.sha256 == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("model", "travels"),
    [
        ("one_file.py", ["one_file.py"]),
        ("own_copy.py", ["own_copy.py"]),
        ("with_helper.py", ["its_helper.py", "with_helper.py"]),
        ("package_model", [f"package_model/{path.relative_to(MODELS / 'package_model').as_posix()}"
                           for path in sorted((MODELS / "package_model").rglob("*.py"))]),
    ],
)  # fmt: skip
def test_contest_entries_travel_whole(device: Path, model: str, travels: list[str]) -> None:
    """A file, a file with a helper and a package each go in under their own names; ours stays here."""
    bundle = make_bundle(RunSpec("smoke", (), model_path=str(MODELS / model)), device)
    ours = [name for name in OURS if not name.startswith("model/")]
    assert list(bundle.files) == sorted([*ours, *travels])
    assert bundle.model == Path(model).stem


def test_helpers_are_followed_through_helpers_and_packages(bundle: Callable[..., Bundle]) -> None:
    """What a helper imports comes too, also lazily, guarded, or from a package beside."""
    made = bundle(
        {
            "entry.py": f"import first\n{ENTRY}",
            "first.py": "def f():\n    from second.deep import x\n",
            "second/__init__.py": "",
            "second/deep.py": "try:\n    import third\nexcept ImportError:\n    pass\nx = 1\n",
            "third.py": "",
            "bystander.py": "",
        }
    )
    assert {"first.py", "second/deep.py", "third.py"} < set(made.files)
    assert [(item.path, item.why) for item in made.left_out] == [
        ("bystander.py", "not imported by the model")
    ]


def test_relative_model_path_and_init_file_name_the_package(
    device: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`.` inside a package and the path of its __init__.py both mean the package."""
    package = lay(tmp_path / "entry", {"__init__.py": ENTRY})
    monkeypatch.chdir(package)
    for given in (".", "__init__.py", str(package)):
        bundle = make_bundle(RunSpec("smoke", (), model_path=given), device)
        assert (bundle.model, bundle.files["entry/__init__.py"]) == ("entry", ENTRY.encode())


def test_one_file_model_hash_is_the_files_own(bundle: Callable[..., Bundle]) -> None:
    """The model's hash in a row is what sha256sum says about a model in one file."""
    assert bundle({"entry.py": ENTRY}).model_sha256 == hashlib.sha256(ENTRY.encode()).hexdigest()


def test_own_harness_travels_byte_for_byte(bundle: Callable[..., Bundle]) -> None:
    """Somebody's harness takes the contract's import name; its hash is that of its bytes."""
    made = bundle({"entry.py": ENTRY}, harness=INDEPENDENT)
    assert made.own_harness
    assert made.files[f"{CONTRACT}.py"] == INDEPENDENT.read_bytes()
    assert made.harness_sha256 == hashlib.sha256(INDEPENDENT.read_bytes()).hexdigest()


def test_contract_script_beside_the_model_stays_here(bundle: Callable[..., Bundle]) -> None:
    """The kernel provides the contest script's module, so a copy beside the model is left out and listed."""
    files = {"entry.py": f"import {CONTRACT}\n{ENTRY}", f"{CONTRACT}.py": "raise SystemExit\n"}
    made = bundle(files)
    assert b"harness.contract" in made.files[f"{CONTRACT}.py"]
    assert [(item.path, item.why) for item in made.left_out] == [
        (f"{CONTRACT}.py", "the kernel brings its own")
    ]


def test_what_does_not_travel_is_listed_with_its_reason(
    bundle: Callable[..., Bundle], tmp_path: Path
) -> None:
    """Caches, hidden files, tests, unknown and unreadable files are named, each with why."""
    package = lay(
        tmp_path / "user" / "entry",
        {
            "__init__.py": ENTRY,
            "kernel.cu": "// é\n",
            "sizes.json": "{}",
            ".gitignore": "kernel.cu\n",
            ".hidden/x.py": "",
            "__pycache__/x.pyc": "",
            "tests/test_it.py": "import pytest\n",
            "test_more.py": "import pytest\n",
            "picture.png": "",
        },
    )
    (package / "table.txt").write_bytes(b"\xff\xfe\x00")
    (package / "again").symlink_to("tests")
    (package / "odd\nname.py").touch()
    made = bundle({}, model="entry")
    assert {name for name in made.files if name.startswith("entry/")} == {
        "entry/__init__.py",
        "entry/kernel.cu",
        "entry/sizes.json",
    }
    assert {item.path: item.why.partition(":")[0] for item in made.left_out} == {
        "entry/.gitignore": "hidden",
        "entry/.hidden": "hidden",
        "entry/__pycache__": "a cache",
        "entry/again": "a link to a folder",
        "entry/picture.png": "no known text",
        "entry/table.txt": "no UTF-8 text",
        "entry/test_more.py": "a test",
        "entry/tests": "tests",
        "'entry/odd\\nname.py'": "a name that cannot be shown",
    }


def test_links_inside_the_package_are_read(bundle: Callable[..., Bundle], tmp_path: Path) -> None:
    """A link to a file of the same package travels as that file."""
    package = lay(tmp_path / "user" / "entry", {"__init__.py": ENTRY, "a.py": "A = 1\n"})
    (package / "b.py").symlink_to("a.py")
    assert bundle({}, model="entry").files["entry/b.py"] == b"A = 1\n"


@pytest.mark.parametrize("target", ["../outside.py", "/etc/passwd", "nowhere.py"])
def test_links_that_lead_outside_are_refused(
    bundle: Callable[..., Bundle], tmp_path: Path, target: str
) -> None:
    """A link out of the package is refused by name, also one that leads nowhere."""
    package = lay(tmp_path / "user" / "entry", {"__init__.py": ENTRY, "../outside.py": ""})
    (package / "link.py").symlink_to(target)
    with pytest.raises(RefusedHereError, match=r"link\.py is a link that leads"):
        bundle({}, model="entry")


def test_helpers_that_are_links_to_elsewhere_are_refused(
    bundle: Callable[..., Bundle], tmp_path: Path
) -> None:
    """A helper beside the model that is a link out of its folder is not followed."""
    lay(tmp_path, {"elsewhere.py": "", "user/entry.py": f"import helper\n{ENTRY}"})
    (tmp_path / "user" / "helper.py").symlink_to(tmp_path / "elsewhere.py")
    with pytest.raises(RefusedHereError, match=r"helper\.py is a link that leads to nothing in"):
        bundle({})


def test_our_own_caches_are_not_worth_a_word(device: Path) -> None:
    """What Python left in our packages does not make two builds differ."""
    lay(device, {"harness/__pycache__/x.pyc": "", "model/routes/__pycache__/x.pyc": ""})
    assert make_bundle(RunSpec("smoke", ()), device).left_out == ()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may enter every folder")
def test_folders_that_may_not_be_entered_are_passed_over(
    bundle: Callable[..., Bundle], tmp_path: Path
) -> None:
    """A locked folder beside a one-file model is no error."""
    locked = lay(tmp_path / "user", {"locked/x": "", "entry.py": ENTRY}) / "locked"
    locked.chmod(0)
    try:
        assert "entry.py" in bundle({}).files
    finally:
        locked.chmod(0o700)
