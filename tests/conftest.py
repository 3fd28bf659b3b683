"""What every test has: an environment of its own, and a place in the quick or the slow half."""

import importlib.metadata
import os
import platform
from pathlib import Path

import pytest

# Names that steer gpuferry, its vendors' clients, or how text is coloured; a test that needs one sets it.
SCRUBBED = ("FERRY_", "_FERRY_", "LEVER_", "KAGGLE_", "SLURM_", "SBATCH_", "NO_COLOR", "FORCE_COLOR")
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
HOMES = ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "FERRY_RUNS")
IN_PLAY = ("gpuferry", "torch", "click", "rich", "jinja2", "msgspec", "nbformat", "nbclient", "kaggle")
QUICK_ROOMS = ("unit", "contract", "golden", "kernel")


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Nothing of the caller's settings gets in, and nothing that a test leaves behind gets out."""
    for name in os.environ:
        if name.startswith(SCRUBBED) or name.upper() in PROXIES:
            monkeypatch.delenv(name)
    base = tmp_path_factory.mktemp("homes")
    for name in HOMES:
        monkeypatch.setenv(name, str(base / name.lower()))
    (base / "home").mkdir()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests outside the quick rooms `slow`: they need services, hardware or minutes."""
    here = Path(__file__).parent
    for item in items:
        if item.path.relative_to(here).parts[0] not in QUICK_ROOMS:
            item.add_marker("slow")


def pytest_report_header() -> str:
    """Say which versions are in play."""
    return "versions: " + ", ".join([f"python {platform.python_version()}", *map(_version, IN_PLAY)])


def _version(distribution: str) -> str:
    try:
        return f"{distribution} {importlib.metadata.version(distribution)}"
    except importlib.metadata.PackageNotFoundError:
        return f"{distribution} absent"
