"""Readiness checks of local processes over HTTP or HTTPS, with the standard library only."""

import asyncio
import ssl
import urllib.error
import urllib.request
from pathlib import Path

from joulie_devcluster.errors import PortTakenError, StartError
from joulie_devcluster.host.process import ProcessExitedError, ServiceProcess

_REQUEST_TIMEOUT_S = 2.0
_INTERVAL_S = 0.1
_PORT_TAKEN = "address already in use"


def tls_context(ca: Path, cert: Path | None = None, key: Path | None = None) -> ssl.SSLContext:
    """Return a context that trusts one authority and presents a client certificate if `cert` is given."""
    context = ssl.create_default_context(cafile=str(ca))
    if cert is not None:
        context.load_cert_chain(cert, key)
    return context


def fetch(url: str, context: ssl.SSLContext | None = None, timeout_s: float = _REQUEST_TIMEOUT_S) -> tuple[int, str]:
    """GET a loopback URL.

    Returns:
        Status and body, also for error statuses.

    Raises:
        OSError: no connection, or no answer within `timeout_s` seconds.
    """
    # Without proxy handlers: HTTP_PROXY does not apply to loopback.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(url, timeout=timeout_s) as reply:
            return int(reply.status), reply.read().decode(errors="replace")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(errors="replace")


def reason_not_ready(url: str, context: ssl.SSLContext | None = None) -> str | None:
    """Return None if the URL answers 200, else a short reason."""
    try:
        status, body = fetch(url, context)
    except OSError as error:
        return str(error)
    return None if status == 200 else f"status {status}: {body.strip()[:500]}"  # noqa: PLR2004 - HTTP's OK


async def wait_until_ready(
    process: ServiceProcess, url: str, *, timeout_s: float, context: ssl.SSLContext | None = None
) -> None:
    """Wait until a process answers 200 on its readiness URL.

    Raises:
        PortTakenError: the process exited because its port was in use.
        ProcessExitedError: the process exited.
        StartError: the process is not ready after `timeout_s` seconds; the message contains the last answer and the
            end of the log.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    while True:
        returncode = process.returncode
        if returncode is not None:
            tail = process.log_tail()
            if _PORT_TAKEN in tail:
                raise PortTakenError(f"{process.name}: {_PORT_TAKEN}")
            raise ProcessExitedError(process.name, returncode, tail)
        reason = await asyncio.to_thread(reason_not_ready, url, context)
        if reason is None:
            return
        if loop.time() >= deadline:
            raise StartError(
                f"{process.name} is not ready after {timeout_s:g} s ({url}: {reason});"
                f" end of its log:\n{process.log_tail()}"
            )
        await asyncio.sleep(_INTERVAL_S)
