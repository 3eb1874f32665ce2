"""Values of one node for the decision, from what the operator knows.

Guarantees that nothing unknown becomes a number: a node that is not managed, or whose hardware was neither read nor
stated by labels, has no highest power; one whose control is not reported, or that is reserved, counts as one that
cannot be lowered.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from joulie_api.wire import Versioned
from joulie_core.budget import UNKNOWN_REST, BudgetNode, ServerRest
from joulie_core.budget.objects import node_identity
from joulie_core.caps import CapIntent
from joulie_core.hardware.view import HardwareView
from joulie_core.kinds import NodeHardware
from joulie_core.kinds.node_bmc import MOST_OF_BOOT_ID
from joulie_core.kinds.node_hardware import Exactness, NodeHardwareStatus, Origin
from joulie_core.kinds.node_twin import MeasurementQuality, NodeTwinStatus, PowerMeasurement, ServerMeasurement
from joulie_core.names import NodeName
from joulie_core.node import Node
from joulie_core.twin import budget_of
from joulie_core.units import MW_PER_WATT, milliwatts_up
from joulie_operator.cluster import Cluster, Eligibility, ManagedHardware, PodLoad
from joulie_operator.power import PowerInputs, model
from joulie_operator.power_domains.rest import RestTracker

#: Facts that count: read from the hardware, or stated by who runs the cluster.
_CERTAIN: Final = {Origin.SEEN, Origin.LABELLED}


class LatestTwins(Protocol):
    """Source of the latest twins; see `joulie_operator.twins.TwinTracker`."""

    def latest(self, name: NodeName) -> NodeTwinStatus | None:
        """Return the twin of a node as last built; None before the first."""


@dataclass(frozen=True, slots=True)
class DrawnReading:
    """Power of a node in watts; None: not known."""

    watts: float | None
    measured: bool = False


@dataclass(frozen=True, slots=True)
class DomainNode:
    """A node as the decision takes it, and what it draws."""

    budget: BudgetNode
    #: By its CPU packages and GPUs, and by the whole server.
    drawn: DrawnReading = DrawnReading(None)
    server_drawn: DrawnReading = DrawnReading(None)
    #: What the server draws beyond them at most.
    rest: ServerRest = UNKNOWN_REST
    #: It runs performance pods.
    performance: bool = False

    def drawn_by(self, *, servers: bool) -> DrawnReading:
        """Return what it draws: the whole server, or its CPU packages and GPUs."""
        return self.server_drawn if servers else self.drawn


@dataclass(frozen=True, slots=True)
class DomainSight:
    """Everything that is known of nodes."""

    cluster: Cluster
    twins: LatestTwins
    hardware: Mapping[str, Versioned[NodeHardware]]
    #: Reading of the BMC of a node that still counts; None without one.
    server_power: Callable[[NodeName], ServerMeasurement | None]
    rests: RestTracker

    def retain(self, names: Iterable[NodeName]) -> None:
        """Forget what was measured of all other nodes."""
        self.rests.retain(names)

    def node(self, node: Node) -> DomainNode:
        """Return one node of the cluster."""
        found = self.cluster.hardware(node.name)
        if found is None:
            return unknown_node(node)
        reported = self.hardware.get(node.name)
        status = reported.model.status if reported is not None else None
        twin = self.twins.latest(node.name)
        power = twin.power_measurement if twin is not None else None
        drawn, server = _drawn(power), self.server_power(node.name)
        rest = self.rests.rest(node.name, found.view, power, server)
        lowest = None
        if self.cluster.eligibility(node.name) is not Eligibility.UNMANAGED:
            lowest = _lowest_watts(found, status)
        return DomainNode(
            BudgetNode(
                name=node.name,
                identity=identity_of(node),
                max_mw=_milliwatts(_highest_watts(found.view)),
                min_mw=_milliwatts(lowest),
                demand_mw=_milliwatts(_demand_watts(found, self.cluster.load(node.name), drawn)),
            ),
            drawn,
            server_drawn=_server_drawn(drawn, server, rest),
            rest=rest,
            performance=self.cluster.load(node.name).performance_pods > 0,
        )


def unknown_node(node: Node) -> DomainNode:
    """Return a node of which nothing is known."""
    return DomainNode(BudgetNode(node.name, identity_of(node), max_mw=None, min_mw=None))


def boot_of(node: Node) -> str:
    """Return the boot ID of a node; empty: not known, as one that is too long."""
    return node.boot_id if len(node.boot_id) <= MOST_OF_BOOT_ID else ""


def identity_of(node: Node) -> str:
    """Return the identity that a limit is asked of."""
    return node_identity(node.uid, boot_of(node))


def _milliwatts(watts: float | None) -> int | None:
    return None if watts is None else milliwatts_up(watts)


def _highest_watts(view: HardwareView) -> float | None:
    """Return the highest power; None where the model or a count is inferred, or nothing is known of GPUs."""
    known = {view.origins.cpu, view.origins.gpu} <= _CERTAIN
    return view.tdp_watts if known and view.exactness is Exactness.EXACT else None


def _lowest_watts(hardware: ManagedHardware, status: NodeHardwareStatus | None) -> float | None:
    """Return the lowest limit of the node; what cannot be controlled counts with its highest power."""
    view = hardware.view
    if status is None or view.cpu is None:
        return None
    can = status.capabilities
    if can is None:
        return None
    cpu_watts = view.cpu.min_watts_per_socket * view.cpu.sockets if can.cpu_control else view.cpu_max_watts
    if view.gpu is None:
        return cpu_watts
    return cpu_watts + (view.gpu.min_watts * view.gpu.count if can.gpu_control else view.gpu_max_watts)


def _drawn(power: PowerMeasurement | None) -> DrawnReading:
    if power is None or power.quality is MeasurementQuality.UNKNOWN:
        return DrawnReading(None)
    return DrawnReading(power.measured_node_power_w, measured=power.quality is MeasurementQuality.MEASURED)


def _server_drawn(drawn: DrawnReading, server: ServerMeasurement | None, rest: ServerRest) -> DrawnReading:
    """Return what the whole server draws: the BMC's reading, else that of the devices with the middle of the rest."""
    if server is not None:
        return DrawnReading(server.measured_server_power_w, measured=True)
    if drawn.watts is None or rest.mw is None:
        return DrawnReading(None)
    rest_mw = rest.mw if rest.measured else (rest.mw + rest.least_mw) / 2.0
    return DrawnReading(drawn.watts + rest_mw / MW_PER_WATT)


def _demand_watts(hardware: ManagedHardware, load: PodLoad, drawn: DrawnReading) -> float | None:
    """Return what the node would draw without a limit: not less than it draws, nor than its pods request."""
    uncapped = budget_of(hardware.view, CapIntent())
    modelled = model(PowerInputs(hardware.view, uncapped, load, hardware.max_watts, hardware.gpu_units))
    return None if modelled is None else max(modelled, drawn.watts or 0.0)
