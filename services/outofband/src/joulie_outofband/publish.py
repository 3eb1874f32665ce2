"""The status of one NodeBMC: written when it has changed, and once in a heartbeat for the readings."""

from collections.abc import Callable, Mapping
from typing import Final

from joulie_api.apply import FencedWriter
from joulie_api.resources import NODE_BMCS
from joulie_core.kinds import Condition, NodeBMCStatus
from joulie_core.kinds.base import set_condition
from joulie_core.kinds.node_bmc import LEFT_OFF, PowerState
from joulie_core.text import printable
from joulie_core.timestamps import rfc3339
from joulie_outofband.outcome import BmcFinding

#: Characters of a message of a condition.
_MOST_CHARACTERS: Final = 1000
#: Fields that change with every reading.
_READINGS: Final = frozenset({"sampled_at", "power_watts"})


class StatusPublisher:
    """The status of one NodeBMC: the newest one, published or not, in `status`.

    `seen` is the status as the object has it; `clock` is monotonic, `wall` in seconds since the epoch.
    """

    def __init__(
        self,
        name: str,
        seen: NodeBMCStatus,
        writes: FencedWriter,
        *,
        heartbeat_s: float,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        # What the operator says is not this service's to repeat.
        own = tuple(each for each in seen.conditions if each.type != LEFT_OFF)
        self.status = seen.model_copy(update={"conditions": own})
        self._name = name
        self._written = self.status
        self._writes = writes
        self._heartbeat_s = heartbeat_s
        self._clock = clock
        self._wall = wall
        self._written_at = float("-inf")

    def change(self, **fields: object) -> None:
        """Change fields of the newest status."""
        self.status = self.status.model_copy(update=fields)

    def note(self, findings: Mapping[str, BmcFinding], *, generation: int) -> None:
        """Take conditions over into the newest status; `generation` is that of the spec that they are about."""
        conditions = with_findings(self.status.conditions, findings, now_s=self._wall(), generation=generation)
        self.change(conditions=conditions)

    def note_power(self, state: PowerState) -> None:
        """Take the power state over into the newest status."""
        if state is not self.status.power_state:
            self.change(power_state=state, last_transition=rfc3339(self._wall(), "seconds"))

    async def publish(self) -> None:
        """Write the newest status if it is due.

        Raises:
            KubeError: it could not be written.
        """
        same = _lasting(self.status) == _lasting(self._written)
        if same and self._clock() - self._written_at < self._heartbeat_s:
            return
        await self.store()

    async def store(self) -> None:
        """Write the newest status, and return when the API server has it. Raises KubeError."""
        status = self.status
        await self._writes.apply(NODE_BMCS, self._name, {"status": status.dump()}, status=True)
        self._written, self._written_at = status, self._clock()


def with_findings(
    before: tuple[Condition, ...], findings: Mapping[str, BmcFinding], *, now_s: float, generation: int | None
) -> tuple[Condition, ...]:
    """Return the conditions by type; one whose status stays keeps its time, and one without a finding stays.

    `generation` is None where the findings are about a spec that could not be read.
    """
    now = rfc3339(now_s, "seconds")
    for kind, finding in findings.items():
        message = printable(finding.message, _MOST_CHARACTERS)
        before = set_condition(
            before, kind, finding.status, finding.reason.value, message, now=now, generation=generation
        )
    return before


def _lasting(status: NodeBMCStatus) -> NodeBMCStatus:
    return status.model_copy(update=dict.fromkeys(_READINGS))
