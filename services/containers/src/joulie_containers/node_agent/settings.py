"""Settings of the node agent, from environment variables."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from joulie_api.checked_texts import NodeNameText
from joulie_api.settings import Addr, ServiceSettings


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
