"""The laws of the house, measured on the sources themselves."""

import ast
import functools
import importlib.metadata
import re
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import tomllib

from harness.events import MARKER

ROOT = Path(__file__).parents[2]
DEVICE = ("harness", "model")
KEEPING = "templates/there"  # what keeps a run on a machine that is reached over ssh: device code, too
INSPECTING = "templates/inspect"  # the process that compiles ops for other cards, with Triton
ROOMS = ("builder", *DEVICE, KEEPING, INSPECTING, "tests")
TEXTS = ("builder", *DEVICE, "tests", "templates", ".ci", ".github")
LAZY = {"jinja2", "kaggle", "kagglesdk", "nbformat", "requests", "rich", "urllib3", "vl_convert"}
# Programs of their own: the command line, and the process that outlives it to watch over a local run.
PROGRAMS = {"cli", "__main__.py", "supervisor.py"}
MAX_FILE_LINES = 300
MAX_FUNCTION_LINES = 50


@functools.cache
def sources(*rooms: str) -> tuple[Path, ...]:
    """The Python files of these rooms; candidate models and contest scripts are data, not ours."""
    files = (path for room in rooms for path in sorted((ROOT / room).rglob("*.py")))
    return tuple(
        path for path in files if where(path).parts[:2] not in {("tests", "models"), ("tests", "harnesses")}
    )


def where(path: Path) -> Path:
    """A file's path in the project."""
    return path.relative_to(ROOT)


@functools.cache
def tree(path: Path) -> ast.Module:
    """A file's syntax tree."""
    return ast.parse(path.read_text("utf-8"))


@functools.cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a file's syntax tree."""
    return tuple(ast.walk(tree(path)))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function of a file, nested ones on their own."""
    for node in nodes(path):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def imports(statements: Iterable[ast.AST]) -> Iterator[str]:
    """The modules that these statements import, `from a import b` as `a.b`."""
    for node in statements:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def at_top(path: Path) -> Iterator[ast.AST]:
    """The statements that run when a file is imported: all that stand outside functions."""
    waiting: list[ast.AST] = [tree(path)]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            waiting.extend(node.orelse)
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            waiting.extend(ast.iter_child_nodes(node))


def is_jitted(path: Path, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function is compiled for the GPU: only those of `model/ops/` may be long."""
    decorators = " ".join(map(ast.unparse, function.decorator_list))
    return where(path).parts[:2] == ("model", "ops") and "jit" in decorators


@pytest.mark.parametrize("room", ROOMS)
def test_functions_are_short(room: str) -> None:
    """Of each room's functions, 95 in 100 have at most 50 lines."""
    lines = sorted(
        (function.end_lineno or function.lineno) - function.lineno + 1
        for path in sources(room)
        for function in functions(path)
        if not is_jitted(path, function)
    )
    if len(lines) > 1:
        assert statistics.quantiles(lines, n=20, method="inclusive")[-1] <= MAX_FUNCTION_LINES, lines[-10:]


def test_files_are_short() -> None:
    """No file has more than 300 lines."""
    lengths = {str(where(path)): len(path.read_text("utf-8").splitlines()) for path in sources(*ROOMS)}
    assert {name: length for name, length in lengths.items() if length > MAX_FILE_LINES} == {}


def test_test_files_have_names_of_their_own() -> None:
    """No two test files share a name: pytest collects only one of them."""
    names = [path.name for path in sources("tests") if path.name.startswith("test_")]
    assert sorted(names) == sorted(set(names))


def test_unit_tests_start_at_once() -> None:
    """No unit test loads torch or starts a `ferry`: those lie in `tests/device/` and `tests/host/`."""
    elsewhere = re.compile(r"(torch|triton|model|tests\.device|tests\.host|tests\.command\.run_ferry)(\.|$)")
    slow = [
        (str(where(path)), name)
        for path in sources("tests")
        if where(path).parts[1] == "unit"
        for name in imports(nodes(path))
        if elsewhere.match(name)
    ]
    assert slow == []


def test_no_file_is_a_drawer() -> None:
    """No file is named for holding whatever is left over."""
    drawers = {"utils", "util", "helpers", "helper", "common", "misc"}
    assert [str(where(path)) for path in sources(*ROOMS) if path.stem in drawers] == []


def test_device_imports_only_what_devices_have() -> None:
    """Device code imports the standard library, torch and itself; triton only inside `model/ops/`."""
    known = {*sys.stdlib_module_names, "torch", *DEVICE, "templates"}
    strangers = [
        (str(where(path)), name)
        for path in sources(*DEVICE, KEEPING)
        for name in imports(nodes(path))
        if name.partition(".")[0] not in known | ({"triton"} if where(path).parts[1] == "ops" else set())
    ]
    assert strangers == []


def test_host_imports_two_device_modules() -> None:
    """The host imports `harness.events` and `harness.shapes` of the device code, and never torch."""
    allowed = re.compile(r"harness\.(events|shapes)(\.|$)")
    crossings = [
        (str(where(path)), name)
        for path in sources("builder")
        for name in imports(nodes(path))
        if name.partition(".")[0] in {*DEVICE, "torch", "triton"} and not allowed.match(name)
    ]
    assert crossings == []


def test_host_imports_heavy_packages_late() -> None:
    """No module of the host imports a heavy or a vendor's package before it is used."""
    early = [
        (str(where(path)), name)
        for path in sources("builder")
        for name in imports(at_top(path))
        if name.partition(".")[0] in LAZY
    ]
    assert early == []


def test_host_imports_are_declared() -> None:
    """Every package that the host imports is a dependency that `pyproject.toml` declares."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    declared = {re.split(r"[^\w-]", line)[0] for line in (*project["dependencies"], *extras)}
    owners = importlib.metadata.packages_distributions()  # a package is not always named like what it holds
    held = {name for name, distributions in owners.items() if declared & set(distributions)}
    known = {*sys.stdlib_module_names, *declared, *held, "builder", *DEVICE}
    undeclared = [
        (str(where(path)), name)
        for path in sources("builder")
        for name in imports(nodes(path))
        if name.partition(".")[0] not in known
    ]
    assert undeclared == []


def test_importing_the_host_loads_nothing_heavy() -> None:
    """Importing every module of the host, in a process of its own, leaves the heavy packages unloaded."""
    names = [".".join(where(path).with_suffix("").parts) for path in sources("builder")]
    names = [name.removesuffix(".__init__") for name in names]
    heavy = sorted(LAZY | {"torch", "triton", "model"})
    code = (
        "import importlib, sys\n"
        f"for name in {names!r}: importlib.import_module(name)\n"
        f"print(*(name for name in {heavy!r} if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.parametrize("path", sources(*DEVICE, KEEPING), ids=lambda path: str(where(path)))
def test_device_code_is_python_3_10(path: Path) -> None:
    """Device code uses no syntax that is newer than Python 3.10."""
    ast.parse(path.read_text("utf-8"), feature_version=(3, 10))


def test_only_programs_print_and_exit() -> None:
    """Host code that is no program of its own neither prints nor ends the process."""
    forbidden = {"print", "exit", "quit", "sys.exit", "os._exit", "SystemExit"}
    calls = [
        f"{where(path)}:{node.lineno} {ast.unparse(node.func)}"
        for path in sources("builder")
        if where(path).parts[1] not in PROGRAMS
        for node in nodes(path)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in forbidden
    ]
    assert calls == []


def test_every_test_says_what_holds() -> None:
    """Every test has a docstring of one sentence."""
    silent = [
        f"{where(path)}:{function.lineno} {function.name}"
        for path in sources("tests")
        for function in functions(path)
        if function.name.startswith("test_") and not is_one_sentence(ast.get_docstring(function) or "")
    ]
    assert silent == []


def is_one_sentence(text: str) -> bool:
    """Whether a text is one sentence: it ends in a full stop, and no capital follows one before."""
    return text.endswith(".") and not re.search(r"[.!?]\s+[A-Z]", text) and "\n\n" not in text


def test_there_is_one_encoder() -> None:
    """The event marker is written down in `harness/events.py` and nowhere else in the product."""
    holders = [
        str(where(path))
        for path in texts("builder", *DEVICE, "templates")
        if path.suffix != ".log"  # what a run has said, kept for the demo
        and MARKER in path.read_text("utf-8")
    ]
    assert holders == ["harness/events.py"]


def texts(*rooms: str) -> Iterator[Path]:
    """Every text of these rooms and, for ".", of the top level; what Python or git made is left out."""
    for room in rooms:
        for path in sorted((ROOT / room).glob("*" if room == "." else "**/*")):
            if path.is_file() and "__pycache__" not in path.parts and path.name != ".git":
                yield path


def test_no_text_names_a_machine() -> None:
    """No text names a folder of somebody's machine or the address of a package index."""
    foreign = re.compile(
        rb"(?:^|[^\w./])/(?:root|home|Users|work|workspace|builds)/[\w.]"
        rb"|--(?:extra-)?index-url|INDEX_UR[L]=\S*://|pypi\.org/simpl[e]|/wh[l]/",
        re.MULTILINE,
    )
    found = [
        f"{where(path)}: {match.group().decode(errors='replace').strip()}"
        for path in texts(".", *TEXTS)
        if (match := foreign.search(path.read_bytes()))
    ]
    assert found == []
