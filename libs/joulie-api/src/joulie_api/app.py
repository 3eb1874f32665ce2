"""Frame of a service's process: background tasks, signals, health and metrics endpoints, graceful shutdown.

Guarantees: a background task that fails ends the process with exit code 1 and one log line that names it; SIGTERM and
SIGINT end it with 0, in the order not ready - tasks cancelled, last started first - servers closed; shutdown takes at
most the shutdown timeout, even with a blocked event loop.
Does not restart tasks: Kubernetes restarts the process.

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
from prometheus_client.metrics_core import Metric

from joulie_api.addresses import Address, parse_addr
from joulie_api.entry import BackgroundTaskError, main
from joulie_api.failures import Failures
from joulie_api.health import Health
from joulie_api.http_server import Front, HttpLog, HttpServer, OnError
from joulie_api.log_limit import LogLimit
from joulie_api.metrics import CONTENT_TYPE, NodeSeriesCollector, gauge, new_registry
from joulie_api.reflector import Reflector
from joulie_api.settings import ProcessSettings

__all__ = ["Address", "App", "BackgroundTaskError", "freeze_heap", "main", "parse_addr"]

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
#: Kubernetes kills 30 s after SIGTERM; limits must be restored before.
SHUTDOWN_TIMEOUT_S = 25.0
#: The part of it that the tasks get, before shutdown continues without them.
TASKS_TIMEOUT_S = 20.0
_EXIT_FAILURE = 1
#: Allocations between collections of the young generation, and collections of it and of the next between those of an
#: older one.
_GC_THRESHOLDS = (50_000, 20, 20)

_log = structlog.get_logger()


class App:
    """The frame of one process, an async context manager.

    Args:
        settings: settings of the process.
        service: its name in logs and metrics, such as `joulie-agent`.
        version: its version, for `joulie_build_info`.
        routes: routes to serve beside metrics and health, for a process that has one port for everything.
        shutdown_timeout_s: seconds from the first signal until the process is terminated.
    """

    def __init__(
        self,
        settings: ProcessSettings,
        *,
        service: str,
        version: str = "unknown",
        routes: Iterable[web.AbstractRouteDef] = (),
        shutdown_timeout_s: float = SHUTDOWN_TIMEOUT_S,
    ) -> None:
        self.service = service
        self.health = Health()
        self.registry = new_registry(service, version)
        self.failures = Failures(self.registry)
        """Failures that end the work on one object alone."""
        self.stopping = asyncio.Event()
        """Set once shutdown has begun."""
        self.metrics_port = 0
        """The bound port of the metrics endpoint."""
        self.tasks_timeout_s = min(TASKS_TIMEOUT_S, shutdown_timeout_s)
        """Time that all background tasks together have to end."""
        self.request_log_limit = LogLimit()
        """For all lines of the log whose number clients determine."""
        self._settings = settings
        self._routes = tuple(routes)
        self._shutdown_timeout_s = shutdown_timeout_s
        self._group = asyncio.TaskGroup()
        self._tasks: list[asyncio.Task[None]] = []
        self._servers: list[HttpServer] = []
        self._requests = HttpLog(self.request_log_limit)
        self._reflectors: list[Reflector[Any]] = []
        self.registry.register(NodeSeriesCollector(lambda: [set_aside(self._reflectors)]))
        self._watchdog: threading.Timer | None = None

    def add_routes(self, routes: Iterable[web.AbstractRouteDef]) -> None:
        """Add routes to serve beside metrics and health, before the application is entered."""
        self._routes += tuple(routes)

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
            # A group of nothing but the caller's own error would only hide it; the error itself is raised.
            if errors.exceptions != (error,):
                raise

    async def _release(self) -> None:
        for server in reversed(self._servers):
            await server.close()
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
        if self._watchdog is not None:
            self._watchdog.cancel()

    def watch(self, reflector: Reflector[Any], *, work: Coroutine[Any, Any, Any] | None = None) -> None:
        """Run a watch, report what it sets aside, and count it in the readiness of the process.

        Args:
            reflector: the watch.
            work: runs it; `reflector.run` without.
        """
        self.report(reflector)
        self.spawn(f"watch {reflector.name}", work or reflector.run())
        self.health.add_ready(f"watch {reflector.name}", reflector.stale_reason)

    def report(self, reflector: Reflector[Any]) -> None:
        """Report what a watch that runs elsewhere sets aside."""
        reflector.report_to(self.failures)
        self._reflectors.append(reflector)

    def spawn(self, name: str, work: Coroutine[Any, Any, Any], *, may_end: bool = False) -> asyncio.Task[None]:
        """Start a background task; its exception ends the process.

        Args:
            name: name of the task in logs.
            work: the coroutine to run.
            may_end: whether it may return; otherwise it has to run until the process stops.
        """
        task = self._group.create_task(self._guard(name, work, may_end=may_end), name=name)
        self._tasks.append(task)
        task.add_done_callback(self._tasks.remove)
        # A task that is cancelled before its first step has not started the coroutine.
        task.add_done_callback(lambda _: work.close())
        return task

    async def wait(self) -> None:
        """Wait until shutdown has begun and every background task has ended.

        The caller then closes what the tasks use (a client, a lease).
        """
        await self.stopping.wait()
        await self._end_tasks()

    def stop(self) -> None:
        """Begin shutdown, as SIGTERM does."""
        self._arm()
        self.stopping.set()

    def _arm(self) -> None:
        """Start the shutdown timeout, unless it runs already."""
        if self._watchdog is None:
            self._watchdog = threading.Timer(self._shutdown_timeout_s, _abort, (self._shutdown_timeout_s,))
            self._watchdog.daemon = True
            self._watchdog.start()

    async def serve(
        self,
        name: str,
        endpoints: web.Application,
        addr: str,
        *,
        front: Front | None = None,
        on_error: OnError = lambda _path, _status: None,
    ) -> int:
        """Serve HTTP until the process ends, and return the bound port, which is also logged.

        `front` and `on_error` as in `joulie_api.http_server.HttpServer`.

        Raises:
            OSError: the address cannot be bound.
        """
        address = parse_addr(addr)
        server = HttpServer(endpoints, self._requests, front=front, on_error=on_error)
        self._servers.append(server)
        port = await server.start(address)
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
            _log.exception("background task failed", task=name, error=f"{type(error).__name__}: {error}")
            raise BackgroundTaskError(name) from error
        if not (may_end or self.stopping.is_set()):
            _log.error("background task returned", task=name)
            raise BackgroundTaskError(name)

    async def _end_tasks(self) -> None:
        """Cancel the tasks one after another, last started first, and wait for each."""
        deadline = asyncio.get_running_loop().time() + self.tasks_timeout_s
        for task in reversed(self._tasks.copy()):
            left_s = deadline - asyncio.get_running_loop().time()
            task.cancel()
            _, pending = await asyncio.wait({task}, timeout=max(0.0, left_s))
            if pending:
                _log.error("background task still running at shutdown", task=task.get_name())

    def _on_signal(self, number: signal.Signals) -> None:
        # A second signal gets Python's default handling and terminates the process immediately.
        asyncio.get_running_loop().remove_signal_handler(number)
        _log.info("stopping", signal=number.name)
        self.stop()


def set_aside(reflectors: Iterable[Reflector[Any]]) -> Metric:
    """Return the number of objects of each watch that cannot be used."""
    return gauge(
        "joulie_objects_set_aside",
        "Objects whose latest version cannot be decoded, by resource; the last valid version of each stays in force.",
        ("resource",),
        (((each.name,), float(len(each.invalid))) for each in reflectors),
    )


def freeze_heap() -> None:
    """Collect garbage once and exempt what is left from later collections.

    For the end of start-up: modules and tables are permanent, and a full collection over them takes milliseconds.
    """
    gc.collect()
    gc.freeze()


def settle_heap() -> None:
    """Freeze the heap, and collect garbage more rarely from here on.

    For services whose requests and events make many objects and few cycles.
    """
    gc.set_threshold(*_GC_THRESHOLDS)
    freeze_heap()


def _abort(timeout_s: float) -> None:
    """Terminate the process, from a thread of its own, since the event loop may hang."""
    _log.error("shutdown timed out", timeout_s=timeout_s)
    os._exit(_EXIT_FAILURE)
