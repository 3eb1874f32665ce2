"""Reads of the cluster: paged lists, of which only what is shown is decoded.

Requests raise `joulie_api.errors.KubeError`; `__main__` turns those into a sentence and an exit code. Lists are decoded
page by page, so that thousands of nodes need the memory of one page and of what is shown.
"""

import asyncio
import os
import time
from argparse import Namespace
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, TypeVar

from joulie_api.client import KubeClient
from joulie_api.errors import ConfigError, Forbidden, KubeError
from joulie_api.resources import NODE_POWER_PROFILES, NODE_TWINS, NODES, TELEMETRY_PROFILES, Resource
from joulie_api.wire import decode_page
from joulie_cli import VERSION
from joulie_cli.failures import describe_failure, is_missing_kind, missing_kind
from joulie_cli.node_rows import NodeRow, join
from joulie_cli.views import NodeMarks, Raw, ReportView, decode_marks, decode_report, decode_target, decode_twin

T = TypeVar("T")

_DEFAULT_KUBECONFIG: Final = "~/.kube/config"


class ClusterReader:
    """One API server, read as the user of the kubeconfig."""

    def __init__(self, client: KubeClient) -> None:
        self.client = client

    async def read(
        self,
        resource: Resource,
        decode: Callable[[Raw], T],
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
    ) -> list[T]:
        """Return all objects, decoded; without `namespace`, of all namespaces.

        Raises:
            CliError: the API server does not have the kind.
            KubeError: any other failure.
        """
        found: list[T] = []
        pages = self.client.list_pages(
            resource,
            namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            metadata_only=metadata_only,
        )
        try:
            async for page in pages:
                found += map(decode, decode_page(page).items or ())
        except KubeError as error:
            if is_missing_kind(error, resource):
                raise missing_kind(resource, self.client.server) from error
            raise
        return found

    async def probe(self, resource: Resource) -> None:
        """Read one object of a kind.

        Raises:
            CliError: the API server does not have the kind.
            KubeError: any other failure.
        """
        try:
            await self.client.list_page(resource, limit=1)
        except KubeError as error:
            if is_missing_kind(error, resource):
                raise missing_kind(resource, self.client.server) from error
            raise

    async def read_permitted(
        self, resource: Resource, decode: Callable[[Raw], T], namespace: str | None = None, *, label_selector: str = ""
    ) -> list[T] | None:
        """Return all objects; None where this user may not list them."""
        try:
            return await self.read(resource, decode, namespace, label_selector=label_selector)
        except Forbidden:
            return None

    async def marks(self, selector: str) -> list[NodeMarks]:
        """Return the labels of the nodes that a label selector matches, without reading the rest of them."""
        return await self.read(NODES, decode_marks, label_selector=selector, metadata_only=True)

    async def reports(self) -> list[ReportView]:
        """Return the agents' reports."""
        return await self.read(TELEMETRY_PROFILES, decode_report)

    async def rows(self, selector: str) -> list[NodeRow]:
        """Return one row for each managed node."""
        marks, targets, twins, reports = await asyncio.gather(
            self.marks(selector),
            self.read(NODE_POWER_PROFILES, decode_target),
            self.read(NODE_TWINS, decode_twin),
            self.reports(),
        )
        return join(marks, targets, twins, reports, now_s=time.time())


@asynccontextmanager
async def connect(options: Namespace) -> AsyncIterator[ClusterReader]:
    """Open the API server of the options; failures of its requests end the command with a sentence.

    Raises:
        CliError: a request failed.
    """
    server = ""
    try:
        kubeconfig = kubeconfig_path(options.kubeconfig)
        client = await KubeClient.connect(
            kubeconfig=kubeconfig, context=options.context, user_agent=f"kubectl-joulie/{VERSION}"
        )
        async with client:
            server = client.server
            yield ClusterReader(client)
    except KubeError as error:
        raise describe_failure(error, server) from error


def kubeconfig_path(chosen: str | None) -> str | None:
    """Return the kubeconfig that kubectl would use; None inside a pod without one.

    Raises:
        ConfigError: there is none.
    """
    named = chosen or os.environ.get("KUBECONFIG")
    if named:
        missing = [path for path in named.split(os.pathsep) if path and not Path(path).expanduser().exists()]
        if missing and (chosen or len(missing) == len(named.split(os.pathsep))):
            raise ConfigError(f"kubeconfig {missing[0]} does not exist")
        return named
    default = Path(_DEFAULT_KUBECONFIG).expanduser()
    if default.exists():
        return str(default)
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return None
    raise ConfigError(f"there is no kubeconfig: {default} does not exist")
