"""The calls of Kaggle's kernels service that ferry makes, through Kaggle's own library over a wire of ours.

The library is imported at the first call. Importing the package that has the command line (`kaggle`) would
authenticate and print, so only `kagglesdk` is.
"""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

from builder.backends import Submission
from builder.backends.kaggle import credentials
from builder.backends.kaggle.credentials import Credential, Remark
from builder.backends.kaggle.wire import Wire
from builder.errors import InfrastructureError, RefusedHereError

NAME = "kernels.KernelsApiService"
PAGE = 200


class Reference(NamedTuple):
    """One version of one kernel."""

    owner: str
    slug: str
    version: int

    @classmethod
    def of(cls, submission: Submission) -> Reference:
        """Read a submission's reference, `owner/slug/version`."""
        owner, slug, version = submission.reference.split("/")
        return cls(owner, slug, int(version))

    def submission(self, slug: str, url: str = "") -> Submission:
        """Return the submission that this is; `slug` is the intent's."""
        page = url or f"https://www.kaggle.com/code/{self.owner}/{self.slug}"
        return Submission("kaggle", "/".join(map(str, self)), slug, page)

    def fields(self) -> dict[str, str]:
        """Return how a request names it."""
        return {"user_name": self.owner, "kernel_slug": self.slug, "version_label": f"v{self.version}"}


class Service:
    """One account's view of the service. `remarks` tell people about the credentials that were found."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.remarks: list[Remark] = []
        self._credential: Credential | None = None

    def credential(self) -> Credential:
        """Return the credential to use, looked for at the first question."""
        if self._credential is None:
            found = credentials.find()
            self.remarks = found.remarks
            self._credential = credentials.choose(found, self.wire)
        return self._credential

    def call(self, service: str, method: str, request: Any, response_type: Any) -> Any:
        """Carry one call of Kaggle's library: the one verb that it needs of a transport."""
        content = self.wire.ask(service, method, request.to_dict(), self.credential())
        try:
            return response_type.from_dict(_without_nulls(content))
        except (ValueError, TypeError, KeyError, AttributeError) as problem:
            raise InfrastructureError(
                f"Kaggle's answer to {method} cannot be read: {type(problem).__name__}: {problem}",
                "perhaps the service has changed: pip install --upgrade gpuferry kagglesdk",
            ) from problem

    # --- calls ---

    def save_kernel(self, **fields: object) -> Any:
        """Push a kernel."""
        return self._client().save_kernel(_request("ApiSaveKernelRequest", fields))

    def kernel(self, owner: str, slug: str) -> Any:
        """Return a kernel's metadata. DeniedError when the account has none of that name."""
        fields = {"user_name": owner, "kernel_slug": slug}
        return self._client().get_kernel(_request("ApiGetKernelRequest", fields)).metadata

    def source(self, reference: Reference) -> tuple[str, str]:
        """Return the text of a version, and whether it is a `notebook` or a `script`."""
        blob = self._client().get_kernel(_request("ApiGetKernelRequest", reference.fields())).blob
        return str(blob.source or ""), str(blob.kernel_type or "")

    def own_kernels(self, search: str = "") -> list[Any]:
        """Return the metadata of the account's kernels, the last run first: one page of them."""
        kind, order = (_enum(name) for name in ("KernelsListViewType", "KernelsListSortType"))
        fields = {"group": kind.PROFILE, "sort_by": order.DATE_RUN, "search": search, "page_size": 20}
        return list(self._client().list_kernels(_request("ApiListKernelsRequest", fields)).kernels)

    def session_status(self, **fields: str) -> dict[str, Any]:
        """Return the status answer as it came: the library takes a missing status for QUEUED."""
        request = _request("ApiGetKernelSessionStatusRequest", fields)
        return self.wire.ask(NAME, "GetKernelSessionStatus", request.to_dict(), self.credential())

    def session_output(self, reference: Reference, token: str = "") -> Any:
        """Return one page of output files, and the log."""
        fields = {**reference.fields(), "page_size": PAGE, "page_token": token}
        request = _request("ApiListKernelSessionOutputRequest", fields)
        return self._client().list_kernel_session_output(request)

    def delete_kernel(self, owner: str, slug: str) -> str:
        """Delete a kernel with all its versions; return what the service has to say against it."""
        fields = {"user_name": owner, "kernel_slug": slug}
        return str(
            self._client().delete_kernel(_request("ApiDeleteKernelRequest", fields)).error_message or ""
        )

    def quota(self) -> Any:
        """Return the account's use of accelerators this week."""
        return self._client().get_accelerator_quota_statistics()

    def _client(self) -> Any:
        return _library("kernels.services.kernels_api_service").KernelsApiClient(self)


def _library(module: str) -> Any:
    """Import a module of Kaggle's library. RefusedHereError in one sentence when it cannot be."""
    try:
        return importlib.import_module(f"kagglesdk.{module}")
    except ImportError as problem:
        raise RefusedHereError(
            f"Kaggle's library cannot be imported: {problem}",
            "pip install --upgrade kagglesdk, into the environment that ferry is in",
        ) from problem


def _request(name: str, fields: dict[str, Any] | dict[str, object] | dict[str, str]) -> Any:
    request = getattr(_library("kernels.types.kernels_api_service"), name)()
    for field, value in fields.items():
        setattr(request, field, value)
    return request


def _enum(name: str) -> Any:
    return getattr(_library("kernels.types.kernels_enums"), name)


def _without_nulls(content: Any) -> Any:
    """Leave out what is null: the library takes null for a list, and breaks on it."""
    if isinstance(content, dict):
        return {key: _without_nulls(value) for key, value in content.items() if value is not None}
    return (
        [_without_nulls(item) for item in content if item is not None]
        if isinstance(content, list)
        else content
    )
