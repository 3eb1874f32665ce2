"""Queries to the extender's endpoints for people, through the API server's proxy of its Service or at a URL."""

from typing import Any, Final

import msgspec

from joulie_api.decoding import decode
from joulie_api.errors import DecodeError
from joulie_api.resources import SERVICES
from joulie_cli.cluster import ClusterReader
from joulie_cli.output import CliError
from joulie_cli.service_query import ProxiedService, ServiceQuery, ServiceWording
from joulie_cli.views import decode_namespaced_name
from joulie_cli.views.pods import EXTENDER_SELECTOR

#: The name of the port in the chart's Service.
_PORT: Final = "http"
_TIMEOUT_S: Final = 20.0
#: 5,000 nodes with all terms of their scores, of 1 KB each, and as much again.
_MAX_BYTES: Final = 16 * 1024 * 1024
_BY_URL: Final = "--extender-url http://HOST:9876 asks it directly, for example through kubectl port-forward"
_WORDING: Final = ServiceWording(
    name="the extender",
    option="--extender-url",
    directly=_BY_URL,
    permission="bind the Role joulie-viewer of its namespace to this user",
    not_found="does not know it",
)


class ExtenderQuery:
    """The extender of one cluster; `where` names it for people."""

    def __init__(self, service: ServiceQuery, where: str) -> None:
        self._service = service
        self.where = where

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
        answer = await self._service.send(method, path, query, body, timeout_s=_TIMEOUT_S, max_bytes=_MAX_BYTES)
        try:
            found: dict[str, Any] = decode(msgspec.json.decode, answer, "JSON")
        except DecodeError as error:
            raise CliError(f"{self.where} is not Joulie's extender: {path} is not JSON", _BY_URL) from error
        return found


async def find_extender(cluster: ClusterReader, url: str | None) -> ExtenderQuery:
    """Return the extender at a URL, else the one whose Service the cluster has.

    Raises:
        CliError: there is no such Service.
    """
    if url:
        service = ServiceQuery.at_url(cluster.client, _WORDING, url)
        return ExtenderQuery(service, service.where)
    found = await cluster.read(SERVICES, decode_namespaced_name, label_selector=EXTENDER_SELECTOR)
    if not found:
        raise CliError(f"no Service is labelled {EXTENDER_SELECTOR}: the extender is not installed", _BY_URL)
    namespace, name = found[0]
    service = ServiceQuery.behind_proxy(cluster.client, _WORDING, ProxiedService(namespace, name, _PORT))
    return ExtenderQuery(service, name)
