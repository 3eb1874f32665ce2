"""A process: its tasks, its signals, its health and metrics endpoints, and an end in good order.

Promises: a background task that dies ends the process with exit code 1 and one log line that names it; SIGTERM and
SIGINT end it with 0, in the order not ready - tasks cancelled, last started first - servers closed; none of it takes
longer than the shutdown cap, even with a blocked event loop.
Does not restart tasks: the supervisor outside (Kubernetes) restarts the process.

    async def run(settings: AgentSettings) -> None:
        async with App(settings, service="joulie-agent", version=VERSION) as app:
            async with await KubeClient.connect(...) as client:
                app.spawn("watch nodes", reflector.run())
                await app.wait()
"""

import asyncio
import gc
import os
import signal
import threading
from collections.abc import Coroutine, Iterable
from types import TracebackType
from typing import Any, Self

import structlog
from aiohttp import web

from joulie_api.addresses import Address, parse_addr
from joulie_api.entry import BackgroundTaskError, main
from joulie_api.health import Health
from joulie_api.metrics import CONTENT_TYPE, new_registry
from joulie_api.settings import ServiceSettings

__all__ = ["Address", "App", "BackgroundTaskError", "freeze_heap", "main", "parse_addr"]

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
#: Kubernetes kills 30 s after SIGTERM; what is to be given back has to be so before.
SHUTDOWN_CAP_S = 25.0
#: What the tasks get of it before the rest goes on without them.
TASKS_CAP_S = 20.0
_EXIT_FAILURE = 1

_log = structlog.get_logger()


class App:
    """One process's frame, an async context manager.

    Args:
        settings: what the process was told.
        service: its name in logs and metrics, such as `joulie-agent`.
        version: its version, for `joulie_build_info`.
        routes: more to serve beside metrics and health, for a process that has one port for everything.
        shutdown_cap_s: seconds from the first signal to the process's end by force.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        *,
        service: str,
        version: str = "unknown",
        routes: Iterable[web.AbstractRouteDef] = (),
        shutdown_cap_s: float = SHUTDOWN_CAP_S,
    ) -> None:
        self.service = service
        self.health = Health()
        self.registry = new_registry(service, version)
        self.stopping = asyncio.Event()
        """Set once the process is to end."""
        self.metrics_port = 0
        """The bound port of the metrics endpoint."""
        self.tasks_cap_s = min(TASKS_CAP_S, shutdown_cap_s)
        """What the background tasks get of the cap to end in, all together."""
        self._settings = settings
        self._routes = tuple(routes)
        self._cap_s = shutdown_cap_s
        self._group = asyncio.TaskGroup()
        self._tasks: list[asyncio.Task[None]] = []
        self._runners: list[web.AppRunner] = []
        self._watchdog: threading.Timer | None = None

    async def __aenter__(self) -> Self:
        self.health.add_ready("running", lambda: "shutting down" if self.stopping.is_set() else None)
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._on_signal, number)
        await self._group.__aenter__()
        try:
            self.metrics_port = await self.serve("metrics", self._endpoints(), self._settings.metrics_addr)
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._arm()
        self.stopping.set()
        try:
            if error is None:
                await self._end_tasks()
            await self._end_group(kind, error, trace)
        finally:
            await self._release()
        _log.info("stopped")

    async def _end_group(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._group.__aexit__(kind, error, trace)
        except BaseExceptionGroup as errors:
            # A group around the caller's own error and nothing else would only hide it; it goes on as it is.
            if errors.exceptions != (error,):
                raise

    async def _release(self) -> None:
        for runner in reversed(self._runners):
            await runner.cleanup()
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
        if self._watchdog is not None:
            self._watchdog.cancel()

    def spawn(self, name: str, work: Coroutine[Any, Any, Any], *, may_end: bool = False) -> asyncio.Task[None]:
        """Start a background task; its exception ends the process.

        Args:
            name: names the task in logs.
            work: what it does.
            may_end: its orderly end is no fault; otherwise it has to work until the process stops.
        """
        task = self._group.create_task(self._guard(name, work, may_end=may_end), name=name)
        self._tasks.append(task)
        task.add_done_callback(self._tasks.remove)
        # A task cancelled before its first step has never begun its work.
        task.add_done_callback(lambda _: work.close())
        return task

    async def wait(self) -> None:
        """Return when the process is to end and every background task has ended.

        What the tasks use (a client, a lease) is therefore closed by the caller after this returns.
        """
        await self.stopping.wait()
        await self._end_tasks()

    def stop(self) -> None:
        """Ask the process to end, as SIGTERM does."""
        self._arm()
        self.stopping.set()

    def _arm(self) -> None:
        """Start the count to the end by force, unless it runs already."""
        if self._watchdog is None:
            self._watchdog = threading.Timer(self._cap_s, _abort, (self._cap_s,))
            self._watchdog.daemon = True
            self._watchdog.start()

    async def serve(self, name: str, endpoints: web.Application, addr: str) -> int:
        """Serve HTTP until the process ends; returns the bound port, which the event `listening` names too.

        Raises:
            OSError: the address cannot be bound.
        """
        address = parse_addr(addr)
        runner = web.AppRunner(endpoints, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        self._runners.append(runner)
        site = web.TCPSite(runner, address.host or None, address.port)
        await site.start()
        port = int(runner.addresses[0][1])
        _log.info("listening", name=name, host=address.host, port=port)
        return port

    def _endpoints(self) -> web.Application:
        endpoints = web.Application()
        endpoints.add_routes([web.get("/metrics", self._serve_metrics), *self.health.routes(), *self._routes])
        return endpoints

    async def _serve_metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=await self.registry.render(), headers={"Content-Type": CONTENT_TYPE})

    async def _guard(self, name: str, work: Coroutine[Any, Any, Any], *, may_end: bool) -> None:
        try:
            await work
        except Exception as error:
            _log.exception("background task died", task=name, error=f"{type(error).__name__}: {error}")
            raise BackgroundTaskError(name) from error
        if not (may_end or self.stopping.is_set()):
            _log.error("background task ended", task=name)
            raise BackgroundTaskError(name)

    async def _end_tasks(self) -> None:
        """Cancel the tasks one after another, last started first, and wait for each."""
        deadline = asyncio.get_running_loop().time() + self.tasks_cap_s
        for task in reversed(self._tasks.copy()):
            left_s = deadline - asyncio.get_running_loop().time()
            task.cancel()
            _, pending = await asyncio.wait({task}, timeout=max(0.0, left_s))
            if pending:
                _log.error("background task does not end", task=task.get_name())

    def _on_signal(self, number: signal.Signals) -> None:
        # A second signal meets Python's own handling: the impatient get their way.
        asyncio.get_running_loop().remove_signal_handler(number)
        _log.info("stopping", signal=number.name)
        self.stop()


def freeze_heap() -> None:
    """Collect garbage once and exempt what is left from later collections.

    For the end of start-up: modules and tables are there to stay, and a full collection over them costs milliseconds.
    """
    gc.collect()
    gc.freeze()


def _abort(cap_s: float) -> None:
    """Runs in a thread of its own, since the event loop may be what hangs."""
    _log.error("shutdown exceeded its cap", cap_s=cap_s)
    os._exit(_EXIT_FAILURE)
