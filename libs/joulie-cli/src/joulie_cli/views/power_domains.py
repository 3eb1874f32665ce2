"""Power domains as they are shown. An object that cannot be read is shown by its name."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import msgspec

from joulie_api.decoding import decode
from joulie_api.errors import DecodeError
from joulie_api.wire.metadata import WireConditions, WireObject
from joulie_cli.views import Raw, decode_name
from joulie_core.tree_order import tree_order

_Count = Annotated[int, msgspec.Meta(ge=0)]
_Percent = Annotated[float, msgspec.Meta(ge=0, le=100)]
_Watts = Annotated[float, msgspec.Meta(ge=0, le=1e12)]


class _Spec(msgspec.Struct, rename="camel"):
    limit_watts: _Watts
    reserve_watts: _Watts = 0.0
    parent: str | None = None


class DrawnView(msgspec.Struct, rename="camel"):
    """Power that nodes draw, by how it is known."""

    measured_watts: _Watts | None = None
    measured_nodes: _Count = 0
    modelled_watts: _Watts | None = None
    modelled_nodes: _Count = 0
    unknown_nodes: _Count = 0

    @property
    def known_watts(self) -> float | None:
        """Sum of what is known; None where nothing is."""
        known = [each for each in (self.measured_watts, self.modelled_watts) if each is not None]
        return sum(known) if known else None


class RestView(msgspec.Struct, rename="camel"):
    """Power that servers may draw beyond their CPU packages and GPUs."""

    watts: _Watts
    measured_nodes: _Count = 0
    modelled_nodes: _Count = 0
    modelled_watts: _Watts = 0.0
    modelled_least_watts: _Watts = 0.0
    unknown_nodes: _Count = 0


class OversubscriptionView(msgspec.Struct, rename="camel"):
    """State of an oversubscribed domain."""

    raised: bool
    permitted_watts: _Watts
    fallback_watts: _Watts | None = None
    breaker_damage_percent: _Percent = 100.0
    #: Part of it that is assumed of a time that was not seen.
    assumed_damage_percent: _Percent = 0.0
    reason: str = ""

    @property
    def counted_damage_percent(self) -> float:
        """Part of the damage that was counted."""
        return max(self.breaker_damage_percent - self.assumed_damage_percent, 0.0)


class LoweredView(msgspec.Struct, rename="camel"):
    """A node whose share is below what it wants."""

    node: str
    wanted_watts: _Watts
    allocated_watts: _Watts
    reason: str = ""


class DomainStatusView(WireConditions, rename="camel"):
    """The status of a PowerDomain."""

    mode: str | None = None
    last_updated: str | None = None
    nodes: _Count | None = None
    unknown_nodes: _Count | None = None
    allocated_watts: _Watts | None = None
    in_force_watts: _Watts | None = None
    largest_in_force_watts: _Watts | None = None
    unconfirmed_nodes: _Count | None = None
    refused_nodes: _Count | None = None
    silent_nodes: _Count | None = None
    drawn: DrawnView | None = None
    rest: RestView | None = None
    guaranteed_watts: _Watts | None = None
    headroom_watts: _Watts | None = None
    shortfall_watts: _Watts | None = None
    oversubscription: OversubscriptionView | None = None
    limited_nodes: _Count | None = None
    lowered_nodes: _Count | None = None
    lowered: tuple[LoweredView, ...] = ()


class _Domain(WireObject):
    spec: _Spec
    status: DomainStatusView | None = None


_DOMAINS: Final = msgspec.json.Decoder(_Domain)


@dataclass(frozen=True, slots=True)
class DomainView:
    """A PowerDomain; the limit is None, and the status empty, where its object cannot be read."""

    name: str
    limit_watts: float | None
    reserve_watts: float = 0.0
    parent: str | None = None
    status: DomainStatusView = field(default_factory=DomainStatusView)

    def data(self) -> dict[str, Any]:
        """Return the domain for JSON and YAML."""
        return {
            "name": self.name,
            "parent": self.parent,
            "limitWatts": self.limit_watts,
            "reserveWatts": self.reserve_watts,
            "status": self.status,
        }


def decode_power_domain(raw: Raw) -> DomainView:
    """Decode a PowerDomain.

    Raises:
        DecodeError: not even its name can be read.
    """
    try:
        wire = decode(_DOMAINS.decode, raw, "PowerDomain")
    except DecodeError:
        return DomainView(decode_name(raw, "PowerDomain"), None)
    spec = wire.spec
    return DomainView(
        wire.metadata.name, spec.limit_watts, spec.reserve_watts, spec.parent, wire.status or DomainStatusView()
    )


class _BudgetSpec(msgspec.Struct, rename="camel"):
    sequence: _Count
    limit_watts: _Watts | None = None
    power_domain: str = ""


class _Sample(msgspec.Struct, rename="camel"):
    falling_back: bool = False


class _BudgetStatus(msgspec.Struct, rename="camel"):
    sequence: _Count | None = None
    in_force_watts: _Watts | None = None
    refused: bool = False
    oversubscription: _Sample | None = None


class _Budget(WireObject):
    spec: _BudgetSpec
    status: _BudgetStatus | None = None


_BUDGETS: Final = msgspec.json.Decoder(_Budget)


@dataclass(frozen=True, slots=True)
class BudgetView:
    """A NodePowerBudget: what is asked of a node, and what is in force of it; both None where there is no limit."""

    node: str
    domain: str
    asked_watts: float | None
    in_force_watts: float | None
    state: str

    def data(self) -> dict[str, Any]:
        """Return the limit for JSON and YAML."""
        return {
            "node": self.node,
            "powerDomain": self.domain,
            "askedWatts": self.asked_watts,
            "inForceWatts": self.in_force_watts,
            "state": self.state,
        }


def decode_power_budget(raw: Raw) -> BudgetView:
    """Decode a NodePowerBudget.

    Raises:
        DecodeError: not even its name can be read.
    """
    try:
        wire = decode(_BUDGETS.decode, raw, "NodePowerBudget")
    except DecodeError:
        return BudgetView(decode_name(raw, "NodePowerBudget"), "", None, None, "unreadable")
    spec, status = wire.spec, wire.status or _BudgetStatus()
    falls_back = status.oversubscription is not None and status.oversubscription.falling_back
    confirmed = "refused" if status.refused else "falling back" if falls_back else "confirmed"
    return BudgetView(
        wire.metadata.name,
        spec.power_domain,
        spec.limit_watts,
        status.in_force_watts,
        confirmed if status.sequence == spec.sequence else "unconfirmed",
    )


def names_below(name: str, domains: Iterable[DomainView]) -> set[str]:
    """Return the names of a domain and of all below it."""
    below: dict[str, list[str]] = defaultdict(list)
    for each in domains:
        below[each.parent or ""].append(each.name)
    found: set[str] = set()
    waiting = [name]
    while waiting:
        each_name = waiting.pop()
        if each_name not in found:
            found.add(each_name)
            waiting += below[each_name]
    return found


def in_tree_order(domains: Iterable[DomainView]) -> list[tuple[int, DomainView]]:
    """Return the domains with their depth, in the order of `joulie_core.tree_order`."""
    named = {each.name: each for each in domains}
    return [(depth, named[name]) for name, depth in tree_order({each.name: each.parent for each in named.values()})]
