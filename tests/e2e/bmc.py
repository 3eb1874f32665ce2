"""A NodeBMC and its Secret for a BMC that a test serves."""

from base64 import b64encode
from pathlib import Path
from typing import Any, Protocol

from tests.e2e.view import ClusterView

from joulie_api.resources import NODE_BMCS, SECRETS
from joulie_sim.stack.stack import NAMESPACE

USER, PASSWORD = "root", "calvin"


class RedfishServer(Protocol):
    """Where a BMC is, and the file with the certificate that verifies it."""

    @property
    def address(self) -> str:
        """Its URL."""

    @property
    def ca(self) -> Path:
        """The file."""


async def put_bmc(view: ClusterView, served: RedfishServer, node: str, **spec: Any) -> None:
    """Create the NodeBMC of a node with Redfish; keyword arguments are further fields of its spec."""
    reached = {"protocol": "redfish", "address": served.address}
    await _put(view, node, reached, spec, {"ca.crt": served.ca.read_text()})


async def put_ipmi(view: ClusterView, address: str, node: str, **spec: Any) -> None:
    """Create the NodeBMC of a node with IPMI; keyword arguments are further fields of its spec."""
    await _put(view, node, {"protocol": "ipmi", "address": address}, spec, {})


async def _put(
    view: ClusterView, node: str, reached: dict[str, Any], spec: dict[str, Any], entries: dict[str, str]
) -> None:
    name = f"{node}-{reached['protocol']}"
    await _put_secret(view, name, {"username": USER, "password": PASSWORD, "addresses": reached["address"], **entries})
    whole = {"nodeName": node, "credentialsSecretRef": {"name": name}, **reached, **spec}
    body = {"apiVersion": NODE_BMCS.api_version, "kind": "NodeBMC", "metadata": {"name": node}, "spec": whole}
    await view.client.create(NODE_BMCS, body)


async def _put_secret(view: ClusterView, name: str, entries: dict[str, str]) -> None:
    data = {key: b64encode(value.encode()).decode() for key, value in entries.items()}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}
    await view.client.apply(SECRETS, name, body, field_manager="joulie-tests", namespace=NAMESPACE)
