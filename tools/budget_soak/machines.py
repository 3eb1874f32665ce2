"""The nodes of the soak of power budgets: hardware, agents, and the objects through which leaders reach them."""

from dataclasses import dataclass
from random import Random

from joulie_core.budget import LimitAsk, LimitReport, ledger

#: An agent that is not silent reads its object at least so often, in seconds.
AGENT_S = 8.0
#: Part of the reads that return the object as it was before its last change.
_STALE = 0.2


@dataclass
class Machine:
    """A server: its own limit is what the observer adds up."""

    identity: str
    max_mw: int
    min_mw: int
    #: Firmware takes no lower limit; nothing says so before it is tried.
    clamp_mw: int
    limit_mw: int
    #: Its maximum is known to leaders.
    listed: bool = True
    silent: bool = False
    refuses: bool = False
    released: bool = False
    renewed_s: float = 0.0
    due_s: float = 0.0

    @property
    def troubled(self) -> bool:
        """It cannot be lowered, or may not be."""
        return self.silent or self.refuses or self.released or not self.listed


@dataclass
class NodeObject:
    """The stored ask and report of a node, with the versions that a reader with lag may still see."""

    ask: LimitAsk | None = None
    version: int = 0
    earlier: LimitAsk | None = None
    report: LimitReport | None = None
    renewed_s: float | None = None

    def write(self, ask: LimitAsk, version: int, *, checks: bool = True) -> bool:
        """Store an ask where the object is at the version that its writer saw; return whether it is stored."""
        if checks and version != self.version:
            return False
        self.earlier, self.ask, self.version = self.ask, ask, self.version + 1
        return True


@dataclass
class Agent:
    """The agents of all nodes."""

    random: Random
    lease_s: float
    releases: bool

    def read(self, machine: Machine, stored: NodeObject, now_s: float) -> None:
        """Read the object, perhaps as it was before, apply what is new, and report."""
        if machine.silent:
            return
        machine.due_s = now_s + self.random.uniform(1.0, AGENT_S)
        ask = stored.earlier if self.random.random() < _STALE and stored.earlier is not None else stored.ask
        applied = stored.report if stored.report is not None and stored.report.identity == machine.identity else None
        if ask is None or ask.identity != machine.identity:
            return
        new = ledger.supersedes(ask, applied)
        again = applied is not None and (machine.released or applied.refused)
        if not new and not again:
            if applied is not None:
                machine.renewed_s = stored.renewed_s = now_s
            return
        if not new and applied is not None and ask.sequence != applied.sequence:
            return  # an old copy of the object; the next one will do
        if not machine.refuses:
            wanted = machine.max_mw if ask.limit_mw is None else ask.limit_mw
            machine.limit_mw = min(max(wanted, machine.clamp_mw), machine.max_mw)
            machine.released = False
        stored.report = LimitReport(machine.identity, ask.sequence, machine.limit_mw, refused=machine.refuses)
        machine.renewed_s = stored.renewed_s = now_s

    def let_leases_end(self, machine: Machine, now_s: float) -> bool:
        """Take the limit from a node whose lease has ended, where nodes are released; return whether it was taken."""
        if self.releases and not machine.released and now_s > machine.renewed_s + self.lease_s:
            machine.released, machine.limit_mw = True, machine.max_mw
            return True
        return False
