"""Instant queries to the Prometheus that a user names, at a URL or behind a Service of the cluster.

Source: Prometheus HTTP API, `/api/v1/query`; Kubernetes, "Object Names and IDs" (RFC 1123 and 1035 labels).
"""

import argparse
import re
from typing import TYPE_CHECKING, Final

from joulie_api.checked_texts import check_http_url
from joulie_api.prometheus import QUERY_PATH, PrometheusSample, QueryError, decode_samples, error_text
from joulie_cli.output import CliError
from joulie_cli.service_query import ProxiedService, ServiceQuery, ServiceWording

if TYPE_CHECKING:
    from joulie_api.client import KubeClient

#: Prometheus itself ends a query after two minutes by default, and says so.
_TIMEOUT_S: Final = 130.0
#: 140,000 series of 240 bytes.
MAX_ANSWER_BYTES: Final = 32 * 1024 * 1024
_LABEL: Final = "[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_SERVICE: Final = re.compile(
    f"(?P<namespace>{_LABEL})/(?P<name>{_LABEL})(?::(?P<port>[a-z0-9](?:[-a-z0-9]{{0,13}}[a-z0-9])?))?"
)
#: Of Prometheus itself. A Service has to be asked for a port: one without a name would be meant otherwise.
_PORT: Final = "9090"
FORMS: Final = "a URL or NAMESPACE/SERVICE[:PORT]"
_WORDING: Final = ServiceWording(
    name="Prometheus",
    option="--prometheus",
    directly="--prometheus http://HOST:9090 asks it directly, for example through kubectl port-forward",
    permission="grant this user get on services/proxy in its namespace",
    not_found="is not there",
    not_found_way_out=f"--prometheus takes {FORMS}; kubectl get services -A has namespaces, names and ports",
    too_large_way_out="ask for less: --by namespace, one namespace with -n, or a shorter --since",
    own_error=error_text,
)


def prometheus_address(text: str) -> ProxiedService | str:
    """Return the Service or the URL that an option names.

    Raises:
        argparse.ArgumentTypeError: it is neither.
    """
    match = _SERVICE.fullmatch(text)
    if match is not None:
        return ProxiedService(match["namespace"], match["name"], match["port"] or _PORT)
    try:
        url = check_http_url(text)
    except ValueError:
        url = ""
    if not url or "?" in url or "#" in url:
        raise argparse.ArgumentTypeError(
            f"it is neither http://HOST:PORT, with or without a path, nor NAMESPACE/SERVICE[:PORT]: {text!r}"
        )
    return url


class NamedPrometheus:
    """One Prometheus; `where` names it for people."""

    def __init__(self, client: "KubeClient", address: ProxiedService | str) -> None:
        if isinstance(address, str):
            self._service = ServiceQuery.at_url(client, _WORDING, address)
        else:
            self._service = ServiceQuery.behind_proxy(client, _WORDING, address)
        self.where = self._service.where

    async def query(self, expression: str) -> list[PrometheusSample]:
        """Return the series of an expression now, those without a finite number included.

        Raises:
            CliError: Prometheus cannot be reached, refuses the query, or answers something else.
        """
        answer = await self._service.send(
            "GET", QUERY_PATH, {"query": expression}, timeout_s=_TIMEOUT_S, max_bytes=MAX_ANSWER_BYTES
        )
        try:
            return decode_samples(answer)
        except QueryError as error:
            raise CliError(
                f"Prometheus {self.where} has no usable answer: {error}",
                f"is it a Prometheus? --prometheus takes {FORMS}",
            ) from error
