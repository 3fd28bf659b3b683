"""What every test has: an environment of its own, and a place in the quick or the slow half."""

import importlib.metadata
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Names that steer gpuferry, its vendors' clients, or how text is coloured; a test that needs one sets it.
SCRUBBED = ("MAKE", "FERRY_", "_FERRY_", "LEVER_", "KAGGLE_", "SLURM_", "SBATCH_", "NO_COLOR", "FORCE_COLOR")
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
HOMES = ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "FERRY_RUNS")
IN_PLAY = ("gpuferry", "torch", "click", "rich", "jinja2", "msgspec", "nbformat", "nbclient", "kaggle")
CONTRACT = "torch_transformer_benchmark"
MODELS = Path(__file__).parent / "models"
# The longest first, so that what comes at the end is short and no process waits long for another one.
ROOMS = ("packaging", "kernel", "service", "browser", "gpu", "contract", "golden", "device", "host", "unit")
QUICK_ROOMS = ("unit", "host", "device", "contract", "golden", "kernel")

# Neighbours on this machine may take its cores, so that no example has a deadline.
settings.register_profile(
    "busy machine", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("busy machine")

# Begun in a shell's background the tests would ignore Ctrl-C, and so would all that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def _homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("homes")


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, _homes: Path) -> None:
    """Nothing of the caller's settings gets in, and nothing that a test leaves behind gets out."""
    for name in os.environ:
        if name.startswith(SCRUBBED) or name.upper() in PROXIES:
            monkeypatch.delenv(name)
    base = Path(tempfile.mkdtemp(dir=_homes))
    for name in HOMES:
        monkeypatch.setenv(name, str(base / name.lower()))
    (base / "home").mkdir()


@pytest.fixture
def model_imports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let a test import model files; afterwards their modules, search paths and the contract are gone."""
    path, contract = list(sys.path), sys.modules.pop(CONTRACT, None)
    yield
    sys.path[:] = path
    places = (str(MODELS), str(tmp_path_factory.getbasetemp()))
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(places):
            del sys.modules[name]
    sys.modules.pop(CONTRACT, None)
    if contract is not None:
        sys.modules[CONTRACT] = contract


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests outside the quick rooms `slow`: they need services, hardware or minutes."""
    rank = {name: number for number, name in enumerate(ROOMS)}
    items.sort(key=lambda item: rank.get(room(item), 0))
    for item in items:
        if room(item) not in QUICK_ROOMS and not item.get_closest_marker("cluster"):
            item.add_marker("slow")


def room(item: pytest.Item) -> str:
    """The folder of `tests/` that a test lies in."""
    return item.path.relative_to(Path(__file__).parent).parts[0]


def pytest_report_header() -> str:
    """Say which versions are in play."""
    return "versions: " + ", ".join([f"python {platform.python_version()}", *map(_version, IN_PLAY)])


def _version(distribution: str) -> str:
    try:
        return f"{distribution} {importlib.metadata.version(distribution)}"
    except importlib.metadata.PackageNotFoundError:
        return f"{distribution} absent"
