"""Which credentials are found, in which order, and what is said of the others; nobody is asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builder.backends.kaggle.credentials import Credential, find
from builder.backends.kaggle.wire import base
from builder.errors import UsageError


@pytest.fixture
def home() -> Path:
    """The folder of Kaggle's client."""
    folder = Path("~/.kaggle").expanduser()
    folder.mkdir(parents=True)
    return folder


def put(path: Path, content: str, mode: int = 0o600) -> Path:
    """Write a file as a careful user would."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    path.chmod(mode)
    return path


def details() -> str:
    """All that is said of the credentials found."""
    return "\n".join(f"{remark.detail} ({remark.mend})" for remark in find().remarks)


def test_nothing_is_found_on_a_new_machine() -> None:
    """There is nothing, nothing to say of it, and nothing is created."""
    assert find().is_empty
    assert not Path("~/.kaggle").expanduser().exists()


def test_tokens_come_in_the_clients_order(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment first, then the file, then the file that an editor gave an ending."""
    monkeypatch.setenv("KAGGLE_API_TOKEN", " from-environment\n")
    put(home / "access_token", "from-file\n")
    put(home / "access_token.txt", "from-text-file")
    assert [token.secret for token in find().tokens] == ["from-environment", "from-file", "from-text-file"]
    assert details() == ""


def test_a_variable_may_name_the_tokens_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path to a file that is there stands for its content."""
    path = put(tmp_path / "my token", "in-the-file")
    monkeypatch.setenv("KAGGLE_API_TOKEN", str(path))
    [token] = find().tokens
    assert (token.secret, str(path) in token.source) == ("in-the-file", True)


def test_a_path_without_a_file_is_no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that has gone is named and not sent to anybody."""
    monkeypatch.setenv("KAGGLE_API_TOKEN", str(tmp_path / "gone"))
    assert find().tokens == []
    assert "there is no such file" in details()


def test_a_long_token_is_no_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token too long for a file's name is a token all the same."""
    monkeypatch.setenv("KAGGLE_API_TOKEN", "x" * 5000)
    assert find().tokens[0].secret == "x" * 5000


@pytest.mark.parametrize("bad", ["two words", "two\nlines", "ümlaut", "x" * 9000])
def test_what_cannot_be_sent_is_no_token(bad: str, home: Path) -> None:
    """What a header cannot hold is told without being quoted."""
    put(home / "access_token", bad)
    assert find().tokens == []
    assert "holds no token" in details()
    assert bad not in details()


def test_the_environment_overlays_the_key_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Username and key come from kaggle.json, each replaced by its variable."""
    put(home / "kaggle.json", json.dumps({"username": "alice", "key": "old"}))
    assert find().key == Credential("key", str(home / "kaggle.json"), "old", "alice")
    monkeypatch.setenv("KAGGLE_KEY", "new")
    assert find().key == Credential("key", "KAGGLE_KEY", "new", "alice")


def test_the_key_file_may_lie_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """KAGGLE_CONFIG_DIR wins; without ~/.kaggle the desktop's configuration folder counts."""
    content = json.dumps({"username": "alice", "key": "k"})
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    put(tmp_path / "xdg" / "kaggle" / "kaggle.json", content)
    assert find().key
    monkeypatch.setenv("KAGGLE_CONFIG_DIR", str(tmp_path / "own"))
    assert find().key is None
    put(tmp_path / "own" / "kaggle.json", content)
    assert find().key


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("kaggle.json", '{"username": "alice"}', "there is no key beside"),
        ("kaggle.json", '{"token": "KGAT"}', "there is no username beside"),
        ("kaggle.json", "KGAT_not_json", "is no JSON object"),
        ("kaggle.json", "[]", "is no JSON object"),
        ("credentials.json", '{"access_token": "x"}', "has no refresh_token"),
    ],
)
def test_a_broken_file_is_told(home: Path, name: str, content: str, told: str) -> None:
    """A file that is no credential says why, names itself, and ends nothing."""
    put(home / name, content)
    found = find()
    assert not (found.tokens or found.key or found.login)
    assert told in details()
    assert name in details()


def test_an_unreadable_file_is_told(home: Path) -> None:
    """What cannot be opened costs only itself."""
    (home / "access_token").mkdir()
    put(home / "kaggle.json", json.dumps({"username": "alice", "key": "k"}))
    assert find().key
    assert "access_token cannot be read: Is a directory" in details()


def test_a_file_for_everybodys_eyes_is_told(home: Path) -> None:
    """A key that others may read still counts, and the remark says what to type."""
    path = put(home / "kaggle.json", json.dumps({"username": "alice", "key": "k"}), 0o644)
    assert find().key
    assert f"chmod 600 {path}" in details()


def test_no_text_of_a_credential_shows_its_secret() -> None:
    """Neither its repr nor its str does."""
    credential = Credential("key", "here", "the-secret", "alice")
    assert "the-secret" not in f"{credential!r} {credential}"


@pytest.mark.parametrize(
    ("word", "expected"), [("", "https://api.kaggle.com/v1"), ("LOCALHOST", "http://localhost/api/v1")]
)
def test_the_service_is_where_the_client_finds_it(
    word: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real one, or one of your own on this machine."""
    monkeypatch.setenv("KAGGLE_API_ENVIRONMENT", word)
    assert base() == expected


@pytest.mark.parametrize("word", ["TEST", "QA", "STAGING", "localhost", "LOCAL"])
def test_any_other_environment_is_refused(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kaggle's client would take each of these for the real service and send it credentials."""
    monkeypatch.setenv("KAGGLE_API_ENVIRONMENT", word)
    with pytest.raises(UsageError, match="refused"):
        base()
