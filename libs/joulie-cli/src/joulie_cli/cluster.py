"""Reads of the cluster: paged lists, of which only what is shown is decoded, and sentences for what fails.

Requests raise `joulie_api.errors.KubeError`; `connect` makes of those a sentence and an exit code. Lists are decoded
page by page, so that thousands of nodes need the memory of one page and of what is shown. The client is imported where
it is needed: completion imports this module at every key.
"""

import asyncio
import os
import time
from argparse import Namespace
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from joulie_api.errors import (
    ApiError,
    ConfigError,
    Forbidden,
    KubeError,
    NotFound,
    TransportError,
    Unauthorized,
)
from joulie_api.resources import NODE_POWER_PROFILES, NODE_TWINS, NODES, PODS, TELEMETRY_PROFILES, Resource
from joulie_api.wire import decode_page
from joulie_cli import VERSION
from joulie_cli.output import CliError
from joulie_cli.views import Raw, make_decoder
from joulie_cli.views.nodes import NodeMarks, decode_marks, decode_report, decode_target, decode_twin
from joulie_cli.views.rows import NodeRow, join

if TYPE_CHECKING:
    from joulie_api.client import KubeClient
    from joulie_api.reflector import Reflector

T = TypeVar("T")

#: Writes of this program, in the Nodes' managed fields.
FIELD_MANAGER: Final = "kubectl-joulie"
NO_CRDS_WAY_OUT: Final = "install Joulie with its CRDs: helm install joulie helm/joulie (docs/install.md)"
_VIEWER_WAY_OUT: Final = "bind the ClusterRole joulie-viewer to this user (docs/kubectl-joulie.md, Permissions)"
_DEFAULT_KUBECONFIG: Final = "~/.kube/config"
_GROUP: Final = "joulie.io"


class _Version(msgspec.Struct, rename="camel"):
    git_version: str = "unknown version"


_decode_version: Final = make_decoder(_Version, "version", lambda wire: wire.git_version)


class ClusterReader:
    """One API server, read as the user of the kubeconfig."""

    def __init__(self, client: "KubeClient") -> None:
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
        with self._installed(resource):
            async for page in pages:
                found += map(decode, decode_page(page).items or ())
        return found

    async def probe(self, resource: Resource) -> None:
        """Read one object of a kind.

        Raises:
            CliError: the API server does not have the kind.
            KubeError: any other failure.
        """
        with self._installed(resource):
            await self.client.list_page(resource, limit=1)

    @contextmanager
    def _installed(self, resource: Resource) -> Iterator[None]:
        """Say so where a list fails since the API server does not have the kind."""
        try:
            yield
        except NotFound as error:
            if resource.group != _GROUP:
                raise
            problem = f"the API server {self.client.server} has no {resource.full_name}"
            raise CliError(f"{problem}: Joulie's CRDs are not installed", NO_CRDS_WAY_OUT) from error

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

    async def rows(self, selector: str) -> list[NodeRow]:
        """Return one row for each managed node."""
        marks, targets, twins, reports = await asyncio.gather(
            self.marks(selector),
            self.read(NODE_POWER_PROFILES, decode_target),
            self.read(NODE_TWINS, decode_twin),
            self.read(TELEMETRY_PROFILES, decode_report),
        )
        return join(marks, targets, twins, reports, now_s=time.time())

    async def pod(self, name: str, namespace: str) -> bytes:
        """Return a pod, raw.

        Raises:
            CliError: it does not exist.
            KubeError: any other failure.
        """
        try:
            return await self.client.get(PODS, name, namespace)
        except NotFound as error:
            raise CliError(
                f"namespace {namespace!r} has no pod {name!r}",
                "-n NAMESPACE names another; kubectl get pods -A lists all",
            ) from error

    async def version(self) -> str:
        """Return the version of the API server, as `v1.34.4`."""
        return _decode_version(await self.client.request("GET", "/version"))

    def watch(
        self, resource: Resource, decode: Callable[[Raw], T], namespace: str | None = None, *, field_selector: str = ""
    ) -> "Reflector[T]":
        """Return what keeps objects up to date once it runs; without `namespace`, those of all namespaces."""
        from joulie_api.reflector import Reflector  # noqa: PLC0415

        return Reflector(self.client, resource, decode, namespace=namespace, field_selector=field_selector)


@asynccontextmanager
async def connect(options: Namespace) -> AsyncIterator[ClusterReader]:
    """Open the API server of the options; failures of its requests end the command with a sentence.

    Raises:
        CliError: a request failed.
    """
    from joulie_api.client import KubeClient  # noqa: PLC0415

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
        raise _described(error, server) from error


@contextmanager
def permitted(needs: str) -> Iterator[None]:
    """Say what a verb that writes needs, such as `wake needs patch on nodes`, where this user may not do that."""
    try:
        yield
    except Forbidden as error:
        raise CliError(
            f"forbidden: {error.message}",
            f"{needs}; the ClusterRole joulie-viewer only reads.\n"
            "  docs/kubectl-joulie.md, Permissions, has the rule for an administrator to grant",
        ) from error


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


def _described(error: KubeError, server: str) -> CliError:
    """Return the sentence for what a request to the API server, a URL, has raised."""
    if isinstance(error, ConfigError):
        return CliError(error.message, "choose a file with --kubeconfig or KUBECONFIG, and a context with --context")
    if isinstance(error, Forbidden):
        return CliError(f"forbidden: {error.message}", _VIEWER_WAY_OUT)
    if isinstance(error, Unauthorized):
        return CliError(
            f"the API server {server} does not accept the credentials: {error.message}",
            "renew them, or choose another user with --context",
        )
    if isinstance(error, TransportError):
        return CliError(
            f"cannot reach the API server {server}: {error.message}",
            "check the address in the kubeconfig, the network and any VPN; --context chooses another cluster",
        )
    if isinstance(error, ApiError):
        return CliError(f"the API server {server} answered {error.status}: {error.message}", "try again later")
    return CliError(error.message, "an object is not as this version expects it: update kubectl-joulie")
