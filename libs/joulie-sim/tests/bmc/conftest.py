"""A simulated BMC over TLS, and plain requests to it."""

import asyncio
import json
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

    async def patch(self, path, body, proceed, **headers):
        """Begin a PATCH, whose body is sent once the event is set; return the task of its status."""
        begun = asyncio.Event()

        async def text():
            begun.set()
            await proceed.wait()
            yield json.dumps(body).encode()

        sent = {key.replace("_", "-"): value for key, value in headers.items()}
        sent |= {"Authorization": aiohttp.encode_basic_auth(USER, PASSWORD), "Content-Type": "application/json"}
        url = f"{self._address}{path}"

        async def status():
            # The body follows the service's answer "100 Continue".
            async with self._session.patch(url, data=text(), headers=sent, ssl=self._tls, expect100=True) as response:
                return response.status

        answer = asyncio.create_task(status())
        await begun.wait()
        return answer


@pytest.fixture
async def requests_to():
    async with aiohttp.ClientSession() as session:
        yield lambda served: Requests(session, served)
    await asyncio.sleep(0)
