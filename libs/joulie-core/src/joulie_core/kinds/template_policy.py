"""TemplatePolicy (`tmp`): configuration of the template policy."""

from typing import ClassVar

from joulie_core.kinds.base import Kind
from joulie_core.kinds.container_policy import ContainerPolicyResource, ContainerPolicySpec, policy_kind


class TemplatePolicySpec(ContainerPolicySpec):
    """Options of the template policy."""


class TemplatePolicy(ContainerPolicyResource):
    """Configuration of the template policy, which separates the containers of reserved namespaces from all others."""

    info: ClassVar[Kind] = policy_kind("TemplatePolicy", "tmp", TemplatePolicySpec)

    spec: TemplatePolicySpec
