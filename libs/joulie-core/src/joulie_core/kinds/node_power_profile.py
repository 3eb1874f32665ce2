"""NodePowerProfile (`npp`): the power target of one node."""

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
    """CPU power cap; absent: the CPUs are unmanaged. Watts take precedence over the percentage."""

    package_power_cap_watts: PositiveWatts | None = None
    """Cap in watts per CPU package."""
    package_power_cap_pct_of_max: Pct | None = None
    """Cap in percent of the package's maximum power."""


class CapScope(StrEnum):
    """Unit that a GPU cap applies to: each GPU."""

    PER_GPU = "perGpu"


class GpuPowerCap(Model):
    """GPU power cap. Watts take precedence over the percentage."""

    scope: CapScope = CapScope.PER_GPU
    cap_watts_per_gpu: PositiveWatts | None = None
    """Cap in watts per GPU."""
    cap_pct_of_max: Pct | None = None
    """Cap in percent of each GPU's maximum power limit."""


class GpuTarget(Model):
    """GPU target; absent: the GPUs are unmanaged."""

    power_cap: GpuPowerCap | None = None


class OnLostControl(StrEnum):
    """Behaviour of the agent when it cannot refresh this target."""

    RESTORE = "restore"
    HOLD = "hold"
    FLOOR = "floor"


class PolicyNote(Model):
    """The policy that assigned the profile."""

    name: Annotated[str, Field(max_length=253)] = ""
    """Name of the policy."""
    reason: Text = ""
    """Why the node has this profile."""
    on_lost_control: OnLostControl | None = None
    """Behaviour of the agent when it cannot refresh this target for SPEC_READ_TIMEOUT: `restore` the original limits,
    `hold` the last caps, or set the lowest caps (`floor`); absent: `restore`."""


class ClassLimitTarget(Model):
    """Limits of GPUs by the class of the pods that hold them; absent: agents set them by their own settings."""

    lifted: bool = False
    """Whether the agent lifts all of them and sets none, for as long as this is here."""
    reason: Annotated[str, Field(max_length=64)] = ""
    """Reason, in CamelCase: `GpusInDemand`."""


class NodePowerProfileSpec(Model):
    """Desired power state of one node."""

    node_name: NodeNameField
    profile: Profile
    """Profile of the node."""
    draining: bool = False
    """Whether the node is planned eco but still runs performance pods; its caps stay at the performance level."""
    cpu: CpuTarget | None = None
    gpu: GpuTarget | None = None
    policy: PolicyNote | None = None
    class_limits: ClassLimitTarget | None = None


class NodePowerProfileStatus(Model):
    """Observed state of the target."""

    conditions: Conditions = ()
    """Conditions: whether the node is planned, draining, and enforced as its agent reports."""


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
