"""The reference runtime: containerd's and CRI-O's side of the Node Resource Interface, without containers.

`binaries/nri_runtime/main.go` lists the commands and their fields.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final

from joulie_devcluster.errors import DevClusterError
from joulie_devcluster.host import die_with_parent

_LINE_BYTES: Final = 64 << 20


class NriRuntimeError(DevClusterError):
    """The reference runtime could not carry out a command, or has ended."""


class ReferenceNriRuntime:
    """A running reference runtime."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        #: Unsolicited updates of the plugin, as objects with `updates` and `failed`, up to the last command.
        self.events: list[dict[str, Any]] = []

    async def command(self, op: str, *, timeout_s: float = 30.0, **fields: Any) -> dict[str, Any]:
        """Carry out a command; return its result.

        Raises:
            NriRuntimeError: the runtime or the plugin refused it, or the runtime has ended.
            TimeoutError: there is no result in time; the runtime cannot be used any more.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        async with asyncio.timeout(timeout_s):
            self._process.stdin.write(json.dumps({"op": op, **fields}).encode() + b"\n")
            await self._process.stdin.drain()
            while True:
                line = await self._process.stdout.readline()
                if not line:
                    raise NriRuntimeError(f"the reference runtime ended with status {await self._process.wait()}")
                result: dict[str, Any] = json.loads(line)
                if "event" not in result:
                    break
                self.events.append(result)
        if error := result.get("error"):
            raise NriRuntimeError(error)
        return result

    async def containers(self) -> dict[str, Any]:
        """Return the containers as they are now, by id."""
        return {each["id"]: each for each in (await self.command("containers")).get("containers", ())}


@contextlib.asynccontextmanager
async def reference_nri_runtime(
    binary: Path,
    log: Path,
    *,
    socket: Path | None = None,
    plugins: Path | None = None,
    plugin_config: Path | None = None,
    request_timeout_s: float = 2.0,
    registration_timeout_s: float = 5.0,
) -> AsyncIterator[ReferenceNriRuntime]:
    """Run the reference runtime.

    Args:
        binary: one of `Binary.NRI_RUNTIME_*`.
        log: file for its log.
        socket: where plugins connect.
        plugins: directory of plugins that it starts.
        plugin_config: directory of their configuration.
        request_timeout_s: how long it waits for a plugin.
        registration_timeout_s: how long it waits for one that it has started to register.
    """
    with log.open("ab") as stderr:
        process = await asyncio.create_subprocess_exec(
            *die_with_parent.wrap(
                [
                    str(binary),
                    *_paths(socket, plugins, plugin_config),
                    f"-request-timeout={round(request_timeout_s * 1000)}ms",
                    f"-registration-timeout={round(registration_timeout_s * 1000)}ms",
                ]
            ),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            limit=_LINE_BYTES,
        )
    try:
        yield ReferenceNriRuntime(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.communicate()


def _paths(socket: Path | None, plugins: Path | None, plugin_config: Path | None) -> Sequence[str]:
    paths = {"socket": socket, "plugins": plugins, "plugin-config": plugin_config}
    return [f"-{name}={path}" for name, path in paths.items() if path is not None]
