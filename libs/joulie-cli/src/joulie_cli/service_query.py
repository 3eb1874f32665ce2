"""Requests to an HTTP service of the cluster, through the API server's proxy of its Service or at a URL.

Guarantees that every failure is a CliError that names the service and a way out, that no answer above its limit is
received, and that a password in a URL is in no message.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

import msgspec

from joulie_api.checked_texts import redacted
from joulie_api.errors import AnswerTooLarge, ApiError, DecodeError, Forbidden, NotFound, ServerError, TransportError
from joulie_api.resources import SERVICES
from joulie_cli.output import CliError

if TYPE_CHECKING:
    from joulie_api.client import KubeClient

_NOT_FOUND: Final = 404
_SUCCESS: Final = range(200, 300)
#: Bytes of an error answer that are looked at.
_ERROR_BYTES: Final = 2_000
#: Characters of it that are shown.
_ERROR_CHARACTERS: Final = 200


def _no_error(_body: bytes) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class ServiceWording:
    """Names of a service, its option and its ways out, in sentences for people."""

    #: As `the extender`.
    name: str
    #: Option that takes its URL.
    option: str
    #: The way out where the API server does not reach it.
    directly: str
    #: What to grant a user who may not use the proxy.
    permission: str
    #: What a 404 means.
    not_found: str
    #: The way out of a 404.
    not_found_way_out: str = ""
    #: The way out where the answer is too large.
    too_large_way_out: str = ""
    #: Returns the text of an error answer in the service's own form; None where it has another.
    own_error: Callable[[bytes], str | None] = _no_error


@dataclass(frozen=True, slots=True)
class ProxiedService:
    """A Service whose pods speak HTTP."""

    namespace: str
    name: str
    #: Name or number.
    port: str


class ServiceQuery:
    """One service; `where` names it for people. `at_url` and `behind_proxy` make one."""

    def __init__(self, client: "KubeClient", wording: ServiceWording, base: str, where: str, *, url: bool) -> None:
        self._client = client
        self._wording = wording
        self._base = base
        self._url = url
        self.where = where

    @classmethod
    def at_url(cls, client: "KubeClient", wording: ServiceWording, url: str) -> "ServiceQuery":
        """Return the service at a URL, to which its paths are appended."""
        return cls(client, wording, url.rstrip("/"), redacted(url), url=True)

    @classmethod
    def behind_proxy(cls, client: "KubeClient", wording: ServiceWording, service: ProxiedService) -> "ServiceQuery":
        """Return the service behind a Service of the cluster."""
        base = f"{SERVICES.collection_path(service.namespace)}/http:{service.name}:{service.port}/proxy"
        return cls(client, wording, base, f"{service.namespace}/{service.name}", url=False)

    async def send(
        self,
        method: str,
        path: str,
        query: dict[str, str],
        body: Any = None,
        *,
        timeout_s: float,
        max_bytes: int,
    ) -> bytes:
        """Return the body of the 2xx answer.

        Raises:
            CliError: there is none, or it is longer than `max_bytes`.
        """
        if self._url:
            return await self._direct(method, path, query, body, timeout_s=timeout_s, max_bytes=max_bytes)
        try:
            return await self._client.request(
                method,
                self._base + path,
                query=tuple(query.items()),
                body=body,
                timeout_s=timeout_s,
                max_bytes=max_bytes,
            )
        except ApiError as error:
            self._refused(error)
        except AnswerTooLarge as error:
            raise self._too_large(max_bytes) from error
        except TransportError as error:
            raise CliError(
                f"no answer of {self._wording.name} {self.where} through the API server {self._client.server}: "
                f"{error.message}",
                self._wording.directly,
            ) from error

    def _refused(self, error: ApiError) -> NoReturn:
        """Raise the sentence for what the API server, or the service behind it, has answered."""
        wording, message = self._wording, error.message.strip()
        named = f"{wording.name} {self.where}"
        own = wording.own_error(message.encode())
        if own is not None:
            raise CliError(f"{named} answered {error.status}: {own}") from error
        if isinstance(error, NotFound):
            raise CliError(f"{named} {wording.not_found}: {message}", wording.not_found_way_out) from error
        if isinstance(error, Forbidden):
            raise CliError(f"forbidden: {message}", f"{wording.permission}, or {wording.directly}") from error
        if isinstance(error, ServerError):
            raise CliError(
                f"the API server cannot reach {named}: {message}",
                "are its pods ready, has the Service this port, and does its NetworkPolicy allow the API server? "
                f"Otherwise {wording.directly}",
            ) from error
        raise CliError(f"{named} answered {error.status}: {message}") from error

    def _too_large(self, max_bytes: int) -> CliError:
        problem = f"{self._wording.name} {self.where} answers with more than {max_bytes} bytes"
        return CliError(problem, self._wording.too_large_way_out)

    async def _direct(
        self, method: str, path: str, query: dict[str, str], body: Any, *, timeout_s: float, max_bytes: int
    ) -> bytes:
        # Slow to import, and not needed for completion.
        import aiohttp  # noqa: PLC0415

        from joulie_api.answers import read_answer, session_options  # noqa: PLC0415

        asked = f"{self._wording.option} {self.where}"
        data = None if body is None else msgspec.json.encode(body)
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout, **session_options()) as session,
                session.request(method, self._base + path, params=query, data=data) as answer,
            ):
                if answer.status in _SUCCESS:
                    return await read_answer(answer, max_bytes=max_bytes, what=asked)
                content = await answer.content.read(_ERROR_BYTES)
        except DecodeError as error:
            raise CliError(error.message, self._wording.too_large_way_out) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            problem = redacted(str(error)) or type(error).__name__
            raise CliError(f"{asked}: cannot reach it: {problem}") from error
        own = self._wording.own_error(content)
        text = content.decode(errors="replace")[:_ERROR_CHARACTERS].strip() if own is None else own
        what = self._wording.not_found if answer.status == _NOT_FOUND and own is None else f"answered {answer.status}"
        raise CliError(f"{asked}: it {what}: {text}")
