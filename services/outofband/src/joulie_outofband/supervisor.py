"""The workers of all NodeBMCs: one task each, from the object's appearance until it is gone.

Guarantees: the worker of an object that was made again starts when the one before has ended, since what that one has
still to restore would be taken for the original; a worker that fails is started again and ends no other.
"""

import asyncio
from collections.abc import Callable, Mapping

from joulie_api.failures import Failures
from joulie_api.reflector import Reflector
from joulie_api.wire import Versioned
from joulie_core.kinds import NodeBMC
from joulie_outofband.bmc_worker import BmcWorker
from joulie_outofband.metrics import BmcSeries
from joulie_outofband.rejections import Rejections


class BmcSupervisor:
    """Starts and ends workers; `make` returns the worker of an object, `retry_s` passes before one is started again."""

    def __init__(
        self,
        bmcs: Reflector[Versioned[NodeBMC]],
        make: Callable[[Versioned[NodeBMC]], BmcWorker],
        *,
        rejections: Rejections,
        failures: Failures,
        retry_s: float,
    ) -> None:
        self._bmcs = bmcs
        self._make = make
        self._rejections = rejections
        self._failures = failures
        self._retry_s = retry_s
        self._workers: dict[str, BmcWorker] = {}
        #: The newest task by name, until it is done.
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Work until cancelled."""
        await self._bmcs.wait_synced()
        async with asyncio.TaskGroup() as group:

            def on_object(key: str, _old: Versioned[NodeBMC] | None, new: Versioned[NodeBMC] | None) -> None:
                worker = self._workers.get(key)
                if worker is not None and (new is None or new.metadata.uid != worker.uid):
                    worker.end()
                    del self._workers[key]
                    worker = None
                if new is None:
                    return
                if worker is not None:
                    worker.update(new)
                    return
                self._workers[key] = self._make(new)
                task = group.create_task(self._run_after(self._tasks.get(key), self._workers[key]), name=f"bmc {key}")
                self._tasks[key] = task
                task.add_done_callback(lambda done: self._forget(key, done))

            self._bmcs.subscribe(on_object)
            while True:
                await self._rejections.show(self._bmcs.invalid, self._workers)
                await asyncio.sleep(self._retry_s)

    def _forget(self, key: str, done: asyncio.Task[None]) -> None:
        if self._tasks.get(key) is done:
            del self._tasks[key]

    def series(self) -> Mapping[str, BmcSeries]:
        """Return what is shown by node; empty while another replica leads."""
        return {
            name: BmcSeries(worker.status, worker.cap_overdue, worker.put_to_sleep)
            for name, worker in self._workers.items()
        }

    async def _run_after(self, before: asyncio.Task[None] | None, worker: BmcWorker) -> None:
        if before is not None:
            await asyncio.wait({before})
        while True:
            try:
                await worker.run()
            except Exception as error:  # noqa: BLE001 - a worker's failure ends no other
                self._failures.internal_error("bmc worker", error, node=worker.name)
                await asyncio.sleep(self._retry_s)
            else:
                return
