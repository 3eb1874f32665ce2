"""A real node as the machine behind a BMC of another project, whose power starts and kills it."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from joulie_devcluster.host.ports import LOOPBACK
from joulie_devcluster.real_node.node import RealNode

#: Called with the URL and 0 or 1.
_FOLLOW: Final = """
import json, sys, urllib.request
state = {"power_state": "On" if sys.argv[2] == "1" else "Off"}
body = json.dumps(state).encode()
request = urllib.request.Request(sys.argv[1], body, {"Content-Type": "application/json"}, method="PUT")
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
direct.open(request, timeout=30).close()
"""


class PoweredNode:
    """A real node that is on while the power of its BMC is.

    The power is set by `PUT {"power_state": "On"|"Off"}` to `url`. Off is answered when no process of the node is left,
    On at once: the boot goes on.
    """

    def __init__(self, node: RealNode) -> None:
        self.node = node
        self.url = ""
        self._boot: asyncio.Task[None] | None = None

    @property
    def follow(self) -> list[str]:
        """The command that sets the power, to be called with 0 or 1."""
        return [sys.executable, "-I", "-S", "-c", _FOLLOW, self.url]

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """Serve `url` while the context lasts. At its end the node is as it was last requested.

        Raises:
            StartError: the last boot failed.
        """
        application = web.Application()
        application.router.add_put("/", self._put)
        runner = web.AppRunner(application)
        await runner.setup()
        try:
            site = web.TCPSite(runner, LOOPBACK, 0)
            await site.start()
            self.url = f"http://{LOOPBACK}:{runner.addresses[0][1]}/"
            yield
        finally:
            await runner.cleanup()
            await self._booted()

    async def _put(self, request: web.Request) -> web.Response:
        on = (await request.json())["power_state"] == "On"
        await self._booted()
        if on and not self.node.processes:
            self._boot = asyncio.create_task(self.node.power_on())
        elif not on:
            await self.node.power_off()
        return web.Response(status=204)

    async def _booted(self) -> None:
        """Wait for the end of a boot."""
        if self._boot is not None:
            boot, self._boot = self._boot, None
            await boot
