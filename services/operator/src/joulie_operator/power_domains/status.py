"""The status of a PowerDomain, from the outcome of the decision. Watts are rounded to the side that shows less room."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from joulie_core.budget import DomainProblem, DomainRest, LoweredShare, ObservedDomain
from joulie_core.kinds import Condition, ConditionStatus, PowerDomainSpec, PowerDomainStatus
from joulie_core.kinds.base import set_condition
from joulie_core.kinds.power_domain import MOST_LOWERED, DomainMode, DrawnPower, LoweredNode, RestOfServers
from joulie_core.names import NodeName
from joulie_core.text import first_of, printable
from joulie_core.timestamps import rfc3339
from joulie_core.units import MW_PER_WATT
from joulie_operator.power_domains.decision import DomainOutcome
from joulie_operator.power_domains.inputs import DomainNode
from joulie_operator.power_domains.oversubscription_status import held_by_fallbacks, oversubscription_status

#: Characters of a message: names of domains and nodes are as long as people write them.
_MOST_CHARACTERS: Final = 4_096
_MOST_REASON: Final = 1_024
#: Faults and nodes that one message names.
_MOST_NAMED: Final = 3
LOWERS_NOTHING: Final = "mode Observe lowers nothing: no node is limited, and no breaker is protected"
_KEEPS: Final = "its tree cannot be used: nodes that have a limit keep it, and no other is asked for"
_NO_TERM: Final = "the leader of the operator cannot tell its limits from those of another one yet; none is asked for"


def domain_status(
    name: str,
    spec: PowerDomainSpec,
    outcome: DomainOutcome,
    nodes: Mapping[NodeName, DomainNode],
    *,
    enforces: bool = False,
) -> PowerDomainStatus:
    """Return the status without the conditions' times, the time, and the generation: see `dated`.

    Args:
        name: of the domain.
        spec: of the domain.
        outcome: of the decision.
        nodes: by name.
        enforces: the setting is Enforce.
    """
    observed, enforced = _with_servers(outcome), outcome.enforced
    spec = _with_event(spec, outcome)
    mode = DomainMode.OBSERVE if enforced is None else DomainMode.ENFORCE
    condition = _enforced(spec, outcome, enforces=enforces)
    if observed is None:
        return PowerDomainStatus(mode=mode, conditions=(_refused(name, outcome.faults), condition))
    sums = observed.sums
    return PowerDomainStatus(
        mode=mode,
        nodes=len(observed.nodes),
        unknown_nodes=len(observed.unknown),
        allocated_watts=math.floor(sums.allocated_mw / MW_PER_WATT),
        in_force_watts=_up(sums.in_force_mw),
        largest_in_force_watts=None if enforced is None else _up(enforced.largest_mw),
        unconfirmed_nodes=None if enforced is None else enforced.unconfirmed,
        refused_nodes=None if enforced is None else enforced.refused,
        silent_nodes=None if enforced is None else enforced.silent,
        drawn=_drawn(observed, nodes, servers=outcome.counts_servers),
        rest=None if outcome.rest is None else _rest(outcome.rest),
        guaranteed_watts=math.floor(sums.guaranteed_mw / MW_PER_WATT),
        headroom_watts=None if sums.headroom_mw is None else max(0, math.floor(sums.headroom_mw / MW_PER_WATT)),
        shortfall_watts=_up(sums.shortfall_mw),
        limited_nodes=observed.limited,
        lowered_nodes=len(observed.lowered),
        lowered=tuple(_lowered(each) for each in observed.lowered[:MOST_LOWERED]),
        binding_event=None if enforced is None or outcome.event is None else outcome.event.event,
        oversubscription=oversubscription_status(outcome),
        conditions=(*_used(spec, outcome, observed), condition),
    )


def _with_servers(outcome: DomainOutcome) -> ObservedDomain | None:
    """Return what was observed, with the rest of the servers in all sums that are compared with the limit."""
    found, rest = outcome.observed, outcome.rest
    if found is None or rest is None:
        return found
    sums = replace(
        found.sums,
        allocated_mw=found.sums.allocated_mw + rest.mw,
        guaranteed_mw=found.sums.guaranteed_mw + rest.mw,
        in_force_mw=None if found.sums.in_force_mw is None else found.sums.in_force_mw + rest.mw,
    )
    return replace(found, sums=sums, known_mw=found.known_mw + rest.mw)


def _rest(rest: DomainRest) -> RestOfServers:
    return RestOfServers(
        watts=math.ceil(rest.mw / MW_PER_WATT),
        measured_nodes=rest.measured_nodes,
        modelled_nodes=rest.modelled_nodes,
        modelled_watts=math.ceil(rest.modelled_mw / MW_PER_WATT),
        modelled_least_watts=math.floor(rest.modelled_least_mw / MW_PER_WATT),
        unknown_nodes=len(rest.unknown),
    )


def _with_event(spec: PowerDomainSpec, outcome: DomainOutcome) -> PowerDomainSpec:
    """Return the spec with the limit in force."""
    if outcome.enforced is None or outcome.event is None:
        return spec
    return spec.model_copy(update={"limit_watts": math.ceil(outcome.event.limit_mw / MW_PER_WATT)})


def unreadable_status(reason: str) -> PowerDomainStatus:
    """Return the status of a domain whose object cannot be read."""
    return PowerDomainStatus(
        mode=DomainMode.OBSERVE,
        conditions=(
            _condition("Accepted", ConditionStatus.FALSE, "Unreadable", reason),
            _condition("Enforced", ConditionStatus.FALSE, "TreeSetAside", _KEEPS),
        ),
    )


def dated(
    status: PowerDomainStatus, before: Iterable[Condition], generation: int | None, now_s: float
) -> PowerDomainStatus:
    """Return a status with its time and generation; conditions keep the times of those before while they stay."""
    now = rfc3339(now_s, "seconds")
    conditions = dated_conditions(status.conditions, before, generation, now)
    return status.model_copy(update={"observed_generation": generation, "last_updated": now, "conditions": conditions})


def dated_conditions(
    found: Iterable[Condition], before: Iterable[Condition], generation: int | None, now: str
) -> tuple[Condition, ...]:
    """Return conditions with the generation, and the time of those before while they stay."""
    listed = list(found)
    kinds = {each.type for each in listed}
    conditions = tuple(each for each in before if each.type in kinds)
    for each in listed:
        conditions = set_condition(
            conditions, each.type, each.status, each.reason, each.message, now=now, generation=generation
        )
    return conditions


def _up(milliwatts: int | None) -> int | None:
    return None if milliwatts is None else math.ceil(milliwatts / MW_PER_WATT)


def _drawn(observed: ObservedDomain, nodes: Mapping[NodeName, DomainNode], *, servers: bool) -> DrawnPower:
    readings = (nodes[name].drawn_by(servers=servers) for name in observed.nodes)
    known = [each for each in readings if each.watts is not None]
    measured = [each.watts or 0.0 for each in known if each.measured]
    modelled = [each.watts or 0.0 for each in known if not each.measured]
    return DrawnPower(
        measured_watts=math.ceil(math.fsum(measured)) if measured else None,
        measured_nodes=len(measured),
        modelled_watts=math.ceil(math.fsum(modelled)) if modelled else None,
        modelled_nodes=len(modelled),
        unknown_nodes=len(observed.nodes) - len(known),
    )


def _lowered(share: LoweredShare) -> LoweredNode:
    reason = f"limit of {share.binding}, of which nodes may get {_watts(share.usable_mw)}"
    if share.after_priority is not None:
        reason += f"; priority {share.after_priority} is served first"
    return LoweredNode(
        node=share.node,
        wanted_watts=math.ceil(share.wanted_mw / MW_PER_WATT),
        allocated_watts=math.floor(share.share_mw / MW_PER_WATT),
        reason=printable(reason, _MOST_REASON),
    )


def _used(spec: PowerDomainSpec, outcome: DomainOutcome, observed: ObservedDomain) -> tuple[Condition, ...]:
    return (_accepted(spec, observed), _floors(outcome.floors), _held(spec, outcome, observed))


def _refused(name: str, faults: tuple[DomainProblem, ...]) -> Condition:
    own = [each for each in faults if each.domain == name]
    if own:
        return _condition("Accepted", ConditionStatus.FALSE, own[0].problem.value, _texts(own))
    message = f"its tree is set aside: {'; '.join(f'{each.domain}: {each.message}' for each in faults)}"
    return _condition("Accepted", ConditionStatus.FALSE, "TreeSetAside", message)


def _accepted(spec: PowerDomainSpec, observed: ObservedDomain) -> Condition:
    if observed.nodes:
        return _condition("Accepted", ConditionStatus.TRUE, "Valid")
    selector = ",".join(f"{key}={value}" for key, value in sorted((spec.node_selector or {}).items()))
    message = "it selects no node, and no domain below it does"
    if selector:
        message = f"spec.nodeSelector matches no node: kubectl get nodes -l {selector}"
    return _condition("Accepted", ConditionStatus.TRUE, "NoNodes", message)


def _floors(problems: tuple[DomainProblem, ...]) -> Condition:
    if not problems:
        return _condition("FloorsFit", ConditionStatus.TRUE, "Fit")
    message = f"{_texts(problems)}; the lowest limits of the hardware count instead"
    return _condition("FloorsFit", ConditionStatus.FALSE, problems[0].problem.value, message)


def _held(spec: PowerDomainSpec, outcome: DomainOutcome, observed: ObservedDomain) -> Condition:
    usable = f"{spec.usable_watts} W"
    in_force = observed.sums.in_force_mw
    if outcome.enforced is not None and in_force is not None and not outcome.unread:
        # Without the watts, which change with each limit.
        if in_force > spec.usable_watts * MW_PER_WATT:
            if (fallback := held_by_fallbacks(spec, outcome, in_force)) is not None:
                return fallback
            message = f"the limits that may be in force exceed {usable} together; no node is raised"
            return _condition("Held", ConditionStatus.FALSE, "AboveLimit", message)
        message = f"the limits that may be in force are within {usable} together"
        return _condition("Held", ConditionStatus.TRUE, "WithinLimit", message)
    if outcome.enforced is None and observed.known_mw > spec.usable_watts * MW_PER_WATT:
        # Nodes of which nothing is known only add to it.
        least = "" if in_force is not None else "at least "
        message = f"the nodes may draw {least}{_watts(observed.known_mw)} together, above {usable}; nothing is lowered"
        return _condition("Held", ConditionStatus.FALSE, "AboveLimit", message)
    if outcome.unread or in_force is None:
        return _held_unknown(outcome, observed)
    return _condition(
        "Held", ConditionStatus.TRUE, "WithinLimit", f"the nodes may draw {_watts(in_force)} together, within {usable}"
    )


def _held_unknown(outcome: DomainOutcome, observed: ObservedDomain) -> Condition:
    if outcome.unread:
        message = f"objects that cannot be read may belong to it: {_names(outcome.unread)}"
        return _condition("Held", ConditionStatus.UNKNOWN, "ObjectUnreadable", message)
    if not observed.unknown and outcome.rest is not None:
        message = f"the rest of the server is not known of {_names(outcome.rest.unknown)}; "
        message += "neither readings of a BMC nor models of its CPUs tell it"
        return _condition("Held", ConditionStatus.UNKNOWN, "RestUnknown", message)
    message = f"the highest power is not known of {_names(observed.unknown)}; "
    message += "they are not managed, or their hardware is neither read nor stated by labels"
    return _condition("Held", ConditionStatus.UNKNOWN, "PowerUnknown", message)


def _enforced(spec: PowerDomainSpec, outcome: DomainOutcome, *, enforces: bool) -> Condition:
    if outcome.enforced is not None:
        if outcome.enforced.has_term:
            return _condition("Enforced", ConditionStatus.TRUE, "Enforced")
        return _condition("Enforced", ConditionStatus.FALSE, "TermNotKnown", _NO_TERM)
    if spec.mode is not DomainMode.ENFORCE:
        return _condition("Enforced", ConditionStatus.FALSE, "Observe", LOWERS_NOTHING)
    if not enforces:
        message = "POWER_DOMAINS of the operator is not Enforce: no node is limited, and no breaker is protected"
        return _condition("Enforced", ConditionStatus.FALSE, "NotSwitchedOn", message)
    if outcome.faults:
        return _condition("Enforced", ConditionStatus.FALSE, "TreeSetAside", _KEEPS)
    message = f"a tree is enforced as a whole, and these domains of it say Observe: {_names(outcome.observing)}"
    return _condition("Enforced", ConditionStatus.FALSE, "TreeObserved", message)


def _texts(problems: Iterable[DomainProblem]) -> str:
    texts = [each.message for each in problems]
    rest = f"; and {len(texts) - _MOST_NAMED} more" if len(texts) > _MOST_NAMED else ""
    return "; ".join(texts[:_MOST_NAMED]) + rest


def _names(names: Iterable[str]) -> str:
    return first_of(sorted(names), _MOST_NAMED)


def _watts(milliwatts: int) -> str:
    return f"{math.ceil(milliwatts / MW_PER_WATT)} W"


def _condition(kind: str, status: ConditionStatus, reason: str, message: str = "") -> Condition:
    return Condition(type=kind, status=status, reason=reason, message=printable(message, _MOST_CHARACTERS))
