"""Headers for an HTTP backend, from a Secret that the agent reads with its role."""

import base64
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.e2e.view import ClusterView
from tests.e2e.waiting import eventually

from joulie_api.resources import NODES, SECRETS, TELEMETRY_PROFILES
from joulie_core.labels import MANAGED
from joulie_devcluster.control_plane.cluster import DevCluster
from joulie_sim.stack.service import Service
from joulie_sim.stack.stack import NAMESPACE, JoulieStack

pytestmark = pytest.mark.e2e

_NODE = "behind-http"


class Backend:
    """An HTTP backend that knows no node and notes what it was sent."""

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.server = TestServer(web.Application(), host="127.0.0.1")
        self.server.app.router.add_route("*", "/{path:.*}", self._answer)

    async def _answer(self, request: web.Request) -> web.Response:
        self.tokens.append(request.headers.get("X-Auth-Token", ""))
        return web.Response(status=404)


@pytest_asyncio.fixture
async def backend() -> AsyncIterator[Backend]:
    backend = Backend()
    async with backend.server:
        yield backend


async def test_an_agent_sends_the_entries_of_the_secret_that_a_profile_names(
    devcluster: DevCluster, bare: ClusterView, backend: Backend
) -> None:
    stack = JoulieStack(devcluster)
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "bmc"},
        "data": {"X-Auth-Token": base64.b64encode(b"opaque").decode()},
    }
    http = {"endpoint": str(backend.server.make_url("/{node}")), "headersSecretRef": {"name": "bmc"}}
    profile = {
        "apiVersion": TELEMETRY_PROFILES.api_version,
        "kind": TELEMETRY_PROFILES.kind,
        "metadata": {"name": "by-user"},
        "spec": {"target": {"scope": "node", "nodeName": _NODE}, "sources": {"cpu": {"type": "http", "http": http}}},
    }
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": _NODE, "labels": {MANAGED: "true"}}}
    await bare.client.create(SECRETS, secret, NAMESPACE)
    await bare.client.create(TELEMETRY_PROFILES, profile)
    await bare.client.create(NODES, node)

    async def sent() -> None:
        assert "opaque" in backend.tokens, backend.tokens

    try:
        await stack.start(Service.AGENT, env={"POOL_SHARDS": "1", "POOL_SHARD_ID": "0", "RECONCILE_INTERVAL": "1s"})
        await eventually(sent, within_s=30)
    finally:
        await stack.down()
        await bare.client.delete(NODES, _NODE)
        await bare.client.delete(TELEMETRY_PROFILES, "by-user")
        await bare.client.delete(SECRETS, "bmc", NAMESPACE)
