"""Tiles of the page, one a node, as the watches know it. Pure functions; the same on the leader and on a standby."""

from dataclasses import dataclass
from typing import Final

import msgspec

from joulie_core import labels
from joulie_core.kinds.base import ConditionStatus
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_core.node import Node
from joulie_core.sleep_state import SleepState
from joulie_core.timestamps import epoch_seconds
from joulie_operator.cluster import Eligibility, PodLoad
from joulie_operator.conditions import ConditionType
from joulie_operator.published import PublishedTarget, PublishedTwin

_CLASSES: Final = frozenset(SchedulableClass)
_ASLEEP: Final = SleepState.ASLEEP.label


class NodeTile(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One node; sent as an array, in the order of the fields."""

    name: str
    #: Empty without the label.
    rack: str
    #: The schedulable class of the node's twin.
    node_class: str
    #: Value of the label of a node that sleeps, goes to sleep or is waking; empty of one that is awake.
    sleep_state: str
    #: None where unknown, and of a node that is asleep: its twin has what it would draw if it were on.
    watts: int | None
    measured: bool
    #: Where `watts` come from; empty where unknown.
    source: str
    #: Of the whole server, by its BMC; None where unknown. It does not compare with `capped_watts`.
    server_watts: int | None
    server_source: str
    #: What the caps allow, in watts; None where unknown.
    capped_watts: int | None
    performance_pods: int
    pods: int
    #: When the twin was written, seconds since the epoch; None without a twin.
    updated: int | None
    #: Why the node has its profile; empty where that is unknown.
    reason: str
    #: Why its caps are not enforced; empty where they are, or where that is unknown.
    problem: str


@dataclass(frozen=True, slots=True)
class TileInputs:
    """Everything that a tile is made of."""

    node: Node
    eligibility: Eligibility
    load: PodLoad
    target: PublishedTarget | None
    twin: PublishedTwin | None


def tile_of(view: TileInputs) -> NodeTile:
    """Return the tile of a node."""
    twin, load = view.twin, view.load
    updated = epoch_seconds(twin.last_updated) if twin is not None else None
    known = twin is not None and twin.schedulable_class in _CLASSES
    sleep_state = view.node.labels.get(labels.SLEEP_STATE, "")
    drawn = None if sleep_state == _ASLEEP else twin
    return NodeTile(
        name=view.node.name,
        rack=view.node.labels.get(labels.RACK, ""),
        node_class=twin.schedulable_class if twin is not None and known else SchedulableClass.UNKNOWN,
        sleep_state=sleep_state,
        watts=_whole(drawn.watts) if drawn is not None else None,
        measured=drawn is not None and drawn.measured_watts is not None,
        source=drawn.source if drawn is not None else "",
        server_watts=_whole(twin.server_watts) if twin is not None else None,
        server_source=twin.server_source if twin is not None else "",
        capped_watts=_whole(twin.capped_watts) if twin is not None else None,
        performance_pods=load.performance_pods,
        pods=load.pods,
        updated=None if updated is None else int(updated),
        reason=_not_planned(view.eligibility, sleep_state) or policy_reason(view.target),
        problem=_problem(view.target),
    )


def _not_planned(eligibility: Eligibility, sleep_state: str) -> str:
    if eligibility is Eligibility.UNMANAGED:
        return "not managed: reserved, or being deleted"
    if eligibility is not Eligibility.CORDONED:
        return ""
    return f"{sleep_state}: not planned while it is not awake" if sleep_state else "cordoned: not planned"


def policy_reason(target: PublishedTarget | None) -> str:
    """Return which policy chose the profile, and why; empty where the target does not tell."""
    policy = target.spec.policy if target is not None and target.spec is not None else None
    return f"{policy.name}: {policy.reason}" if policy is not None else ""


def _problem(target: PublishedTarget | None) -> str:
    for each in target.conditions if target is not None else ():
        if each.type == ConditionType.ENFORCED and each.status == ConditionStatus.FALSE:
            return f"{each.reason}: {each.message}"
    return ""


def _whole(watts: float | None) -> int | None:
    return None if watts is None else round(watts)
