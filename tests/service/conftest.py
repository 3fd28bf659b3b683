"""The services that tests talk to."""

from collections.abc import Iterator

import pytest

from builder.clock import SystemClock
from tests.service.asking import Asking
from tests.service.ferrying import Hurried
from tests.service.kaggle.server import KaggleServer, serving


@pytest.fixture
def kaggle() -> Iterator[KaggleServer]:
    """A Kaggle service of the test's own; at the end it must have had no trouble of its own making."""
    with serving() as server:
        yield server
    assert server.problems == []


@pytest.fixture
def kaggle_environment(kaggle: KaggleServer, monkeypatch: pytest.MonkeyPatch) -> KaggleServer:
    """The same service, with this process and its children pointed at it."""
    for name, value in kaggle.environment().items():
        monkeypatch.setenv(name, value)
    return kaggle


@pytest.fixture
def hurried(kaggle_environment: KaggleServer, monkeypatch: pytest.MonkeyPatch) -> KaggleServer:
    """The same service, and a clock on which this process hardly sleeps."""
    for name in ("now", "monotonic", "sleep"):
        monkeypatch.setattr(SystemClock, name, getattr(Hurried, name))
    return kaggle_environment


@pytest.fixture
def ask(kaggle: KaggleServer) -> Asking:
    """Raw requests to a service of the test's own."""
    return Asking(kaggle)
