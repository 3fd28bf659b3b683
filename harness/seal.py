"""The seal on a driver's events, which only the driver can write. Standard library only.

The driver draws a key when it starts and keeps it in its memory alone. The plan, its first event, has the
key's SHA-256, each event an HMAC under the key, and the last event reveals the key, once no other process
of the run lives. Whoever reads the log afterwards can check each line; whoever wrote into it before, could
not know the key.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

# 96 bits of HMAC-SHA-256, in hex. Nobody can try a guess before the key is out, and a guess is right once in
# 2**96; the whole 256 bits would make the log of suite `official` a twentieth longer.
_MAC_HEX = 24
_SEALED = re.compile(rf'(\{{.*),"mac":"([0-9a-f]{{{_MAC_HEX}}})","check":"[0-9a-f]{{8}}"\}}$', re.DOTALL)


class Seal:
    """A key and what is done with it."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = secrets.token_bytes(32) if key is None else key

    @property
    def sha256(self) -> str:
        """What the plan says of the key."""
        return hashlib.sha256(self._key).hexdigest()

    def reveal(self) -> str:
        """Return the key, in hex."""
        return self._key.hex()

    def mac(self, text: str) -> str:
        """Return the text's code under the key."""
        return hmac.digest(self._key, text.encode(errors="surrogatepass"), "sha256").hex()[:_MAC_HEX]

    def holds(self, line: str) -> bool:
        """Whether an event's line was sealed with this key; what stands before its object does not count."""
        found = _SEALED.search(line)
        return found is not None and hmac.compare_digest(found[2], self.mac(found[1]))


def revealed(key: str) -> Seal | None:
    """Return the seal of a key that was revealed; None for what is no key."""
    try:
        return Seal(bytes.fromhex(key)) if key else None
    except ValueError:
        return None
