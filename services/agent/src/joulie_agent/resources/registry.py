"""The container policies by name. A policy's modules are imported when it is selected, which saves memory."""

from joulie_agent.resources.configuration import PolicyDefinition
from joulie_agent.resources.settings import PolicyName


def policy_definition(name: PolicyName) -> PolicyDefinition:
    """Return how a policy is configured and built."""
    match name:
        case PolicyName.TEMPLATE:
            from joulie_core.containers.template import TemplateContainerPolicy  # noqa: PLC0415 - see the module's text
            from joulie_core.kinds.template_policy import TemplatePolicy  # noqa: PLC0415

            return PolicyDefinition(
                kind=TemplatePolicy,
                build=lambda spec, host: TemplateContainerPolicy(spec, host.topology),
                default_spec={},
            )
        case PolicyName.BALLOONS | PolicyName.TOPOLOGY_AWARE:
            raise NotImplementedError(name)
