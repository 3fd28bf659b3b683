"""Raw requests to the service, for what the official client cannot be made to ask or to show."""

from __future__ import annotations

from typing import Any

import requests

from tests.service.kaggle.server import KaggleServer
from tests.service.kaggle.sessions import Session

KERNEL = {"userName": "alice", "kernelSlug": "some-kernel"}
BEARER = {"Authorization": "Bearer token-of-alice"}


class Asking:
    """Raw requests to the service, as alice."""

    def __init__(self, server: KaggleServer) -> None:
        self.server = server
        self.timeout = 10.0
        self.http = requests.Session()
        self.http.trust_env = False
        self.http.headers.update(BEARER)

    def post(self, call: str, **body: Any) -> requests.Response:
        """Send one call and return whatever comes."""
        url = f"{self.server.address}/v1/kernels.KernelsApiService/{call}"
        return self.http.post(url, json=body, timeout=self.timeout)

    def __call__(self, call: str, **body: Any) -> Any:
        """Send one call about the kernel; return its answer's JSON."""
        answer = self.post(call, **(KERNEL | body))
        assert answer.status_code == 200, answer.text
        return answer.json()

    def push(self, text: str = "", **settings: Any) -> Any:
        """Push a script, or a notebook with `kernelType`."""
        about = {"slug": "alice/some-kernel", "newTitle": "some kernel", "language": "python"}
        return self("SaveKernel", text=text, **(about | {"kernelType": "script"} | settings))

    def run(self, text: str = "", **settings: Any) -> Session:
        """Push and return the ended session."""
        assert self.push(text, **settings)["versionNumber"]
        self.server.sessions[-1].wait()
        return self.server.sessions[-1]

    def stream(self, **params: str) -> requests.Response:
        """Return the log stream's answer, unread."""
        url = f"{self.server.address}/v1/kernels/logs/stream/alice/some-kernel"
        return self.http.get(url, params=params, stream=True, timeout=self.timeout)

    def pages(self, most: int) -> list[list[str]]:
        """Return the names on each page of two outputs, of at most so many pages."""
        pages: list[list[str]] = []
        token = ""
        while len(pages) < most and (token or not pages):
            answer = self("ListKernelSessionOutput", pageSize=2, pageToken=token)
            pages.append([file["fileName"] for file in answer["files"]])
            token = answer.get("nextPageToken", "")
        return pages
