"""Limits that one operator has written to NodePowerBudgets, and has not seen yet.

Guarantees that a limit that was sent counts until the object is seen as it is after it: with an answer as it was
written, and nothing more is written over the same version; without one as a limit that may be stored, which is not
taken for this leader's own, and is sent again. A renewal counts from before its request, and only where it is known to
be stored.
"""

from dataclasses import dataclass, replace
from typing import Final

from joulie_api.wire import Versioned
from joulie_core.budget import LimitAsk, LimitReport
from joulie_core.budget.objects import milliwatts, stored_ask, stored_report
from joulie_core.budget.samples import ReportedSample
from joulie_core.kinds import NodePowerBudget
from joulie_core.kinds.node_power_budget import NodePowerBudgetSpec, NodePowerBudgetStatus

#: A watch shows a write sooner; after it the write is sent again, on the version that it was sent on.
UNSEEN_S: Final = 30.0
#: Renewals of a node that are remembered: more than in the time for which a silent agent keeps a limit.
_MOST_RENEWALS: Final = 128
#: Below all terms of leaders.
NO_TERM: Final = -1

Budget = Versioned[NodePowerBudget]


@dataclass(slots=True, eq=False)
class SentLimit:
    """A spec that was sent over one version of an object; None: there was no object."""

    version: str | None
    spec: NodePowerBudgetSpec
    at_s: float
    #: What was sent before it over the same version, and may be stored.
    before: "SentLimit | None" = None
    #: The API server has answered that it is stored.
    stored: bool = False


@dataclass(frozen=True, slots=True)
class SeenBudget:
    """The object of a node as it counts now."""

    #: Version that a write has to name; None: there is no object.
    version: str | None = None
    #: As stored, or as sent last where that may be stored; None: nothing was asked.
    spec: NodePowerBudgetSpec | None = None
    ask: LimitAsk | None = None
    report: LimitReport | None = None
    #: Time before the renewal that the agent has repeated; None: not known.
    renewed_s: float | None = None
    #: That renewal, and what the agent has measured last; None: it has reported none.
    repeated: int | None = None
    sample: ReportedSample | None = None
    #: Nothing may be written before the watch shows what was.
    in_flight: bool = False
    #: The spec was sent without an answer, and is sent again unless a newer one is.
    unanswered: bool = False


class SentLimits:
    """The memory of one leader."""

    def __init__(self) -> None:
        self._sent: dict[str, SentLimit] = {}
        #: Term and sequence that were sent last, by node.
        self._tried: dict[str, tuple[int, int]] = {}
        #: Renewals that are stored, with the times before their requests.
        self._renewals: dict[str, list[tuple[int, float]]] = {}
        self._last_s: dict[str, float] = {}

    def sending(self, name: str, version: str | None, spec: NodePowerBudgetSpec, now_s: float) -> SentLimit:
        """Note a spec right before its request."""
        before = self._sent.get(name)
        if before is not None and before.version != version:
            before = None
        if before is not None:
            # It counts with all that was sent before it.
            before.before = None
        sent = self._sent[name] = SentLimit(version, spec, now_s, before)
        self._tried[name] = max(self._tried.get(name, (NO_TERM, 0)), (spec.term, spec.sequence))
        self._last_s[name] = now_s
        return sent

    def stored(self, name: str, sent: SentLimit) -> None:
        """Note that the API server has stored it."""
        sent.stored = True
        self._renewed(name, sent)

    def refused(self, name: str, sent: SentLimit) -> None:
        """Note that the API server has answered that it is not stored; what was sent before it still may be."""
        if self._sent.get(name) is sent:
            del self._sent[name]
            self._last_s.pop(name, None)
            if sent.before is not None:
                self._sent[name] = sent.before

    def on_change(self, name: str, new: Budget | None) -> None:
        """Take what the watch shows: no write over the version before can be stored any more."""
        sent = self._sent.pop(name, None)
        if sent is not None and not sent.stored and new is not None and new.model.spec == sent.spec:
            self._renewed(name, sent)
        if new is None:
            self._renewals.pop(name, None)

    def retain(self, names: set[str]) -> None:
        """Forget all other nodes."""
        for kept in (self._sent, self._tried, self._renewals, self._last_s):
            for name in kept.keys() - names:
                del kept[name]

    def last_s(self, name: str) -> float | None:
        """Return the time of the last write that was sent and not refused; None: there was none."""
        return self._last_s.get(name)

    def foreign_term(self, name: str, spec: NodePowerBudgetSpec, term: int) -> int | None:
        """Return the term of a stored limit that another leader wrote which this one's is not above; else None."""
        tried_term, tried = self._tried.get(name, (NO_TERM, 0))
        own = spec.term == term == tried_term and spec.sequence <= tried
        return None if own or spec.term < term else spec.term

    def seen(self, name: str, found: Budget | None, now_s: float) -> SeenBudget:
        """Return the object of a node as it counts now, from the object that the watch shows."""
        version = None if found is None else found.metadata.resource_version
        sent = self._sent.get(name)
        if sent is not None and sent.version != version:
            self.on_change(name, found)
            sent = None
        status = None if found is None else found.model.status
        report = None if status is None else stored_report(status)
        spec = None if found is None else found.model.spec
        ask = None if spec is None else stored_ask(spec)
        renewed_s = None
        if status is not None and spec is not None and (status.renewal or 0) <= spec.renewal:
            renewed_s = self._renewed_s(name, status.renewal)
        repeated = None if status is None else status.renewal
        sample = None if status is None else _sample(status, renewed_s)
        if sent is None:
            return SeenBudget(version, spec, ask, report, renewed_s, repeated, sample)
        in_flight = sent.stored and now_s < sent.at_s + UNSEEN_S
        sent_ask = stored_ask(sent.spec)
        if not sent.stored:
            # Earlier leaders can still write over what is stored.
            sent_ask = replace(sent_ask, term=NO_TERM if ask is None else ask.term)
        return SeenBudget(
            version,
            sent.spec,
            sent_ask,
            report,
            renewed_s,
            repeated,
            sample,
            in_flight=in_flight,
            unanswered=not in_flight,
        )

    def _renewed(self, name: str, sent: SentLimit) -> None:
        renewals = self._renewals.setdefault(name, [])
        if not renewals or renewals[-1][0] < sent.spec.renewal:
            renewals.append((sent.spec.renewal, sent.at_s))
            del renewals[:-_MOST_RENEWALS]

    def _renewed_s(self, name: str, repeated: int | None) -> float | None:
        renewals = self._renewals.get(name, [])
        known = [each for each in renewals if repeated is not None and each[0] <= repeated]
        if not known:
            return None
        renewals[:] = renewals[len(known) - 1 :]
        return known[-1][1]


def _sample(status: NodePowerBudgetStatus, renewed_s: float | None) -> ReportedSample | None:
    found = status.oversubscription
    return None if found is None else ReportedSample(found.sample, milliwatts(found.drawn_watts), renewed_s)
