"""Settings of the node agent, from environment variables."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from joulie_api.checked_texts import NodeNameText
from joulie_api.settings import Addr, ServiceSettings
from joulie_core.class_caps.allowed_slowdown import AllowedSlowdown


class PolicyStatusScope(StrEnum):
    """Nodes that appear in the status of a container policy."""

    ALL = "all"
    FAILURES = "failures"


class NodeAgentSettings(ServiceSettings):
    """Settings of `joulie-containers node-agent`."""

    metrics_addr: Addr = ":8085"
    """Address of /metrics, /healthz and /readyz; port 0 takes a free port, which the log names."""

    node_name: Annotated[NodeNameText, Field(min_length=1)]
    """The node this pod runs on; the pod template takes it from `spec.nodeName`."""

    resource_manager_socket: str = "/run/joulie/resources.sock"
    """Socket of the resource manager of this pod, whose configuration comes from custom resources."""

    node_agent_socket: str = "/run/joulie/node-agent.sock"
    """Socket on which the resource manager may change labels, annotations, taints and capacity of the node."""

    container_policy_status: PolicyStatusScope = PolicyStatusScope.ALL
    """Which nodes appear in the status of the configuration that applies to them: `all`, or those that do not use it
    (`failures`). Every node watches these objects, so that the traffic of a change of `all` grows with the square of
    the number of nodes: use `failures` from some hundreds of nodes on."""

    pod_consents: bool = False
    """Tell the resource manager how much longer each pod of the node may run, by its annotation
    `joulie.io/max-slowdown`, that of its Namespace or DEFAULT_MAX_SLOWDOWN, for limits of cores; see
    docs/class-limits.md. Off by default, since it takes the right to read all pods and Namespaces: only what pods say
    themselves counts then."""

    default_max_slowdown: AllowedSlowdown = AllowedSlowdown.NONE
    """Slowdown that standard pods allow where neither they nor their Namespace have the annotation
    `joulie.io/max-slowdown`. With 0 % their cores have no limit. Needs POD_CONSENTS."""

    default_slowdown_is_consent: bool = False
    """Take DEFAULT_MAX_SLOWDOWN for the consent of the owners of pods, so that their cores are limited without the
    annotation. Off by default: then it is shown only."""
