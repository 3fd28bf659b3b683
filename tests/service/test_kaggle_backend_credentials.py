"""Which credential speaks to Kaggle, and what becomes of one that is no longer good."""

from __future__ import annotations

import json
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from builder.errors import InfrastructureError, RefusedHereError
from tests.service.kaggle.knobs import Fault
from tests.service.kaggle.server import KaggleServer
from tests.service.kernels import backend

KINDS = ("KAGGLE_API_TOKEN", "KAGGLE_USERNAME", "KAGGLE_KEY")


@pytest.fixture
def home() -> Path:
    """The folder of Kaggle's client."""
    folder = Path("~/.kaggle").expanduser()
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def service(kaggle_environment: KaggleServer, monkeypatch: pytest.MonkeyPatch) -> KaggleServer:
    """A service that nobody here has a credential for yet."""
    for name in KINDS:
        monkeypatch.delenv(name, raising=False)
    return kaggle_environment


def put(path: Path, content: object) -> None:
    """Write a file that only its owner may read."""
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    path.chmod(0o600)


def kinds(service: KaggleServer) -> list[tuple[str, str]]:
    """The calls so far, each with the kind of credential it came with."""
    return [(request.call, request.auth) for request in service.requests]


def test_a_token_names_its_account(service: KaggleServer, home: Path) -> None:
    """A token is asked about once, and the account comes with the answer."""
    put(home / "access_token", "token-of-bobby\n")
    place = backend()
    assert place.account() == "bobby"
    assert place.quota()
    assert kinds(service) == [("IntrospectToken", "bearer"), ("GetAcceleratorQuotaStatistics", "bearer")]


def test_a_key_is_believed(service: KaggleServer, home: Path) -> None:
    """With username and key the account is known without a call."""
    put(home / "kaggle.json", {"username": "alice", "key": "key-of-alice"})
    place = backend()
    assert place.account() == "alice"
    assert service.requests == []
    assert place.quota()
    assert kinds(service) == [("GetAcceleratorQuotaStatistics", "basic")]


def test_a_stale_token_does_not_poison_a_good_key(
    service: KaggleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token is passed over with a remark, and the key speaks."""
    for name, value in zip(KINDS, ("stale", "alice", "key-of-alice"), strict=True):
        monkeypatch.setenv(name, value)
    place = backend()
    assert place.quota()
    assert kinds(service)[-1] == ("GetAcceleratorQuotaStatistics", "basic")
    [remark] = place.service.remarks
    assert "KAGGLE_API_TOKEN is no longer valid" in remark.detail
    assert "remove it" in remark.mend
    assert "stale" not in remark.detail + remark.mend


def test_a_stale_variable_does_not_hide_a_good_file(
    service: KaggleServer, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next token in the order is tried."""
    monkeypatch.setenv("KAGGLE_API_TOKEN", "stale")
    put(home / "access_token", "token-of-alice")
    assert backend().account() == "alice"


def test_tokens_expired(service: KaggleServer, home: Path) -> None:
    """With nothing else left, it is said which token has ended and how to get another."""
    service.knobs.tokens_expired = True
    put(home / "access_token", "token-of-alice")
    with pytest.raises(RefusedHereError) as caught:
        backend().account()
    assert "access_token is no longer valid" in caught.value.message
    assert "make a token" in caught.value.hint
    assert "token-of-alice" not in caught.value.message


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_a_token_that_is_denied_is_passed_over(service: KaggleServer, home: Path, status: int) -> None:
    """However the service says that a token is none."""
    put(home / "access_token", "token-of-alice")
    put(home / "kaggle.json", {"username": "alice", "key": "key-of-alice"})
    service.knobs.faults = [Fault("IntrospectToken", status=status)]
    assert backend().service.credential().kind == "key"


def test_trouble_is_not_a_stale_token(service: KaggleServer, home: Path) -> None:
    """A service that is down says nothing about a token: no other credential is tried in its place."""
    put(home / "access_token", "token-of-alice")
    put(home / "kaggle.json", {"username": "bobby", "key": "key-of-bobby"})
    service.knobs.faults = [Fault("IntrospectToken", status=503)]
    with pytest.raises(InfrastructureError):
        backend().account()


def saved(home: Path, ends_in: timedelta, access: str = "token-of-alice") -> Path:
    """Write what `kaggle auth login` leaves."""
    ends = (datetime.now(UTC) + ends_in).isoformat()
    content = {
        "refresh_token": "refresh-of-alice",
        "access_token": access,
        "username": "alice",
        "scopes": ["a"],
    }
    put(home / "credentials.json", {**content, "access_token_expiration": ends})
    return home / "credentials.json"


def test_a_login_that_is_fresh_is_used(service: KaggleServer, home: Path) -> None:
    """Nothing is renewed and nothing asked before the first call."""
    saved(home, timedelta(hours=1))
    assert backend().quota()
    assert kinds(service) == [("GetAcceleratorQuotaStatistics", "bearer")]


@pytest.mark.parametrize("ends_in", [timedelta(minutes=-10), timedelta(minutes=1)])
def test_a_login_that_ends_is_renewed(service: KaggleServer, home: Path, ends_in: timedelta) -> None:
    """A new access token is asked for in time and kept for Kaggle's own client, for nobody else to read."""
    path = saved(home, ends_in, "old")
    assert backend().quota()
    assert kinds(service) == [("GenerateAccessToken", "none"), ("GetAcceleratorQuotaStatistics", "bearer")]
    kept = json.loads(path.read_text(encoding="utf-8"))
    assert kept["access_token"] == "minted-1-for-alice"
    assert kept["scopes"] == ["a"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert datetime.fromisoformat(kept["access_token_expiration"]) > datetime.now(UTC)


def test_a_login_that_has_ended_is_told(service: KaggleServer, home: Path) -> None:
    """When the refresh token is no longer taken, it is said how to log in again, and the file stays."""
    path = saved(home, timedelta(hours=-1))
    put(path, json.loads(path.read_text()) | {"refresh_token": "gone"})
    with pytest.raises(RefusedHereError, match="has ended"):
        backend().account()
    assert path.exists()


def test_without_a_credential_nothing_is_asked(service: KaggleServer) -> None:
    """One sentence, and the way to get one."""
    with pytest.raises(RefusedHereError) as caught:
        backend().quota()
    assert "no Kaggle credential" in caught.value.message
    assert "KAGGLE_API_TOKEN" in caught.value.hint
    assert service.requests == []
