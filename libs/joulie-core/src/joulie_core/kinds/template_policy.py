"""TemplatePolicy: configuration of the template policy."""

from typing import Annotated

from pydantic import Field

from joulie_core.kinds.base import Model

Glob = Annotated[str, Field(min_length=1, max_length=253)]


class CpuOption(Model):
    """CPUs of a node."""

    cpu: Annotated[str, Field(max_length=4096, coerce_numbers_to_str=True)] | None = None
    """`cpuset:LIST`, `exclude-cpuset:LIST` or, for reserved CPUs, a quantity such as `750m`."""


class TemplatePolicySpec(Model):
    """Options of the template policy."""

    available_resources: CpuOption = CpuOption()
    """CPUs that containers may use; all that are online by default."""
    reserved_resources: CpuOption = CpuOption()
    """CPUs of those for the containers of reserved namespaces."""
    reserved_pool_namespaces: Annotated[tuple[Glob, ...], Field(max_length=64)] = ()
    """Namespaces, as globs, whose containers run on the reserved CPUs; `kube-system` always does."""
