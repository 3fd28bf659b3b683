"""The live log: records as server-sent events while a session runs, the saved log afterwards."""

from __future__ import annotations

import time
from collections.abc import Iterator

from tests.service.kaggle.knobs import Knobs
from tests.service.kaggle.replies import Reply, ServiceError, Stream
from tests.service.kaggle.sessions import Session


class CutError(Exception):
    """The connection ends here, in the middle of an answer."""


class Streams:
    """Answers the log stream's requests."""

    def __init__(self, knobs: Knobs) -> None:
        self.knobs = knobs
        self._seen: dict[Session, int] = {}  # where a stream that does not replay goes on

    def answer(self, session: Session) -> Reply | Stream:
        """Return the stream of a session that runs, the log of one that has ended."""
        if not self.knobs.stream:
            raise ServiceError(404, "Not found")
        self._wait_for_start(session)
        if session.ended and not self.knobs.stream_cuts:
            text = "" if self.knobs.log_empty else session.log.text(self.knobs.log_form)
            return Reply(200, text.encode(), {"Content-Type": "application/json"})
        charset = "; charset=utf-8" if self.knobs.stream_charset else ""
        return Stream(self._events(session), f"text/event-stream{charset}")

    def _wait_for_start(self, session: Session) -> None:
        patience = time.monotonic() + self.knobs.stream_wait_s
        while session.status == "QUEUED":
            if time.monotonic() > patience:
                raise ServiceError(404, "Not found")
            time.sleep(0.01)

    def _events(self, session: Session) -> Iterator[bytes]:
        cut = self.knobs.next_stream_cut()
        start = 0 if self.knobs.stream_replays else self._seen.get(session, 0)
        if self.knobs.stream_silence_s:
            time.sleep(self.knobs.stream_silence_s)
        if cut == 0:
            raise CutError
        for count, record in enumerate(session.log.follow(start), 1):
            noise = f": still here\nevent: log\nid: {count}\n" if self.knobs.stream_noise else ""
            # Raw UTF-8, as the service may send it: only a stated charset makes it readable.
            yield f"{noise}data: {record.raw_json}\n\n".encode()
            self._seen[session] = start + count
            if count == cut:
                raise CutError
        yield b"data: END_OF_LOG\n\n"
