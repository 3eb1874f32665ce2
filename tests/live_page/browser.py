"""Debian's headless Chromium, driven over its DevTools protocol: one browser, any number of tabs."""

import asyncio
import base64
import shutil
import subprocess
from collections import defaultdict
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import aiohttp

CHROMIUM = shutil.which("chromium")
_FLAGS = ("--headless", "--no-sandbox", "--remote-debugging-port=0", "--no-first-run", "--disable-gpu", "--mute-audio")
_START_S = 60
_REPLY_S = 120


class BrowserError(Exception):
    """The browser refused a command, or a script in the page failed."""


class Tab:
    """One page; `events` has what the browser reported since it was opened, by method."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse):
        self._socket = socket
        self._numbers = count(1)
        self._replies = {}
        self.events = defaultdict(list)

    async def receive(self):
        async for message in self._socket:
            content = message.json()
            if "id" in content:
                self._replies.pop(content["id"]).set_result(content)
            else:
                self.events[content["method"]].append(content["params"])

    async def send(self, method, **params):
        number = next(self._numbers)
        self._replies[number] = reply = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": params})
        content = await asyncio.wait_for(reply, _REPLY_S)
        if "error" in content:
            raise BrowserError(f"{method}: {content['error']['message']}")
        return content["result"]

    async def run(self, script):
        """Return the value of an expression, awaited if it is a promise."""
        done = await self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in done:
            raise BrowserError(done["exceptionDetails"]["exception"].get("description", script))
        return done["result"].get("value")

    async def until(self, condition, timeout_s=30):
        """Wait until an expression is true in the page."""
        async with asyncio.timeout(timeout_s):
            while not await self.run(condition):  # noqa: ASYNC110 - the condition is in the page
                await asyncio.sleep(0.05)

    async def press(self, key, **modifiers):
        text = {"Enter": "\r", " ": " "}.get(key, "")
        code = {"Enter": 13, "Tab": 9, "Escape": 27, " ": 32}.get(key, 0)
        for kind in ("keyDown", "keyUp"):
            typed = text if kind == "keyDown" else ""
            await self.send(
                "Input.dispatchKeyEvent", type=kind, key=key, text=typed, windowsVirtualKeyCode=code, **modifiers
            )

    async def resize(self, width, height, *, scheme="light"):
        await self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )
        await self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    async def screenshot(self):
        """Return what the tab shows, as PNG."""
        return base64.b64decode((await self.send("Page.captureScreenshot", format="png"))["data"])


@asynccontextmanager
async def browser():
    """Start the browser; yields a function that opens a tab at an address."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            CHROMIUM, *_FLAGS, f"--user-data-dir={profile}", "about:blank",
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        receiving = []
        try:
            port = await _port(Path(profile) / "DevToolsActivePort", process)
            async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:

                async def open_tab(url):
                    async with session.put("/json/new?about:blank") as answer:
                        target = await answer.json()
                    socket = await session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0)
                    tab = Tab(socket)
                    receiving.append(asyncio.create_task(tab.receive()))
                    for domain in ("Page", "Runtime", "Log"):
                        await tab.send(f"{domain}.enable")
                    await tab.send("Page.navigate", url=url)
                    return tab

                yield open_tab
        finally:
            for task in receiving:
                task.cancel()
            with suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


async def _port(path, process):
    async with asyncio.timeout(_START_S):
        while not path.exists() or "\n" not in path.read_text():
            if process.returncode is not None:
                raise BrowserError(f"chromium exited with {process.returncode}")
            await asyncio.sleep(0.05)
    return int(path.read_text().split("\n")[0])
