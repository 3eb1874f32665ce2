"""Simulated BMCs over TLS, and the service in the test's process on the in-process API server."""

import asyncio
import ssl
from base64 import b64encode
from contextlib import AsyncExitStack
from uuid import uuid4

import aiohttp
import pytest

from joulie_api.answers import session_options
from joulie_api.app import App
from joulie_api.settings import read_settings
from joulie_outofband.app import run
from joulie_outofband.redfish.bmc import RedfishBmc
from joulie_outofband.redfish.connection import BmcAccess, RedfishConnection
from joulie_outofband.settings import OutOfBandSettings
from joulie_sim.bmc.machine import SimulatedServer
from joulie_sim.bmc.profiles import PROFILES
from joulie_sim.bmc.service import SimulatedBmc
from joulie_sim.bmc.serving import serve_bmc
from joulie_sim.stack.permissions import denied
from joulie_testing.api import make_node_bmc

USER, PASSWORD = "root", "calvin"
NAMESPACE = "joulie-system"
FAST = {
    "METRICS_ADDR": "127.0.0.1:0",
    "BMC_POLL_INTERVAL": "50ms",
    "BMC_TRANSITION_INTERVAL": "50ms",
    "BMC_REQUEST_TIMEOUT": "5s",
    "BMC_CREDENTIALS_RETRY": "1h",
    "GRACEFUL_OFF_TIMEOUT": "200ms",
    "POWER_REPEAT_INTERVAL": "200ms",
    "STATUS_HEARTBEAT": "1m",
    # Renewed often, so that tests see who leads; a slow machine keeps it.
    "LEASE_DURATION": "12s",
    "LEASE_RENEW_DEADLINE": "10s",
    "LEASE_RETRY_PERIOD": "100ms",
    "POD_NAMESPACE": NAMESPACE,
}


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    """The clock of the simulated servers."""
    return Clock()


@pytest.fixture
async def serve(clock, tmp_path):
    """Serve a BMC of a profile, by its name or of one's own; keyword arguments are the server's."""
    async with AsyncExitStack() as stack:

        async def start(profile="plain", **server):
            profile = PROFILES[profile] if isinstance(profile, str) else profile
            bmc = SimulatedBmc(profile, SimulatedServer(profile, clock=clock, **server), user=USER, password=PASSWORD)
            return await stack.enter_async_context(serve_bmc(bmc, tmp_path / f"bmc-{uuid4()}"))

        yield start


@pytest.fixture
async def connect():
    """Connect to a served BMC."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), **session_options()) as session:

        def start(served, *, password=PASSWORD, timeout_s=10.0, ca=None, server_name=None):
            access = BmcAccess(USER, password, ssl.create_default_context(cafile=str(ca or served.ca)), server_name)
            return RedfishConnection(session, served.address, access, request_timeout_s=timeout_s)

        yield start


@pytest.fixture
def open_bmc(connect):
    """Return the BMC behind a connection."""
    return lambda served, system=None, **how: RedfishBmc(connect(served, **how), system=system)


def secret(name, **entries):
    """Return a Secret; the underscore in a key stands for a dot."""
    data = {key.replace("_", "."): b64encode(value.encode()).decode() for key, value in entries.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE}, "data": data}


class Cluster:
    """What tests read from the API server and put there."""

    def __init__(self, api, env):
        self.api = api
        self._env = env
        self._replicas = []

    def start(self, **env):
        """Start one more replica; keyword arguments are settings."""
        settings = read_settings(OutOfBandSettings, self._env | env)
        app = App(settings, service="joulie-outofband")
        self._replicas.append((app, asyncio.create_task(run(settings, app), name="outofband")))
        return app

    async def stop(self):
        """End the replicas in good order."""
        for app, task in self._replicas:
            app.stop()
            await task
        self._replicas.clear()

    async def kill(self):
        """Break the replicas off in the middle of whatever they do."""
        for _, task in self._replicas:
            task.cancel()
            await asyncio.wait({task})
            assert task.cancelled() or task.exception() is not None
        self._replicas.clear()

    def put_bmc(self, served, name="n1", **spec):
        """Put a NodeBMC with its Secrets."""
        self.put_credentials(served, name)
        required = {
            "nodeName": name,
            "protocol": "redfish",
            "address": served.address,
            "credentialsSecretRef": {"name": f"{name}-bmc"},
        }
        bmc = {"apiVersion": "joulie.io/v1alpha1", "kind": "NodeBMC", "metadata": {"name": name}}
        self.api.put({**bmc, "spec": required | spec})

    def put_ipmi(self, simulated, name="n1", **spec):
        """Put a NodeBMC of an IPMI BMC with its Secret."""
        self.api.put(secret(f"{name}-bmc", username=USER, password=PASSWORD, addresses=simulated.address))
        reached = {"protocol": "ipmi", "address": simulated.address, "credentialsSecretRef": {"name": f"{name}-bmc"}}
        self.api.put(make_node_bmc(name, spec=reached | spec))

    def put_credentials(self, served, name="n1", **entries):
        """Put the Secret of a BMC, which approves its address and has its certificate; None leaves an entry out."""
        every = {"username": USER, "password": PASSWORD, "addresses": served.address, "ca_crt": served.ca.read_text()}
        self.api.put(
            secret(f"{name}-bmc", **{key: text for key, text in (every | entries).items() if text is not None})
        )

    def restart(self, **env):
        """Start a replica after `kill`, whose lease has not ended yet."""
        self.api.remove("Lease", "joulie-outofband", NAMESPACE)
        return self.start(**env)

    def change(self, name="n1", **spec):
        """Change the spec of a NodeBMC; None removes a field."""
        self.api.patch("NodeBMC", name, {"spec": spec})

    def status(self, name="n1"):
        return (self.api.get("NodeBMC", name) or {}).get("status", {})

    def condition(self, kind, name="n1"):
        """Status and reason of a condition, None without it."""
        found = [each for each in self.status(name).get("conditions", ()) if each["type"] == kind]
        return (found[0]["status"], found[0]["reason"]) if found else None

    async def until(self, condition, timeout_s=30):
        try:
            await self.api.wait_for(condition, timeout_s=timeout_s)
        except TimeoutError:
            pytest.fail(f"did not come true: {self.api.objects('NodeBMC')}")


@pytest.fixture
async def cluster(fake_api, tmp_path):
    found = Cluster(fake_api, FAST | {"KUBECONFIG": str(fake_api.kubeconfig(tmp_path))})
    yield found
    await found.kill()
    assert denied("joulie-outofband", fake_api.requests) == []
