"""A NodeBMC and its Secrets for a simulated BMC that a test serves."""

from base64 import b64encode
from typing import Any

from tests.e2e.view import ClusterView

from joulie_api.resources import NODE_BMCS, SECRETS
from joulie_sim.bmc.serving import ServedBmc
from joulie_sim.stack.stack import NAMESPACE

USER, PASSWORD = "root", "calvin"


async def put_bmc(view: ClusterView, served: ServedBmc, node: str, **spec: Any) -> None:
    """Create the NodeBMC of a node; keyword arguments are further fields of its spec."""
    entries = {
        "bmc-17": {"username": USER, "password": PASSWORD},
        "bmc-ca": {"ca.crt": served.ca.read_text()},
    }
    for name, data in entries.items():
        encoded = {key: b64encode(value.encode()).decode() for key, value in data.items()}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": encoded}
        await view.client.create(SECRETS, secret, NAMESPACE)
    reached = {
        "nodeName": node,
        "protocol": "redfish",
        "address": served.address,
        "credentialsSecretRef": {"name": "bmc-17"},
        "caSecretRef": {"name": "bmc-ca"},
    }
    body = {"apiVersion": NODE_BMCS.api_version, "kind": "NodeBMC", "metadata": {"name": node}, "spec": reached | spec}
    await view.client.create(NODE_BMCS, body)
