"""Adjustment (`adj`): a change of the resources of running containers, without a restart."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, ClassVar, Final, Self

from pydantic import AfterValidator, Field, model_validator

from joulie_core.kinds.base import CheckedModel, Column, Count, CustomResource, Invariant, Kind, Model, Timestamp
from joulie_core.kinds.container_policy import Amount, Globs
from joulie_core.kinds.match_expression import ExpressionSpec
from joulie_core.quantity import parse_quantity

#: Key of an error that concerns the whole object.
WHOLE_OBJECT: Final = "spec"
#: Errors that one node reports about one object.
MOST_ERRORS: Final = 64


def _quantity(text: str) -> str:
    if parse_quantity(text) < 0:
        raise ValueError("an amount is at least 0")
    return text


AdjustedAmount = Annotated[Amount, AfterValidator(_quantity)]
AdjustedClass = Annotated[str, Field(min_length=1, max_length=128)]


class AdjustmentScope(Model):
    """Containers on nodes."""

    nodes: Globs = ()
    """Names of nodes, as globs; absent: all nodes."""
    containers: Annotated[tuple[ExpressionSpec, ...], Field(max_length=32)] = ()
    """Conditions of which a container meets at least one; absent: all containers."""


class AdjustedAmounts(Model):
    """Amounts of CPU and memory; what is absent stays as it is."""

    cpu: AdjustedAmount | None = None
    """CPUs, such as `500m` or `2`."""
    memory: AdjustedAmount | None = None
    """Bytes, such as `512Mi`."""


class AdjustedResources(Model):
    """Requests and limits."""

    requests: AdjustedAmounts = AdjustedAmounts()
    """Requests; for a resource with a limit and without a request here, the limit."""
    limits: AdjustedAmounts = AdjustedAmounts()
    """Limits."""

    @model_validator(mode="after")
    def _check_relations(self) -> Self:
        pairs = {
            "cpu": (self.requests.cpu, self.limits.cpu),
            "memory": (self.requests.memory, self.limits.memory),
        }
        problems = [
            f"limits.{name}: {limit} is less than the request {request}"
            for name, (request, limit) in pairs.items()
            if request is not None and limit is not None and parse_quantity(limit) < parse_quantity(request)
        ]
        if problems:
            raise ValueError("; ".join(problems))
        return self


class AdjustedClasses(Model):
    """Classes of a container; what is absent stays as it is."""

    rdt: AdjustedClass | None = None
    """Class of Resource Director Technology."""
    blockio: AdjustedClass | None = None
    """Class of block I/O."""
    cpu: AdjustedClass | None = None
    """CPU class, such as `performance` or `eco`: the container moves to CPUs of that class."""


class AdjustmentSpec(CheckedModel):
    """Containers to change, and their changes. A container that several Adjustments concern is not changed."""

    invariants = (
        Invariant(
            "!has(self.toptierLimit)",
            "toptierLimit is not supported, since Linux has no limit for one tier of memory; remove it",
            lambda spec: spec.toptier_limit is None,
        ),
    )

    scope: Annotated[tuple[AdjustmentScope, ...], Field(max_length=32)] = ()
    """Containers that are changed; absent: all containers of all nodes."""
    resources: AdjustedResources = AdjustedResources()
    classes: AdjustedClasses = AdjustedClasses()
    toptier_limit: AdjustedAmount | None = None
    """Accepted for compatibility and refused when set."""


def names_node(spec: Mapping[str, object], node: str) -> bool:
    """Return whether the scope of a spec, as at the API server, has containers on a node.

    A scope that is malformed names every node, so that each reports what is wrong.
    """
    scopes = spec.get("scope")
    if not scopes or not isinstance(scopes, list):
        return True
    return any(_scope_names(scope, node) for scope in scopes)


def _scope_names(scope: object, node: str) -> bool:
    globs = scope.get("nodes") if isinstance(scope, Mapping) else None
    if not globs or not isinstance(globs, list):
        return True
    return any(not isinstance(glob, str) or fnmatchcase(node, glob) for glob in globs)


class AdjustmentNodeStatus(Model):
    """Errors on one node."""

    generation: Count
    """`metadata.generation` that the errors refer to."""
    errors: Annotated[
        dict[str, Annotated[str, Field(max_length=1024)]], Field(max_length=MOST_ERRORS, default_factory=dict)
    ]
    """By container (`namespace/pod/container`), `spec` for the whole object, or `more` for how many are left out."""
    timestamp: Timestamp | None = None
    """Time of the last change."""


class AdjustmentStatus(Model):
    """Errors, by node."""

    nodes: Annotated[dict[str, AdjustmentNodeStatus], Field(max_length=5000, default_factory=dict)]
    """By the name of the node; a node without an entry reports no error."""


class Adjustment(CustomResource):
    """A change of the requests, limits and classes of running containers, without a restart."""

    info: ClassVar[Kind] = Kind(
        kind="Adjustment",
        plural="adjustments",
        short_name="adj",
        spec=AdjustmentSpec,
        status=AdjustmentStatus,
        columns=(
            Column("CPU-Class", ".spec.classes.cpu"),
            Column("RDT-Class", ".spec.classes.rdt"),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
        named_after_node=False,
    )

    spec: AdjustmentSpec
    status: AdjustmentStatus = AdjustmentStatus(nodes={})
