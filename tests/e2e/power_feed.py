"""Forty simulated nodes of one model in four racks, two rows and one feed, for tests of power domains."""

from collections.abc import Mapping
from typing import Any, Final

from tests.e2e.power_observer import PowerObserver
from tests.e2e.power_row import has_condition
from tests.e2e.system import System
from tests.e2e.waiting import eventually

from joulie_api.resources import POWER_DOMAINS
from joulie_core.labels import HW_GPU_COUNT, RACK
from joulie_devcluster.control_plane.nodes import CpuClass, NodeClass
from joulie_sim.annotations import CPU_UTILIZATION

#: Two packages of 360 W; hardware threads of a node.
NODE_W: Final = 720
_CPUS: Final = 384
NODES: Final = (
    NodeClass(name="n", count=40, cpu=CpuClass(model="AMD-EPYC-9654", sockets=2, cores=192), memory="768Gi"),
)
NAMES: Final = tuple(f"n-{number}" for number in range(40))
RACKS: Final = {f"rack-{number}": NAMES[10 * number : 10 * number + 10] for number in range(4)}
ROWS: Final = {"row-0": ("rack-0", "rack-1"), "row-1": ("rack-2", "rack-3")}
FEED: Final = "feed"
PARENTS: Final = {**dict.fromkeys(ROWS, FEED), **{rack: row for row, racks in ROWS.items() for rack in racks}}
#: Nodes below each domain.
GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    **RACKS,
    **{row: tuple(name for rack in racks for name in RACKS[rack]) for row, racks in ROWS.items()},
    FEED: NAMES,
}
MOST_W: Final = {domain: NODE_W * len(names) for domain, names in GROUPS.items()}


async def fill(system: System, performance: int) -> None:
    """Run one pod on each node that keeps its CPUs busy; those of the first nodes are performance pods."""
    busy = {CPU_UTILIZATION: "1"}
    for number, name in enumerate(NAMES):
        await system.view.create_pods(
            1,
            f"job-{number}",
            cpu=_CPUS,
            workload_class="performance" if number < performance else "standard",
            node_selector={"kubernetes.io/hostname": name},
            annotations=busy,
        )


async def put_tree(system: System, limits: Mapping[str, int]) -> None:
    """Label the nodes and create the domains, enforced; one without a limit has the highest power of its nodes."""
    for rack, names in RACKS.items():
        for node in names:
            # That there are no GPUs has to be stated where no agent reads it.
            await system.view.label(node, {RACK: rack, HW_GPU_COUNT: "0"})
    for name in (FEED, *ROWS, *RACKS):
        spec: dict[str, Any] = {
            "mode": "Enforce",
            "onLostControl": "KeepGuaranteed",
            "limitWatts": limits.get(name, MOST_W[name]),
        }
        if name in PARENTS:
            spec["parent"] = PARENTS[name]
        if name in RACKS:
            spec["nodeSelector"] = {RACK: name}
        body = {"apiVersion": POWER_DOMAINS.api_version, "kind": "PowerDomain", "metadata": {"name": name}}
        await system.view.client.create(POWER_DOMAINS, {**body, "spec": spec})


async def limit(system: System, name: str, watts: int) -> None:
    """Write the limit of a domain."""
    await system.view.client.merge_patch(POWER_DOMAINS, name, {"spec": {"limitWatts": watts}})


async def is_enforced(system: System, within_s: float) -> None:
    """Wait until the operator limits the tree, and knows that its sums are within the limits."""

    async def enforced() -> None:
        for name in (FEED, *ROWS, *RACKS):
            await has_condition(system, name, "Enforced", "True")
            await has_condition(system, name, "Held", "True")

    await eventually(enforced, within_s=within_s)


async def draws(observer: PowerObserver, domain: str, watts: float) -> None:
    """The nodes of a domain draw at least so much."""
    assert observer.last.drawn_w[domain] >= watts, observer.last.drawn_w[domain]
