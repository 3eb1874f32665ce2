"""NodePowerProfile (`npp`): the operator's target for one node. Source: contracts, section 1."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from joulie_core.kinds.base import (
    Column,
    Conditions,
    CustomResource,
    Kind,
    Model,
    NodeNameField,
    Pct,
    PositiveWatts,
    Profile,
    Text,
)


class CpuTarget(Model):
    """CPU power intent; an absent stanza means "leave alone", and watts win over the percentage."""

    package_power_cap_watts: PositiveWatts | None = None
    """Watts per CPU package, the unit of RAPL."""
    package_power_cap_pct_of_max: Pct | None = None
    """Percent of the package's maximum, (0, 100]."""


class CapScope(StrEnum):
    """What a GPU cap applies to."""

    PER_GPU = "perGpu"


class GpuPowerCap(Model):
    """GPU power intent; watts win over the percentage."""

    scope: CapScope = CapScope.PER_GPU
    cap_watts_per_gpu: PositiveWatts | None = None
    cap_pct_of_max: Pct | None = None
    """Percent of each device's maximum, (0, 100]."""


class GpuTarget(Model):
    """GPU target; an absent stanza means "leave alone"."""

    power_cap: GpuPowerCap | None = None


class OnLostControl(StrEnum):
    """What the agent does when it cannot refresh this target for too long."""

    RESTORE = "restore"
    HOLD = "hold"
    FLOOR = "floor"


class PolicyNote(Model):
    """Which policy chose the profile, and why."""

    name: Annotated[str, Field(max_length=253)] = ""
    reason: Text = ""
    on_lost_control: OnLostControl | None = None
    """What the agent does when it cannot refresh this target for its SPEC_READ_TIMEOUT: `restore` gives the hardware
    back as it was found, `hold` keeps the last caps, `floor` goes to the lowest cap; absent is `restore`."""


class NodePowerProfileSpec(Model):
    """Desired power state of one node."""

    node_name: NodeNameField
    profile: Profile
    draining: bool = False
    """True while the node is planned eco but still runs performance pods; its caps stay at the performance level."""
    cpu: CpuTarget | None = None
    gpu: GpuTarget | None = None
    policy: PolicyNote | None = None


class NodePowerProfileStatus(Model):
    """What is known about the target."""

    conditions: Conditions = ()


class NodePowerProfile(CustomResource):
    """Desired power target of one node, written by the operator."""

    info: ClassVar[Kind] = Kind(
        kind="NodePowerProfile",
        plural="nodepowerprofiles",
        short_name="npp",
        spec=NodePowerProfileSpec,
        status=NodePowerProfileStatus,
        columns=(
            Column("Node", ".spec.nodeName"),
            Column("Profile", ".spec.profile"),
            Column("Draining", ".spec.draining", "boolean"),
            Column("CPU-Watts", ".spec.cpu.packagePowerCapWatts", "number"),
            Column("CPU-Pct", ".spec.cpu.packagePowerCapPctOfMax", "number"),
            Column("GPU-Watts", ".spec.gpu.powerCap.capWattsPerGpu", "number"),
            Column("GPU-Pct", ".spec.gpu.powerCap.capPctOfMax", "number"),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
    )

    spec: NodePowerProfileSpec
    status: NodePowerProfileStatus = NodePowerProfileStatus()
