"""`joulie-containers manager`: the process of the resource manager."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Final, NoReturn

import structlog

from joulie_actuator.client import ActuatorClient
from joulie_actuator.hardware.sysfs import SysfsTree
from joulie_api import entry
from joulie_api.app import App, freeze_heap
from joulie_containers.nri.connection import PLUGIN_SOCKET
from joulie_containers.resource_api.cluster import ClusterClient
from joulie_containers.resource_api.config import serve_config
from joulie_containers.resources.debug import PlacementsDebug
from joulie_containers.resources.host_topology import HostReading, read_host_topology
from joulie_containers.resources.manager import ResourceManager
from joulie_containers.resources.settings import CoreLimitMode, ResourcesSettings
from joulie_containers.resources.sole import sole_user

SERVICE: Final = "joulie-resources"
COMMAND: Final = "joulie-containers manager"
SUMMARY: Final = (
    "Places the containers of this node on CPUs and memory nodes, as an NRI plugin of containerd or CRI-O. Takes its "
    "configuration from a file, which is watched, or from the node agent."
)
VERSION: Final = version("joulie-containers")
#: How often the host is checked for CPUs and memory that were added, removed or taken offline.
_TOPOLOGY_INTERVAL_S: Final = 5.0
_HOTPLUG_FILES: Final = ("sys/devices/system/cpu/online", "sys/devices/system/node/has_memory")

_log = structlog.get_logger()


def main(arguments: Sequence[str], env: Mapping[str, str] | None = None) -> NoReturn:
    """Run until SIGTERM or SIGINT, and exit."""
    entry.main(COMMAND, ResourcesSettings, run, version=VERSION, summary=SUMMARY, argv=arguments, env=env, flags=True)


async def run(
    settings: ResourcesSettings, *, on_start: Callable[[App, ResourceManager], None] = lambda _app, _manager: None
) -> None:
    """Run the resource manager until it is terminated; `on_start` gets it once it listens.

    Raises:
        NotAloneError: another process has the state directory or the runtime's socket.
    """
    host_root = Path(settings.host_root)
    seen = await asyncio.to_thread(_hotplug_state, host_root)
    reading = await asyncio.to_thread(_read_host, host_root)
    _log.info(
        "host read",
        cpus=str(reading.topology.online),
        nodes=len(reading.topology.nodes),
        assumptions=reading.assumptions,
    )
    async with AsyncExitStack() as stack:
        started_by_runtime = PLUGIN_SOCKET in os.environ
        stack.enter_context(
            sole_user(Path(settings.state_dir), None if started_by_runtime else Path(settings.nri_socket))
        )
        actuator = await stack.enter_async_context(_actuator(settings.actuator_socket))
        # A client of its own, so that no limit waits to be lifted behind a request for CPU classes.
        sets_limits = settings.class_limits is CoreLimitMode.ENFORCE
        core_actuator = await stack.enter_async_context(_actuator(settings.actuator_socket if sets_limits else ""))
        recorder = await stack.enter_async_context(_cluster(settings.node_agent_socket))
        app = App(settings, service=SERVICE, version=VERSION)
        manager = ResourceManager(
            settings,
            reading.topology,
            app.registry,
            actuator=actuator,
            recorder=recorder,
            core_actuator=core_actuator,
        )
        app.add_routes(PlacementsDebug(manager).routes())
        await manager.start()
        await stack.enter_async_context(app)
        if settings.api_socket:
            api = serve_config(Path(settings.api_socket), manager, gid=settings.api_socket_gid)
            await stack.enter_async_context(api)
        _spawn(app, manager, settings, seen)
        freeze_heap()
        on_start(app, manager)
        await app.wait()
        manager.reports.close()


def _spawn(app: App, manager: ResourceManager, settings: ResourcesSettings, seen: Sequence[str]) -> None:
    app.health.add_ready("runtime", manager.not_registered)
    app.health.add_ready("configuration", lambda: manager.configuration.problem)
    app.health.add_live("handlers", manager.hung)
    app.spawn("runtime connection", _connect(app, manager))
    app.spawn("updates", manager.updater.run())
    app.spawn("CPU classes", manager.classes.run())
    app.spawn("interrupts", manager.interrupts.run())
    limits = manager.core_limits if manager.core_enforcement is None else manager.core_enforcement
    app.spawn("core limits", limits.run())
    if manager.files is not None:
        app.spawn("resources files", manager.files.run())
    app.spawn("topology", _follow_topology(manager, Path(settings.host_root), seen))
    if settings.config_file:
        app.spawn("configuration", manager.configuration.watch(settings.config_poll_interval))
    if settings.node_agent_socket:
        app.spawn("events", manager.reports.run())
    if settings.usage_interval:
        app.spawn("usage", manager.poll_usage())


async def _connect(app: App, manager: ResourceManager) -> None:
    """Stay connected; a runtime that has started this process and closes the connection wants it to end."""
    await manager.connection.run()
    app.stop()
    await asyncio.Event().wait()


async def _follow_topology(manager: ResourceManager, host_root: Path, seen: Sequence[str]) -> None:
    """Apply the configuration again when CPUs or memory were added, removed or taken offline."""
    while True:
        await asyncio.sleep(_TOPOLOGY_INTERVAL_S)
        state = await asyncio.to_thread(_hotplug_state, host_root)
        if state != seen:
            reading = await asyncio.to_thread(_read_host, host_root)
            _log.info("hardware changed", cpus=str(reading.topology.online), assumptions=reading.assumptions)
            await manager.use_topology(reading.topology)
            seen = state


def _read_host(host_root: Path) -> HostReading:
    return read_host_topology(SysfsTree(host_root / "sys"), SysfsTree(host_root / "proc"))


def _hotplug_state(host_root: Path) -> Sequence[str]:
    """Return what changes with CPUs and memory; reading all of the topology takes thousands of files."""
    states = []
    for name in _HOTPLUG_FILES:
        try:
            states.append((host_root / name).read_text(encoding="ascii"))
        except OSError as error:
            states.append(str(error))
    return states


@asynccontextmanager
async def _actuator(socket: str) -> AsyncIterator[ActuatorClient | None]:
    if not socket:
        yield None
        return
    client = ActuatorClient(socket)
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def _cluster(socket: str) -> AsyncIterator[ClusterClient | None]:
    if not socket:
        yield None
        return
    client = ClusterClient(Path(socket))
    try:
        yield client
    finally:
        await client.close()
