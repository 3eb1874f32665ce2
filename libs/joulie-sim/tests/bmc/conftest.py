"""A simulated BMC over TLS, and plain requests to it."""

import asyncio
import ssl

import aiohttp
import pytest

from joulie_sim.bmc.machine import SimulatedServer
from joulie_sim.bmc.profiles import PROFILES
from joulie_sim.bmc.service import SimulatedBmc
from joulie_sim.bmc.serving import serve_bmc

USER, PASSWORD = "root", "calvin"


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
async def serve(clock, tmp_path):
    """Serve a BMC of a profile by name, or of one's own."""
    stack = []

    async def start(profile, **server):
        profile = PROFILES[profile] if isinstance(profile, str) else profile
        bmc = SimulatedBmc(profile, SimulatedServer(profile, clock=clock, **server), user=USER, password=PASSWORD)
        context = serve_bmc(bmc, tmp_path)
        served = await context.__aenter__()
        stack.append(context)
        return served

    yield start
    for context in reversed(stack):
        await context.__aexit__(None, None, None)


class Requests:
    """Requests with Basic authentication."""

    def __init__(self, session, served):
        self._session = session
        self._address = served.address
        self._tls = ssl.create_default_context(cafile=str(served.ca))

    async def __call__(self, method, path, body=None, **headers):
        sent = {key.replace("_", "-"): value for key, value in headers.items()}
        if not {"Authorization", "X-Auth-Token"} & sent.keys():
            sent["Authorization"] = aiohttp.encode_basic_auth(USER, PASSWORD)
        async with self._session.request(
            method, f"{self._address}{path}", json=body, headers=sent, ssl=self._tls
        ) as response:
            text = await response.text()
            return response.status, response.headers, (await response.json() if text else {})


@pytest.fixture
async def requests_to():
    async with aiohttp.ClientSession() as session:
        yield lambda served: Requests(session, served)
    await asyncio.sleep(0)
