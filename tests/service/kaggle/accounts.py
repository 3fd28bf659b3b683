"""Who is asking: tokens, keys and the calls about them."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import Any, Literal

AuthKind = Literal["bearer", "basic", "none"]


@dataclass
class Account:
    """One user with each kind of credential that the client knows."""

    username: str
    token: str
    key: str
    refresh_token: str
    minted: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, username: str) -> Account:
        """Return an account whose credentials can be told from its name."""
        return cls(username, f"token-of-{username}", f"key-of-{username}", f"refresh-of-{username}")


def auth_kind(header: str) -> AuthKind:
    """Which kind of credential an Authorization header holds."""
    scheme = header.partition(" ")[0].lower()
    return "bearer" if scheme == "bearer" else "basic" if scheme == "basic" else "none"


class Accounts:
    """The accounts that the service knows."""

    def __init__(self, *usernames: str) -> None:
        self.known = {name: Account.of(name) for name in usernames}

    def who(self, header: str, tokens_expired: bool) -> str | None:
        """Return the user whom an Authorization header names, None if it is not good."""
        value = header.partition(" ")[2]
        if auth_kind(header) == "bearer":
            return None if tokens_expired else self._owner(value)
        try:
            user, _, key = base64.b64decode(value, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
        account = self.known.get(user)
        return user if account and account.key == key else None

    def introspect(self, token: str, tokens_expired: bool) -> dict[str, Any]:
        """Answer `IntrospectToken`."""
        user = None if tokens_expired else self._owner(token)
        return {"active": True, "username": user, "userId": 7, "scope": ""} if user else {"active": False}

    def mint(self, refresh_token: str) -> dict[str, Any] | None:
        """Answer `GenerateAccessToken` with a new token, None for an unknown refresh token."""
        for account in self.known.values():
            if account.refresh_token == refresh_token:
                account.minted.append(f"minted-{len(account.minted) + 1}-for-{account.username}")
                answer = {"token": account.minted[-1], "expiresIn": 43200}
                return answer | {"userName": account.username, "userId": 7}
        return None

    def _owner(self, token: str) -> str | None:
        for account in self.known.values():
            if token in (account.token, *account.minted):
                return account.username
        return None
