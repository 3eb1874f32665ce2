"""The workers of all NodeBMCs: one task each, from the object's appearance until it is gone."""

import asyncio
from collections.abc import Callable, Mapping

from joulie_api.reflector import Reflector
from joulie_api.wire import Versioned
from joulie_core.kinds import NodeBMC
from joulie_outofband.bmc_worker import BmcWorker
from joulie_outofband.metrics import BmcSeries


class BmcSupervisor:
    """Starts and ends workers; a worker that fails ends `run`, and so the process."""

    def __init__(self, bmcs: Reflector[Versioned[NodeBMC]], make: Callable[[Versioned[NodeBMC]], BmcWorker]) -> None:
        self._bmcs = bmcs
        self._make = make
        self._workers: dict[str, BmcWorker] = {}

    async def run(self) -> None:
        """Work until cancelled."""
        await self._bmcs.wait_synced()
        async with asyncio.TaskGroup() as group:

            def on_object(key: str, _old: Versioned[NodeBMC] | None, new: Versioned[NodeBMC] | None) -> None:
                worker = self._workers.get(key)
                if new is None:
                    if worker is not None:
                        worker.end()
                        del self._workers[key]
                elif worker is not None:
                    worker.update(new)
                else:
                    self._workers[key] = self._make(new)
                    group.create_task(self._workers[key].run(), name=f"bmc {key}")

            self._bmcs.subscribe(on_object)
            await asyncio.Event().wait()

    def series(self) -> Mapping[str, BmcSeries]:
        """Return what is shown by node; empty while another replica leads."""
        return {name: BmcSeries(worker.status, worker.cap_overdue) for name, worker in self._workers.items()}
