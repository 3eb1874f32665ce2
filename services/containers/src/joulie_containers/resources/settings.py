"""Settings of the resource manager, from options or environment variables."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from joulie_api.settings import Addr, Duration, ProcessSettings


class PolicyName(StrEnum):
    """A container policy."""

    BALLOONS = "balloons"
    TOPOLOGY_AWARE = "topology-aware"
    TEMPLATE = "template"


class OnDeadline(StrEnum):
    """Reply to the creation of a container that cannot be placed in time."""

    ADMIT = "admit"
    REJECT = "reject"


class CoreLimitMode(StrEnum):
    """Mode of the limits of cores by class."""

    SHADOW = "Shadow"
    ENFORCE = "Enforce"


class ResourcesSettings(ProcessSettings):
    """Settings of `joulie-containers manager`."""

    metrics_addr: Addr = ":8082"
    """Address of /metrics, /healthz, /readyz and /debug/placements; port 0 takes a free port, which the log names."""

    node_name: str = ""
    """The node that this process runs on, for `nodes` of adjustments; the pod template takes it from
    `spec.nodeName`."""

    policy: PolicyName = PolicyName.TOPOLOGY_AWARE
    """The container policy. A configuration of another kind is refused."""

    config_file: str = ""
    """File with the configuration of the policy: a BalloonsPolicy, TopologyAwarePolicy or TemplatePolicy as YAML or
    JSON, of this or of the apiVersion config.nri/v1alpha1. It is watched and may be replaced by rename. It takes
    precedence over configurations of the cluster; unset, these apply, then the last one that was in force, then the
    defaults of the policy."""

    nri_socket: str = "/var/run/nri/nri.sock"
    """Socket of the container runtime. A runtime that starts this program as a pre-installed plugin passes a connected
    socket instead (NRI_PLUGIN_SOCKET)."""

    plugin_name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.+-]+$")] = "joulie"
    """Name of the plugin at the runtime."""

    plugin_index: Annotated[str, Field(pattern=r"^[0-9]{2}$")] = "90"
    """Two digits: the order in which the runtime calls its plugins."""

    host_root: str = "/"
    """Directory below which the host's /sys and /proc are found."""

    state_dir: str = "/var/lib/joulie-resources"
    """Directory of the cache: pods, containers, grants and the last configuration in force."""

    export_host_dir: Annotated[str, Field(pattern=r"^(/.*)?$")] = ""
    """STATE_DIR as the container runtime sees it. Where it is set, each new container that the policy places has a file
    with its CPUs and memory nodes, /.nri-resource-policy/resources.sh; unset, containers get no such mount."""

    actuator_socket: str = ""
    """Socket of the actuator, which applies CPU classes; unset, they are not applied."""

    class_limits: CoreLimitMode = CoreLimitMode.SHADOW
    """Limits of cores by the class of the containers that have them alone: `Shadow` shows them and sets nothing;
    `Enforce` also sets them, through the actuator, where the owners of the pods consent."""

    api_socket: str = ""
    """Socket on which configurations and adjustments are taken from the node agent; unset, there is none."""

    api_socket_gid: Annotated[int, Field(ge=0)] | None = None
    """Group of that socket, whose members may connect besides its owner; unset leaves it."""

    node_agent_socket: str = ""
    """Socket of the node agent for labels, annotations, taints and capacity of the node, and for Events; unset, there
    is none."""

    on_deadline: OnDeadline = OnDeadline.ADMIT
    """What is replied to the creation of a container that cannot be placed in time, as while the whole node is placed
    anew: `admit` lets it start and places it by an update as soon as possible, `reject` fails the creation, which the
    kubelet repeats."""

    config_poll_interval: Annotated[Duration, Field(gt=0)] = 1.0
    """How often CONFIG_FILE is checked for a change."""

    usage_interval: Annotated[Duration, Field(ge=0)] = 15.0
    """How often the CPU usage of containers is read from their cgroups, for metrics; 0 turns it off."""

    rebalance_interval: Annotated[Duration, Field(ge=0)] = 0.0
    """How often the policy may distribute containers anew by their measured usage; 0 turns it off, since moving a
    running container costs it its caches."""

    cpu_class_lease: Annotated[Duration, Field(ge=3, le=3600)] = 60.0
    """How long the actuator keeps CPU classes, and interrupts where they were moved to, without this process. They are
    renewed three times in that time."""

    @model_validator(mode="after")
    def _needs_an_actuator(self) -> Self:
        if self.class_limits is CoreLimitMode.ENFORCE and not self.actuator_socket:
            raise ValueError("CLASS_LIMITS is Enforce and ACTUATOR_SOCKET is not set: nothing could be limited")
        return self
