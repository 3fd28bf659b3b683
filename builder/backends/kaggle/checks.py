"""Whether a push to Kaggle could work from here: library, proxy, credentials, the service, the clock."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from urllib.parse import urlsplit

from builder.backends import Finding
from builder.backends.kaggle import credentials
from builder.backends.kaggle.service import Service
from builder.backends.kaggle.wire import base
from builder.errors import FerryError

SKEW_S = 60.0
NOT_OURS = ("KAGGLE_TOKEN",)  # Kaggle's client takes any KAGGLE_… for a setting, and this one for a token


def checks(service: Service) -> Iterator[Finding]:
    """Yield what each look came to; later looks are left out where an earlier one makes them pointless."""
    yield _library()
    try:
        url = base()
    except FerryError as problem:
        yield Finding("service", problem.message, problem.hint)
        return
    yield from _proxy(url)
    found = credentials.find()
    if found.is_empty:
        yield Finding("credential", "there is no Kaggle credential here", credentials.MAKE_ONE, absent=True)
        return
    yield from _account(service)
    yield from (Finding("credential", *remark) for remark in service.remarks)
    for name in NOT_OURS:
        if name in os.environ:
            yield Finding(
                "credential", f"{name} is set: Kaggle's own client sends it as a token", f"unset {name}"
            )


def _library() -> Finding:
    try:
        told = f"kagglesdk {version('kagglesdk')}"
    except PackageNotFoundError:
        return Finding("library", "Kaggle's library is not installed", "pip install kagglesdk")
    if find_spec("kagglesdk") is None:
        return Finding("library", f"{told} is damaged", "pip install --force-reinstall kagglesdk")
    if find_spec("kaggle") and not find_spec("six"):
        return Finding(
            "library", f"{told}; Kaggle's own command line lacks the package six", "pip install six"
        )
    return Finding("library", told)


def _proxy(url: str) -> Iterator[Finding]:
    from requests.utils import get_environ_proxies, select_proxy, should_bypass_proxies

    host = urlsplit(url).hostname or ""
    proxy = select_proxy(url, get_environ_proxies(url)) or ""
    given = [name for name in os.environ if name.upper() in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")]
    if proxy and not _has_host(proxy):
        yield Finding(
            "proxy", "the proxy's address has no host in it", f"write http://HOST:PORT in {', '.join(given)}"
        )
    elif proxy:
        yield Finding("proxy", f"{host} through {_without_password(proxy)}")
    elif given and should_bypass_proxies(url, no_proxy=None) and host == "localhost":
        yield Finding(
            "proxy", "NO_PROXY exempts localhost, where the service is said to be", "unset NO_PROXY no_proxy"
        )
    elif given:
        yield Finding(
            "proxy", f"{host} directly, although {', '.join(given)} is set: it is not for this address"
        )
    else:
        yield Finding("proxy", f"{host} directly")


def _has_host(proxy: str) -> bool:
    try:
        parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        return bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def _without_password(proxy: str) -> str:
    scheme, _, rest = proxy.rpartition("://")
    return f"{scheme or 'http'}://{rest.rpartition('@')[2]}"


def _account(service: Service) -> Iterator[Finding]:
    try:
        service.quota()
        credential = service.credential()
        yield Finding("account", f"{credential.username}, by the {credential.kind} in {credential.source}")
    except FerryError as problem:
        yield Finding("account", problem.message, problem.hint or "try again later")
    if service.wire.date:
        yield clock(service.wire.date, datetime.now(UTC))


def clock(date: str, now: datetime) -> Finding:
    """Hold this machine's time against the service's, which is to the second and as old as its answer."""
    try:
        ahead_s = (now - parsedate_to_datetime(date)).total_seconds()
    except (TypeError, ValueError):
        return Finding("clock", "Kaggle's answer has no readable date")
    if abs(ahead_s) > SKEW_S:
        way = "ahead of" if ahead_s > 0 else "behind"
        return Finding(
            "clock",
            f"this machine is {abs(ahead_s):.0f} s {way} Kaggle",
            "set it right: timedatectl set-ntp true",
        )
    return Finding("clock", f"within {SKEW_S:g} s of Kaggle's")
