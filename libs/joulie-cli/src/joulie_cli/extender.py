"""Queries to the extender's endpoints for people, through the API server's proxy of its Service or at a URL."""

from typing import TYPE_CHECKING, Any, Final

import msgspec

from joulie_api.decoding import decode
from joulie_api.errors import ApiError, DecodeError, Forbidden, NotFound, ServerError
from joulie_api.resources import SERVICES
from joulie_cli.cluster import ClusterReader
from joulie_cli.output import CliError
from joulie_cli.views import decode_namespaced_name
from joulie_cli.views.pods import EXTENDER_SELECTOR

if TYPE_CHECKING:
    from joulie_api.client import KubeClient

#: The name of the port in the chart's Service.
_PORT: Final = "http"
_TIMEOUT_S: Final = 20.0
_NOT_FOUND: Final = 404
_OK: Final = 200
_BY_URL: Final = "--extender-url http://HOST:9876 asks it directly, for example through kubectl port-forward"


class ExtenderQuery:
    """The extender of one cluster; `where` names it for people."""

    def __init__(self, client: "KubeClient", base: str, *, url: bool) -> None:
        self._client = client
        self._base = base
        self._url = url
        self.where = base if url else base.rpartition("/services/http:")[2].partition(":")[0]

    async def scoring(self, node: str) -> dict[str, Any]:
        """Return `/debug/scoring` of one node.

        Raises:
            CliError: the extender does not know the node, or cannot be reached.
        """
        return await self._send("GET", "/debug/scoring", {"node": node}, None)

    async def explain(self, pod: dict[str, Any], nodes: list[str]) -> dict[str, Any]:
        """Return `/debug/explain` of a pod for some nodes.

        Raises:
            CliError: the extender cannot be reached.
        """
        return await self._send("POST", "/debug/explain", {}, {"Pod": pod, "Nodes": None, "NodeNames": nodes})

    async def _send(self, method: str, path: str, query: dict[str, str], body: Any) -> dict[str, Any]:
        answer = await (self._direct if self._url else self._proxied)(method, path, query, body)
        try:
            found: dict[str, Any] = decode(msgspec.json.decode, answer, "JSON")
        except DecodeError as error:
            raise CliError(f"{self.where} is not Joulie's extender: {path} is not JSON", _BY_URL) from error
        return found

    async def _proxied(self, method: str, path: str, query: dict[str, str], body: Any) -> bytes:
        try:
            return await self._client.request(method, self._base + path, query=tuple(query.items()), body=body)
        except NotFound as error:
            raise CliError(f"the extender {self.where} does not know it: {error.message.strip()}") from error
        except Forbidden as error:
            raise CliError(
                f"forbidden: {error.message}",
                f"bind the Role joulie-viewer of its namespace to this user, or {_BY_URL}",
            ) from error
        except ServerError as error:
            raise CliError(
                f"the API server cannot reach the extender {self.where}: {error.message.strip()}",
                f"are its pods ready, and does its NetworkPolicy allow the API server? Otherwise {_BY_URL}",
            ) from error
        except ApiError as error:
            raise CliError(f"the extender {self.where} answered {error.status}: {error.message.strip()}") from error

    async def _direct(self, method: str, path: str, query: dict[str, str], body: Any) -> bytes:
        # Slow to import, and not needed for completion.
        import aiohttp  # noqa: PLC0415

        data = None if body is None else msgspec.json.encode(body)
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.request(method, self._base + path, params=query, data=data) as answer,
            ):
                content = await answer.read()
        except (aiohttp.ClientError, OSError, ValueError) as error:
            problem = str(error) or type(error).__name__
            raise CliError(f"--extender-url {self._base}: cannot reach it: {problem}") from error
        if answer.status == _OK:
            return content
        text = content[:200].decode(errors="replace").strip()
        what = "does not know it" if answer.status == _NOT_FOUND else f"answered {answer.status}"
        raise CliError(f"--extender-url {self._base}: it {what}: {text}")


async def find_extender(cluster: ClusterReader, url: str | None) -> ExtenderQuery:
    """Return the extender at a URL, else the one whose Service the cluster has.

    Raises:
        CliError: there is no such Service.
    """
    if url:
        return ExtenderQuery(cluster.client, url.rstrip("/"), url=True)
    found = await cluster.read(SERVICES, decode_namespaced_name, label_selector=EXTENDER_SELECTOR)
    if not found:
        raise CliError(f"no Service is labelled {EXTENDER_SELECTOR}: the extender is not installed", _BY_URL)
    namespace, name = found[0]
    path = f"{SERVICES.collection_path(namespace)}/http:{name}:{_PORT}/proxy"
    return ExtenderQuery(cluster.client, path, url=False)
