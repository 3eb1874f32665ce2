"""The status of one NodeBMC: written when it has changed, and once in a heartbeat for the readings."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from joulie_api.resources import NODE_BMCS, Resource
from joulie_core.kinds import Condition, NodeBMCStatus
from joulie_core.kinds.base import ConditionStatus
from joulie_core.timestamps import rfc3339
from joulie_outofband.outcome import BmcFinding

#: Fields that change with every reading.
_READINGS: Final = frozenset({"sampled_at", "power_watts"})


class StatusWrites(Protocol):
    """The part of `joulie_api.apply.FencedWriter` that is used."""

    async def apply(self, res: Resource, name: str, body: Mapping[str, Any], *, status: bool = False) -> None:
        """Server-side apply."""


class StatusPublisher:
    """The status of one NodeBMC.

    `seen` is the status as the object has it; `clock` is monotonic.
    """

    def __init__(
        self,
        name: str,
        seen: NodeBMCStatus,
        writes: StatusWrites,
        *,
        heartbeat_s: float,
        clock: Callable[[], float],
    ) -> None:
        self._name = name
        self._written = seen
        self._writes = writes
        self._heartbeat_s = heartbeat_s
        self._clock = clock
        self._written_at = float("-inf")

    async def publish(self, status: NodeBMCStatus) -> None:
        """Write the status if it is due.

        Raises:
            KubeError: it could not be written.
        """
        same = _lasting(status) == _lasting(self._written)
        if same and self._clock() - self._written_at < self._heartbeat_s:
            return
        await self.store(status)

    async def store(self, status: NodeBMCStatus) -> None:
        """Write the status, and return when the API server has it. Raises KubeError."""
        await self._writes.apply(NODE_BMCS, self._name, {"status": status.dump()}, status=True)
        self._written, self._written_at = status, self._clock()


def with_findings(
    before: tuple[Condition, ...], findings: Mapping[str, BmcFinding], *, now_s: float, generation: int
) -> tuple[Condition, ...]:
    """Return the conditions by type; one whose status stays keeps its time, and one without a finding stays."""
    found = {each.type: each for each in before}
    for kind, finding in findings.items():
        old = found.get(kind)
        kept = old is not None and old.status is finding.status
        found[kind] = Condition(
            type=kind,
            status=ConditionStatus(finding.status),
            reason=finding.reason.value,
            message=finding.message,
            last_transition_time=old.last_transition_time if kept and old is not None else rfc3339(now_s, "seconds"),
            observed_generation=generation,
        )
    return tuple(found[kind] for kind in sorted(found))


def _lasting(status: NodeBMCStatus) -> NodeBMCStatus:
    return status.model_copy(update=dict.fromkeys(_READINGS))
