"""The files of a session: pages of signed links, and what stands behind a link."""

from __future__ import annotations

import email.utils
import hashlib
import hmac
import re
import time
from urllib.parse import parse_qs, quote, unquote

from tests.service.kaggle.knobs import Knobs
from tests.service.kaggle.replies import Reply, page
from tests.service.kaggle.sessions import Session, Sessions

_KEY = b"the service's own"


class Outputs:
    """Lists what ended sessions left, and hands it out to whoever has a good link."""

    def __init__(self, sessions: Sessions, knobs: Knobs, address: str) -> None:
        self.sessions, self.knobs, self.address = sessions, knobs, address

    def page(self, session: Session, size: int, token: str) -> tuple[list[dict[str, str]], str]:
        """Return one page and the token of the next, "" at the end. A running session has no files."""
        names = list(self._files(session))
        size = min(size, self.knobs.page_limit)
        start, _, again = token.partition("-")
        begin = int(start or 0)
        files = [{"url": self._link(session, name), "fileName": name} for name in names[begin : begin + size]]
        if self.knobs.page_repeats and files and not again:
            return files, f"{begin}-again"
        if self.knobs.token_repeats and token:
            return files, token
        more = begin + size < len(names)
        return files, str(begin + size) if more else ""

    def fetch(self, path: str, query: str, asked_range: str) -> Reply:
        """Answer a download; only the link's signature and its age count, never who asks."""
        _, _, number, name = unquote(path).split("/", 3)
        signed = {name: values[0] for name, values in parse_qs(query).items()}
        until = signed.get("until", "0")
        session = self.sessions.all[int(number)] if number.isdigit() else None
        good = hmac.compare_digest(signed.get("sig", ""), _signature(number, name, until))
        if session is None or not good or time.time() > float(until) or self.knobs.link_life_s <= 0:
            return page("This link has expired", self.knobs.dead_link_status)
        return self._file(session, self._files(session)[name], asked_range)

    def _files(self, session: Session) -> dict[str, bytes]:
        return session.outputs | dict(self.knobs.hostile_files) if session.ended else {}

    def _link(self, session: Session, name: str) -> str:
        number = str(self.sessions.all.index(session))
        until = f"{time.time() + self.knobs.link_life_s:.3f}"
        signature = _signature(number, name, until)
        return f"{self.address}/signed/{number}/{quote(name, safe='')}?sig={signature}&until={until}"

    def _file(self, session: Session, data: bytes, asked_range: str) -> Reply:
        headers = {
            "Content-Type": "application/octet-stream",
            "Last-Modified": email.utils.formatdate(session.ended_wall, usegmt=True),
            "ETag": f'"{hashlib.sha256(data).hexdigest()[:16]}"',
            "Accept-Ranges": "bytes",
        }
        status, size = 200, len(data)
        if found := re.fullmatch(r"bytes=(\d+)-", asked_range):
            begin = int(found[1])
            headers["Content-Range"] = f"bytes {begin}-{size - 1}/{size}"
            status, data = 206, data[begin:]
        sent = data[: max(0, len(data) - self.knobs.short_by)]
        return Reply(status, sent, headers, declared=None if self.knobs.short_openly else len(data))


def _signature(*parts: str) -> str:
    return hmac.new(_KEY, "\n".join(parts).encode(), hashlib.sha256).hexdigest()
