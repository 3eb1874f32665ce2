"""The container policies by name. A policy's modules are imported when it is selected, which saves memory."""

from typing import TYPE_CHECKING, Any

from joulie_containers.resources.configuration import PolicyDefinition, PolicyHost
from joulie_containers.resources.settings import PolicyName
from joulie_core.containers.policy import ContainerPolicy

if TYPE_CHECKING:
    from joulie_core.kinds.balloons_policy import BalloonsPolicySpec

#: CPUs for kube-system and reservedPoolNamespaces without a configuration.
_RESERVED = {"reservedResources": {"cpu": "1"}}


def policy_definition(name: PolicyName) -> PolicyDefinition:
    """Return how a policy is configured and built."""
    match name:
        case PolicyName.BALLOONS:
            from joulie_core.kinds.balloons_policy import BalloonsPolicy  # noqa: PLC0415 - see the module's text

            return PolicyDefinition(kind=BalloonsPolicy, build=_balloons, default_spec=_RESERVED)
        case PolicyName.TOPOLOGY_AWARE:
            from joulie_core.containers.topology_aware.policy import TopologyAwareContainerPolicy  # noqa: PLC0415
            from joulie_core.kinds.topology_aware_policy import TopologyAwarePolicy  # noqa: PLC0415

            return PolicyDefinition(
                kind=TopologyAwarePolicy,
                build=lambda spec, host: TopologyAwareContainerPolicy(spec, host.topology),
                default_spec=_RESERVED,
            )
        case PolicyName.TEMPLATE:
            from joulie_core.containers.template import TemplateContainerPolicy  # noqa: PLC0415
            from joulie_core.kinds.template_policy import TemplatePolicy  # noqa: PLC0415

            return PolicyDefinition(
                kind=TemplatePolicy,
                build=lambda spec, host: TemplateContainerPolicy(spec, host.topology),
                default_spec={},
            )


def _balloons(spec: "BalloonsPolicySpec", host: PolicyHost) -> ContainerPolicy[Any]:
    from joulie_core.containers.balloons.policy import BalloonsContainerPolicy  # noqa: PLC0415

    paths = {path for each in spec.balloon_types for path in each.prefer_close_to_devices}
    close = {path: host.close_cpus(path) for path in sorted(paths)}
    return BalloonsContainerPolicy(
        spec, host.topology, {path: cpus for path, cpus in close.items() if cpus is not None}
    )
