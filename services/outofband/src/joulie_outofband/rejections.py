"""Shows at a NodeBMC that its newest version cannot be used: the condition `Accepted` is False.

The API server checks the same rules; what passes it and not the service's decoder is rare, such as an object that was
stored before a rule was added. Where an earlier version was valid, that one stays in force, and its worker shows the
condition. Without one there is no worker, and nothing but the condition is written, under a field manager of its own:
the rest of the status, with the limit to be restored, belongs to the service's own manager and stays.
"""

from collections.abc import Callable, Mapping
from typing import Final

from joulie_api.apply import FencedWriter
from joulie_api.errors import KubeError
from joulie_api.failures import Failures
from joulie_api.resources import NODE_BMCS
from joulie_core.kinds import Condition
from joulie_outofband.bmc_worker import ACCEPTED, BmcWorker
from joulie_outofband.outcome import BmcFinding
from joulie_outofband.publish import with_findings
from joulie_outofband.reasons import BmcReason

#: Owner of the one field that is written here.
FIELD_MANAGER: Final = "joulie-outofband-rejections"
_WORK: Final = "show a rejected nodebmc"


class Rejections:
    """The NodeBMCs that cannot be decoded; `writes` is under `FIELD_MANAGER`."""

    def __init__(self, writes: FencedWriter, failures: Failures, *, wall: Callable[[], float]) -> None:
        self._writes = writes
        self._failures = failures
        self._wall = wall
        #: What was written, by name.
        self._shown: dict[str, str] = {}

    async def show(self, invalid: Mapping[str, str], workers: Mapping[str, BmcWorker]) -> None:
        """Show why objects cannot be used, once for each reason; `invalid` and `workers` are by name."""
        for name, worker in list(workers.items()):
            worker.reject(invalid.get(name))
        self._shown = {name: why for name, why in self._shown.items() if name in invalid and name not in workers}
        for name, why in list(invalid.items()):
            if name not in workers and self._shown.get(name) != why:
                await self._write(name, why)

    async def _write(self, name: str, why: str) -> None:
        condition = self._condition(why)
        try:
            with self._failures.contained(_WORK, node=name):
                body = {"status": {"conditions": [condition.dump()]}}
                await self._writes.apply(NODE_BMCS, name, body, status=True)
                self._shown[name] = why
        except KubeError:
            return  # counted by the writer; the next call tries again

    def _condition(self, why: str) -> Condition:
        found = {ACCEPTED: BmcFinding.no(BmcReason.INVALID_SPEC, why)}
        (condition,) = with_findings((), found, now_s=self._wall(), generation=None)
        return condition
