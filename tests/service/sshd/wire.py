"""A wire between client and sshd that a test cuts, or lets go silent, at a moment of its choice."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator


class Wire:
    """Carries each connection on to a port of loopback; turn the knobs at any time.

    `silent`: nothing is carried, and nobody is told. `cut_when`: asked before bytes are carried;
    when it says yes, they are lost and every connection is cut. `most`: so many bytes more are
    carried, either way, before that. `carried` counts them.
    """

    def __init__(self, target: int) -> None:
        self.silent = False
        self.cut_when: Callable[[], bool] = lambda: False
        self.most = -1
        self.carried = 0
        self._target = target
        self._ends: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def mend(self) -> None:
        """Turn every knob back."""
        self.silent, self.most = False, -1
        self.cut_when = lambda: False

    def cut(self) -> None:
        """Cut every connection there is."""
        ends, self._ends = self._ends, []
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Cut everything for good."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                self._ends += [client, server]
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=self._carry, args=pair, daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with source, contextlib.suppress(OSError):
            while block := source.recv(1 << 14):
                if self.silent:
                    continue
                if self._ends_here(len(block)):
                    self.cut()
                    return
                sink.sendall(block)
            source.shutdown(socket.SHUT_RDWR)
            sink.shutdown(socket.SHUT_RDWR)

    def _ends_here(self, count: int) -> bool:
        self.carried += count
        if self.most >= 0:
            self.most = max(0, self.most - count)
        return self.most == 0 or self.cut_when()


@contextlib.contextmanager
def wire(target: int) -> Iterator[Wire]:
    """Lay a wire to a port of loopback."""
    laid = Wire(target)
    try:
        yield laid
    finally:
        laid.close()
