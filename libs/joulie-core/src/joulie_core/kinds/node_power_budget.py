"""NodePowerBudget (`npb`): the power that one node may draw by the domains above it, and what its agent has in force.

The operator writes the spec, the agent the status. Facts of the ledger: `joulie_core.budget.ledger`.
"""

from typing import Annotated, ClassVar, Final

from pydantic import Field

from joulie_core.kinds.base import (
    Column,
    Conditions,
    Count,
    CustomResource,
    Kind,
    Model,
    NodeNameField,
    Watts,
)
from joulie_core.kinds.node_bmc import MOST_OF_BOOT_ID
from joulie_core.kinds.power_domain import DomainLostControl

_MOST_OF_UID: Final = 128

Uid = Annotated[str, Field(max_length=_MOST_OF_UID)]
BootId = Annotated[str, Field(max_length=MOST_OF_BOOT_ID)]


class OversubscribedLimit(Model):
    """A limit that counts only while the node is measured: docs/decisions/0066-oversubscription.md."""

    fallback_watts: Watts
    """Power that the CPU packages and GPUs may draw together where no fresh sample is named; not above `limitWatts`."""
    sample_seconds: Annotated[int, Field(ge=1, le=3_600)]
    """Seconds between two samples of what the node draws."""
    hold_seconds: Annotated[int, Field(ge=1, le=3_600)]
    """Seconds for which `limitWatts` may be in force after the sample was taken that `sample` names."""
    sample: Count | None = None
    """`status.oversubscription.sample` by which the operator has decided; absent: `fallbackWatts` counts."""


class NodePowerBudgetSpec(Model):
    """The limit that is asked of one node. Watts are whole milliwatts."""

    node_name: NodeNameField
    node_uid: Annotated[Uid, Field(alias="nodeUID")] = ""
    """`metadata.uid` of the Node that the limit is asked of."""
    boot_id: Annotated[BootId, Field(alias="bootID")] = ""
    """`status.nodeInfo.bootID` of that Node: hardware that started again holds no limit."""
    term: Count
    """Term of the operator's leader; it grows with each change of leader."""
    sequence: Annotated[int, Field(ge=1)]
    """Grows with each limit that is asked of the node; an agent applies no lower one."""
    limit_watts: Watts | None = None
    """Power that the CPU packages and GPUs of the node may draw together; absent: no limit."""
    ceiling_watts: Watts | None = None
    """Highest limit that may be in force until this one is confirmed; absent: there may be none."""
    oversubscription: OversubscribedLimit | None = None
    """Absent: `limitWatts` counts, measured or not."""
    on_lost_control: DomainLostControl
    """Behaviour of the agent when the lease ends: `KeepGuaranteed` keeps the limit, `Release` removes it."""
    lease_seconds: Annotated[int, Field(ge=1, le=86_400)]
    """Seconds for which the limit is refreshed by one renewal."""
    renewal: Count = 0
    """Grows with each renewal of the lease, and with each limit; the agent repeats it in the status."""
    power_domain: Annotated[str, Field(max_length=253)] = ""
    """Name of the PowerDomain that selects the node, for readers."""


class DrawnSample(Model):
    """Power that the node draws, and the limit that its agent holds; only for a limit with `oversubscription`."""

    sample: Count
    """Number of the sample; it grows with each one, and begins at a random number with each start of the agent."""
    drawn_watts: Watts | None = None
    """Mean power of all CPU packages and GPUs since the sample before; absent: not all of them were read."""
    falling_back: bool = False
    """Whether `fallbackWatts` is in force, as no fresh sample is named. `inForceWatts` is then still that of
    `limitWatts`, which comes back with the next sample that is named."""


class NodePowerBudgetStatus(Model):
    """The limit in force, as the agent of the node has read it back."""

    node_uid: Annotated[Uid, Field(alias="nodeUID")] = ""
    """`nodeUID` of the limit that was applied."""
    boot_id: Annotated[BootId, Field(alias="bootID")] = ""
    """`bootID` of the limit that was applied."""
    sequence: Count | None = None
    """`sequence` of the limit that was applied last; absent: none was."""
    renewal: Count | None = None
    """`renewal` that the agent has seen last."""
    in_force_watts: Watts | None = None
    """Sum of the limits of CPU packages and GPUs as they were read back; absent: not every device has one, or not every
    one was read."""
    refused: bool = False
    """Whether the limit could not be put in force."""
    cpu_watts: Watts | None = None
    """Limit of each CPU package, by this budget."""
    gpu_watts: Watts | None = None
    """Limit of each GPU, by this budget."""
    oversubscription: DrawnSample | None = None
    conditions: Conditions = ()
    """Conditions: InForce (the limit is in force as asked; else why not)."""


class NodePowerBudget(CustomResource):
    """The power that one node may draw by the power domains above it, written by the operator."""

    info: ClassVar[Kind] = Kind(
        kind="NodePowerBudget",
        plural="nodepowerbudgets",
        short_name="npb",
        spec=NodePowerBudgetSpec,
        status=NodePowerBudgetStatus,
        columns=(
            Column("Node", ".spec.nodeName"),
            Column("Limit", ".spec.limitWatts", "number"),
            Column("In-Force", ".status.inForceWatts", "number"),
            Column("Refused", ".status.refused", "boolean"),
            Column("Sequence", ".spec.sequence", "integer"),
            Column("Applied", ".status.sequence", "integer"),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
    )

    spec: NodePowerBudgetSpec
    status: NodePowerBudgetStatus = NodePowerBudgetStatus()
