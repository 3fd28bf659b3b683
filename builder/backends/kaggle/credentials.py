"""Who asks: every kind of credential that Kaggle's own client knows, in its order.

| order | what         | where                                                                        |
| 1     | token        | KAGGLE_API_TOKEN (or the file it names), ~/.kaggle/access_token, access_token.txt |
| 2     | key          | KAGGLE_USERNAME and KAGGLE_KEY over kaggle.json                              |
| 3     | OAuth login  | ~/.kaggle/credentials.json, whose access token is renewed when it is stale   |

A token that is no longer valid is passed over with a remark. Kaggle's client would send it all the same.
"""

from __future__ import annotations

import base64
import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from builder.errors import DeniedError, RefusedHereError

if TYPE_CHECKING:
    from builder.backends.kaggle.wire import Wire

SPARE = timedelta(minutes=5)  # an access token that ends sooner is renewed
ACCESS_S = 43_200
_USABLE = re.compile(r"[\x21-\x7e]{1,8192}")
_LOG_IN = "run `kaggle auth login` again"
MAKE_ONE = "make a token in Kaggle's settings and put it into KAGGLE_API_TOKEN or ~/.kaggle/access_token"


@dataclass(frozen=True)
class Credential:
    """A right to ask; its secret is in no text that this makes.

    `kind` is token, key, OAuth login, or renewal, whose secret goes into the call and not into a header.
    """

    kind: str
    source: str
    secret: str = field(repr=False)
    username: str = ""

    def sign(self, request: Any) -> Any:
        """Put the right into a request's header."""
        if self.kind == "key":
            pair = base64.b64encode(f"{self.username}:{self.secret}".encode()).decode()
            request.headers["Authorization"] = f"Basic {pair}"
        elif self.kind != "renewal":
            request.headers["Authorization"] = f"Bearer {self.secret}"
        return request

    def hide(self, text: str) -> str:
        """Return `text` without the secret."""
        return text.replace(self.secret, "…")


class Remark(NamedTuple):
    """What is wrong with a credential, and how to mend it."""

    detail: str
    mend: str


@dataclass
class Found:
    """The credentials on this machine, and what is wrong with them and with others."""

    tokens: list[Credential] = field(default_factory=list)
    key: Credential | None = None
    login: dict[str, Any] = field(default_factory=dict)
    remarks: list[Remark] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether nothing here even looks like a credential."""
        return not (self.tokens or self.key or self.login or self.remarks)


def find() -> Found:
    """Look for credentials; asks nobody."""
    found = Found()
    for source, text in _token_texts(found.remarks):
        if _is_usable(source, text, found.remarks):
            found.tokens.append(Credential("token", source, text))
    found.key = _key(found.remarks)
    login = home() / "credentials.json"
    found.login = _read_json(login, found.remarks)
    if found.login and not found.login.get("refresh_token"):
        found.remarks.append(Remark(f"{login} has no refresh_token", _LOG_IN))
        found.login = {}
    return found


def home() -> Path:
    """Return where Kaggle's client keeps tokens, whatever else is configured."""
    return Path("~/.kaggle").expanduser()


def config_folder() -> Path:
    """Return where Kaggle's client looks for kaggle.json."""
    if folder := os.environ.get("KAGGLE_CONFIG_DIR"):
        return Path(folder)
    if home().is_dir():
        return home()
    return Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "kaggle"


def _token_texts(remarks: list[Remark]) -> Iterator[tuple[str, str]]:
    """Yield (where it stands, the token)."""
    if os.environ.get("KAGGLE_KERNEL_RUN_TYPE") and os.environ.get("KAGGLE_DATA_PROXY_URL"):
        path = os.environ.get("KAGGLE_API_V1_TOKEN", "")
        yield path, _read(Path(path), remarks) if path else ""
    given = os.environ.get("KAGGLE_API_TOKEN", "").strip()
    if _is_file(given):
        yield f"the file that KAGGLE_API_TOKEN names ({given})", _read(Path(given), remarks)
    elif given.startswith(("/", "~", "./")):
        remarks.append(Remark(f"KAGGLE_API_TOKEN names {given}, and there is no such file", MAKE_ONE))
    else:
        yield "KAGGLE_API_TOKEN", given
    for name in ("access_token", "access_token.txt"):
        if (home() / name).exists():
            yield f"~/.kaggle/{name}", _read(home() / name, remarks)


def _is_file(text: str) -> bool:
    try:
        return bool(text) and Path(text).is_file()
    except (OSError, ValueError):  # a token may be too long for a file's name
        return False


def _is_usable(source: str, text: str, remarks: list[Remark]) -> bool:
    if text and not _USABLE.fullmatch(text):
        told = f"{source} holds no token: it has blanks, line breaks, or {len(text):,} characters"
        remarks.append(Remark(told, "copy it again, on one line"))
    return bool(_USABLE.fullmatch(text))


def _key(remarks: list[Remark]) -> Credential | None:
    path = config_folder() / "kaggle.json"
    content = _read_json(path, remarks)
    name = os.environ.get("KAGGLE_USERNAME") or content.get("username")
    secret = os.environ.get("KAGGLE_KEY") or content.get("key")
    source = "KAGGLE_KEY" if os.environ.get("KAGGLE_KEY") else str(path)
    if isinstance(name, str) and isinstance(secret, str) and name and secret:
        return Credential("key", source, secret, name) if _is_usable(source, secret, remarks) else None
    if content or name or secret:
        missing = "key" if name else "username"
        told = f"{source}: there is no {missing} beside what it has"
        remarks.append(Remark(told, "a new-style token belongs into ~/.kaggle/access_token"))
    return None


def _read(path: Path, remarks: list[Remark]) -> str:
    try:
        text = path.read_text(encoding="utf-8").strip()
        if os.name == "posix" and path.stat().st_mode & 0o077:
            remarks.append(Remark(f"{path} can be read by others on this machine", f"chmod 600 {path}"))
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or "it is no text"
        remarks.append(Remark(f"{path} cannot be read: {why}", "mend or remove it"))
        return ""
    return text


def _read_json(path: Path, remarks: list[Remark]) -> dict[str, Any]:
    text = _read(path, remarks) if path.exists() else ""
    try:
        content = json.loads(text or "{}")
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        remarks.append(Remark(f"{path} is no JSON object", "get it anew from Kaggle's settings"))
        return {}
    return content


# --- with the service -------------------------------------------------------------------------------------


def choose(found: Found, wire: Wire) -> Credential:
    """Return the first credential that is valid, its account in it; a key is believed unasked.

    Adds a remark for each that is not. RefusedHereError when none is left, InfrastructureError when the
    service could not be asked.
    """
    for token in found.tokens:
        if username := introspect(token, wire):
            return Credential(token.kind, token.source, token.secret, username)
        told = f"the token in {token.source} is no longer valid and is passed over"
        found.remarks.append(Remark(told, "remove it: Kaggle's own client would send it all the same"))
    credential = found.key or (_renewed(found, wire) if found.login else None)
    if credential is None:
        why = "; ".join(remark.detail for remark in found.remarks)
        raise RefusedHereError(
            f"no Kaggle credential of this machine can be used{': ' if why else ''}{why}", MAKE_ONE
        )
    return credential


def introspect(token: Credential, wire: Wire) -> str:
    """Return the account that a token belongs to; empty when it is no longer valid."""
    try:
        answer = wire.ask("security.OAuthService", "IntrospectToken", {"token": token.secret}, token)
    except DeniedError:
        return ""
    username = answer.get("username")
    return username if answer.get("active") is True and isinstance(username, str) else ""


def _renewed(found: Found, wire: Wire) -> Credential | None:
    """Return the OAuth login with an access token that is still good, asking for one when it must."""
    login, path = found.login, home() / "credentials.json"
    if not _is_fresh(login):
        right = Credential("renewal", str(path), str(login["refresh_token"]))
        content = {
            "refreshToken": right.secret,
            "apiVersion": "API_VERSION_V1",
            "expirationDuration": f"{ACCESS_S}s",
        }
        try:
            answer = wire.ask("users.AccountService", "GenerateAccessToken", content, right)
        except DeniedError:
            found.remarks.append(Remark(f"the login in {path} has ended", _LOG_IN))
            return None
        ends = datetime.now(UTC) + timedelta(seconds=float(answer.get("expiresIn") or ACCESS_S))
        login |= {"access_token": answer.get("token"), "access_token_expiration": ends.isoformat()}
        login["username"] = answer.get("userName") or login.get("username")
        _keep(path, login)
    secret, username = login.get("access_token"), login.get("username")
    if not (isinstance(secret, str) and _USABLE.fullmatch(secret) and isinstance(username, str) and username):
        found.remarks.append(Remark(f"{path} came to no token or no username", _LOG_IN))
        return None
    return Credential("OAuth login", f"{path} (from `kaggle auth login`)", secret, username)


def _is_fresh(login: dict[str, Any]) -> bool:
    with suppress(KeyError, TypeError, ValueError):
        ends = datetime.fromisoformat(login["access_token_expiration"])
        ends = ends if ends.tzinfo else ends.replace(tzinfo=UTC)
        return bool(login.get("access_token")) and ends > datetime.now(UTC) + SPARE
    return False


def _keep(path: Path, content: dict[str, Any]) -> None:
    """Write the login back for Kaggle's client, for nobody else to read; no harm where that cannot be."""
    with suppress(OSError):
        handle, name = tempfile.mkstemp(prefix=".credentials.", dir=path.parent)  # mode 0600 from the start
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump(content, stream, indent=2)
        Path(name).replace(path)
