"""Client of the API server: sends requests, returns raw JSON.

Guarantees: every call has a time limit, sends the content type that its verb needs, and returns a 2xx body or raises
one of `joulie_api.errors`. After a 401 the credentials are reloaded and the request is repeated once, since an
unauthenticated request has no effect. Nothing else is retried here: the caller knows whether repeating is safe. Objects
are not decoded here; see `joulie_api.wire`.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
import msgspec
import structlog

from joulie_api._kubernetes import Session, describe, load_library
from joulie_api.errors import AnswerTooLarge, ConfigError, TransportError, api_error
from joulie_api.outage import CONNECT_TIMEOUT_S, Outage
from joulie_api.resources import PODS, Resource
from joulie_api.watch_stream import read_lines
from joulie_api.wire import decode_page

Query = tuple[tuple[str, str], ...]

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
#: Requests `metadata` only; a server that cannot leave out the rest sends whole objects.
METADATA_LIST: Final = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{JSON}"

#: Longer than an API server needs for one object or one page, shorter than its own 60 s limit for a request.
REQUEST_TIMEOUT_S: Final = 30.0
#: API servers send a bookmark about once a minute and keep 75 s of events: a longer silence means a dead stream.
WATCH_IDLE_TIMEOUT_S: Final = 70.0
#: API servers send the headers of a watch at once.
_WATCH_ANSWER_TIMEOUT_S: Final = 10.0
#: Time that a watch may take beyond its `timeoutSeconds`.
_WATCH_GRACE_S: Final = 30.0
#: Objects in one page of a list; client-go requests 500 too.
PAGE_LIMIT: Final = 500
#: Credentials are not reloaded more often than this, however many requests are refused.
_RELOAD_INTERVAL_S: Final = 5.0

_log = structlog.get_logger()


class KubeClient:
    """A client, one per process; an async context manager that closes its connections.

    `reload_count` is the number of times credentials were reloaded after a 401; `outage` is where its users wait after
    failures.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._reloading = asyncio.Lock()
        self._reloaded_at = float("-inf")
        self.reload_count = 0
        self.outage = Outage()

    @classmethod
    async def connect(cls, *, kubeconfig: str | None = None, context: str | None = None, user_agent: str) -> Self:
        """Read `kubeconfig` (None or empty: the pod's service account) and prepare a session; send no request.

        The environment is not read, except for the service address inside a pod.

        Raises:
            ConfigError: the configuration is missing or invalid.
        """
        session = Session(load_library(), kubeconfig=kubeconfig or None, context=context)
        await session.open(user_agent)
        return cls(session)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections, those of watches included."""
        await self._session.close()

    @property
    def server(self) -> str:
        """URL of the API server."""
        return self._session.server

    @property
    def namespace(self) -> str:
        """Namespace of the kubeconfig's context; `default` where it names none."""
        return self._session.namespace

    async def get(
        self, res: Resource, name: str, namespace: str | None = None, *, timeout_s: float = REQUEST_TIMEOUT_S
    ) -> bytes:
        """Return an object as raw JSON.

        Raises:
            NotFound: it does not exist.
        """
        return await self.request("GET", res.object_path(name, namespace), timeout_s=timeout_s)

    async def list_pages(
        self,
        res: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE_LIMIT,
        resource_version: str | None = None,
        metadata_only: bool = False,
    ) -> AsyncIterator[bytes]:
        """Yield the pages of one list, raw.

        `resource_version` None reads the most recent state; "0" any state that the server has cached. `metadata_only`
        requests objects without spec and status.

        Raises:
            Gone: the list took so long that the server dropped its snapshot.
        """
        token = ""
        while True:
            raw = await self.list_page(
                res,
                namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                limit=limit,
                resource_version=resource_version,
                continue_token=token,
                metadata_only=metadata_only,
            )
            yield raw
            token = decode_page(raw).metadata.continue_
            if not token:
                return

    async def list_page(
        self,
        res: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE_LIMIT,
        resource_version: str | None = None,
        continue_token: str = "",
        metadata_only: bool = False,
        max_bytes: int | None = None,
    ) -> bytes:
        """Return one page of a list, raw; its `metadata.continue` is the `continue_token` of the next, "" if none.

        Raises:
            AnswerTooLarge: it is longer than `max_bytes`; a smaller `limit` may help.
        """
        query = [*_selectors(label_selector, field_selector), ("limit", str(limit))]
        if continue_token:
            query.append(("continue", continue_token))  # the token has the resourceVersion; the server refuses both
        elif resource_version is not None:
            query.append(("resourceVersion", resource_version))
        return await self.request(
            "GET",
            res.collection_path(namespace),
            query=tuple(query),
            accept=METADATA_LIST if metadata_only else JSON,
            connect_timeout_s=self.outage.connect_timeout_s,
            max_bytes=max_bytes,
        )

    async def list(
        self, res: Resource, namespace: str | None = None, *, label_selector: str = "", field_selector: str = ""
    ) -> list[dict[str, Any]]:
        """Return all objects as dictionaries, for tests and tools; services watch instead."""
        pages = self.list_pages(res, namespace, label_selector=label_selector, field_selector=field_selector)
        found = [decode_page(raw) async for raw in pages]
        return [msgspec.json.decode(bytes(item)) for page in found for item in page.items or ()]

    async def create(
        self,
        res: Resource,
        body: Mapping[str, Any],
        namespace: str | None = None,
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> bytes:
        """Create an object.

        Raises:
            AlreadyExists: an object of that name exists.
            Invalid: the object violates the schema.
        """
        return await self.request("POST", res.collection_path(namespace), body=body, timeout_s=timeout_s)

    async def replace(
        self,
        res: Resource,
        name: str,
        body: Mapping[str, Any],
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> bytes:
        """Replace an object.

        Raises:
            Conflict: `body` has a `metadata.resourceVersion`, and the object has changed since.
        """
        path = res.object_path(name, namespace, subresource)
        return await self.request("PUT", path, body=body, timeout_s=timeout_s)

    async def merge_patch(
        self,
        res: Resource,
        name: str,
        body: Mapping[str, Any],
        namespace: str | None = None,
        subresource: str | None = None,
        *,
        field_manager: str = "",
    ) -> bytes:
        """Apply a JSON merge patch (RFC 7386): None deletes a key, a list replaces the list.

        Raises:
            NotFound: the object does not exist.
        """
        path = res.object_path(name, namespace, subresource)
        query = (("fieldManager", field_manager),) if field_manager else ()
        return await self.request("PATCH", path, query=query, body=body, content_type=MERGE_PATCH)

    async def apply(
        self,
        res: Resource,
        name: str,
        body: Mapping[str, Any],
        *,
        field_manager: str,
        force: bool = True,
        namespace: str | None = None,
        subresource: str | None = None,
    ) -> bytes:
        """Apply an object server-side: `body` is every field that `field_manager` owns, with apiVersion, kind and name.

        Creates the object if there is none.

        Raises:
            NotFound: a subresource of an object that does not exist.
            Conflict: another manager owns a field and `force` is false; the message names both.
        """
        query = (("fieldManager", field_manager), ("force", "true" if force else "false"))
        path = res.object_path(name, namespace, subresource)
        return await self.request("PATCH", path, query=query, body=body, content_type=APPLY_PATCH)

    async def evict(self, name: str, namespace: str) -> None:
        """Evict a pod, within the PodDisruptionBudgets.

        Raises:
            TooManyRequests: a budget does not allow it now.
            NotFound: it does not exist.
        """
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
        }
        await self.request("POST", PODS.object_path(name, namespace, "eviction"), body=body)

    async def delete(self, res: Resource, name: str, namespace: str | None = None, *, version: str = "") -> None:
        """Delete an object, with background propagation; with a `version` only where that is its resourceVersion.

        Raises:
            NotFound: it does not exist.
            Conflict: it has another version.
        """
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"resourceVersion": version}}
        await self.request("DELETE", res.object_path(name, namespace), body=body if version else None)

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: Mapping[str, Any] | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout_s: float = REQUEST_TIMEOUT_S,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        max_bytes: int | None = None,
    ) -> bytes:
        """Send one request and return the body of its 2xx answer.

        Raises:
            AnswerTooLarge: it is longer than `max_bytes`.
            ApiError: any other answer.
            TransportError: no complete answer.
        """
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=min(connect_timeout_s, timeout_s))
        headers = {"Accept": accept, "Content-Type": content_type}
        response = await self._answer(method, path, query, body=body, headers=headers, timeout=timeout)
        return await _read(response, f"{method} {path}", max_bytes)

    @asynccontextmanager
    async def watch(
        self,
        res: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout_s: int,
        idle_timeout_s: float = WATCH_IDLE_TIMEOUT_S,
    ) -> AsyncGenerator[AsyncIterator[bytes]]:
        """Open a watch after `resource_version` and yield its lines, bookmarks included, until the server ends it.

        `timeout_s` is the `timeoutSeconds` of the request.

        Raises:
            ApiError: on entering, the server refuses.
            IdleTimeoutError: on reading, no data for `idle_timeout_s`.
            StreamBrokenError: on reading, the stream breaks.
        """
        query = (
            *_selectors(label_selector, field_selector),
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", resource_version),
            ("timeoutSeconds", str(timeout_s)),
        )
        path = res.collection_path(namespace)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self.outage.connect_timeout_s)
        try:
            async with asyncio.timeout(_WATCH_ANSWER_TIMEOUT_S):
                headers = {"Accept": JSON, "Content-Type": JSON}
                response = await self._answer("GET", path, query, body=None, headers=headers, timeout=timeout)
        except TimeoutError as error:
            raise TransportError(f"watch of {path}: no answer") from error
        lines = read_lines(response, path, idle_s=idle_timeout_s, total_s=timeout_s + _WATCH_GRACE_S)
        try:
            yield lines
        finally:
            await lines.aclose()
            response.close()

    async def _answer(
        self,
        method: str,
        path: str,
        query: Query,
        *,
        body: Mapping[str, Any] | None,
        headers: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - the session's own limit, not a scope of this function
    ) -> aiohttp.ClientResponse:
        """Return the 2xx answer, unread; raise the ApiError of any other, after reading its body."""
        for attempt in (1, 2):
            response = await self._session.send(method, path, query=query, headers=headers, body=body, timeout=timeout)
            if response.status < HTTPStatus.MULTIPLE_CHOICES:
                return response
            refused = response.status == HTTPStatus.UNAUTHORIZED
            if refused and attempt == 1 and await self._reload_credentials():
                response.close()
                continue
            answer = await _read(response, f"{method} {path}")
            raise api_error(response.status, answer, retry_after_header=response.headers.get("Retry-After"))
        raise AssertionError("the second attempt returns or raises")

    async def _reload_credentials(self) -> bool:
        """Reload the credentials, unless that was just done; return False when they cannot be read."""
        now = asyncio.get_running_loop().time()
        async with self._reloading:  # requests refused together share one reload
            if now - self._reloaded_at < _RELOAD_INTERVAL_S:
                return self._reloaded_at >= now
            self._reloaded_at = asyncio.get_running_loop().time()
            self.reload_count += 1
            try:
                await self._session.reload_credentials()
            except ConfigError as error:
                _log.warning("reloading credentials failed", error=str(error))
                return False
            return True


def _selectors(label_selector: str, field_selector: str) -> list[tuple[str, str]]:
    given = (("labelSelector", label_selector), ("fieldSelector", field_selector))
    return [(key, value) for key, value in given if value]


async def _read(response: aiohttp.ClientResponse, what: str, max_bytes: int | None = None) -> bytes:
    try:
        if max_bytes is None:
            return await response.read()
        body = bytearray()
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > max_bytes:
                response.close()
                raise AnswerTooLarge(f"{what}: more than {max_bytes} bytes")
        return bytes(body)
    except (aiohttp.ClientError, OSError) as error:
        raise TransportError(f"{what}: {describe(error)}") from error
