"""Base of the models of all custom resources.

The models ignore unknown fields (of newer releases), are immutable, and check ranges and enumerations. `Kind` holds a
model's names at the API server and its printer columns; `joulie_core.kinds.crds` generates the
CustomResourceDefinition from it.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetJsonSchemaHandler, model_validator
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

GROUP: Final = "joulie.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

#: Marks a field that is accepted and changes nothing; for manifests of others.
NO_EFFECT: Final = "no effect"

#: CEL rule that freezes `spec.nodeName`; the API server names the field in its answer.
NODE_NAME_RULE: Final[dict[str, Any]] = {"rule": "self == oldSelf", "message": "nodeName is immutable"}

_LARGEST: Final = 2**63 - 1


def _within_int64(value: int) -> int:
    """Reject what the API server cannot store; the schema has no bound, int64 is a format there."""
    if value > _LARGEST:
        raise ValueError("does not fit into an int64")
    return value


NodeNameField = Annotated[
    str,
    Field(
        min_length=1,
        max_length=253,
        description="Name of the Node; immutable.",
        json_schema_extra={"x-kubernetes-validations": [NODE_NAME_RULE]},
    ),
]
Pct = Annotated[float, Field(gt=0, le=100)]
Watts = Annotated[float, Field(ge=0)]
PositiveWatts = Annotated[float, Field(gt=0)]
Score = Annotated[float, Field(ge=0, le=100)]
Count = Annotated[int, Field(ge=0), AfterValidator(_within_int64)]
Text = Annotated[str, Field(max_length=1024)]
#: RFC 3339 with `Z`.
Timestamp = Annotated[str, Field(max_length=40, json_schema_extra={"format": "date-time"})]


class Model(BaseModel):
    """Base of every part of a custom resource: camelCase in JSON, frozen, unknown fields ignored."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="ignore",
        frozen=True,
        use_enum_values=False,
        # JSON has neither and would contain null instead.
        allow_inf_nan=False,
    )

    def dump(self) -> dict[str, Any]:
        """Return the JSON-compatible form for the API server, without absent fields."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


@dataclass(frozen=True, slots=True)
class Invariant:
    """One relation between the fields of a model, as a CEL rule for the API server and as a function of the model.

    A CEL rule must check has() before it reads an optional field.
    """

    rule: str
    message: str
    holds: Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class TextRule:
    """Expression for a whole string, with a message that people understand, in place of the keyword `pattern`.

    The API server answers a broken `pattern` with the regular expression. The expression has no quotation marks, and is
    understood by RE2 and by Python alike.
    """

    expression: str
    message: str

    @property
    def schema(self) -> dict[str, Any]:
        """The rule for the API server, for `json_schema_extra`."""
        return {
            "x-kubernetes-validations": [{"rule": f"self.matches(r'^({self.expression})$')", "message": self.message}]
        }

    def check(self, value: str) -> str:
        """Return the value.

        Raises:
            ValueError: it does not match.
        """
        if re.fullmatch(self.expression, value) is None:
            raise ValueError(self.message)
        return value


class CheckedModel(Model):
    """A part whose fields depend on each other."""

    invariants: ClassVar[tuple[Invariant, ...]] = ()

    @model_validator(mode="after")
    def _check_invariants(self) -> Self:
        broken = [each.message for each in self.invariants if not each.holds(self)]
        if broken:
            raise ValueError("; ".join(broken))
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core)
        rules = [{"rule": each.rule, "message": each.message} for each in cls.invariants]
        handler.resolve_ref_schema(schema)["x-kubernetes-validations"] = rules
        return schema


@dataclass(frozen=True, slots=True)
class Column:
    """One additional printer column of `kubectl get`."""

    name: str
    path: str
    type: str = "string"


@dataclass(frozen=True, slots=True)
class NameRule:
    """One relation between an object's name and its fields, as a CEL rule of the whole object; models have no name."""

    rule: str
    message: str
    #: The field that the API server names.
    field: str

    @property
    def schema(self) -> dict[str, str]:
        """The rule for the API server."""
        return {"rule": self.rule, "message": self.message, "fieldPath": self.field}


@dataclass(frozen=True, slots=True)
class Kind:
    """Names, models and printer columns of one custom resource."""

    kind: str
    plural: str
    short_name: str
    spec: type[Model]
    status: type[Model]
    columns: tuple[Column, ...]
    #: Whether an object must have the name of the node in its spec.
    named_after_node: bool = True
    name_rules: tuple[NameRule, ...] = ()


class CustomResource(Model):
    """An object as read from the API server, without metadata."""

    info: ClassVar[Kind]


class Profile(StrEnum):
    """Profile that the policy plans for a node."""

    PERFORMANCE = "performance"
    ECO = "eco"


class WorkloadClass(StrEnum):
    """Class of a pod for the scheduler; also the values of the `joulie.io/workload-class` annotation."""

    PERFORMANCE = "performance"
    STANDARD = "standard"


class ConditionStatus(StrEnum):
    """Value of a condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(Model):
    """A Kubernetes status condition."""

    type: Annotated[str, Field(max_length=316)]
    """Type of the condition."""
    status: ConditionStatus
    reason: Annotated[str, Field(max_length=1024)] = ""
    """Reason of the status, in CamelCase."""
    message: Annotated[str, Field(max_length=32768)] = ""
    """Details of the reason."""
    last_transition_time: Timestamp | None = None
    """Time since which the condition has this status."""
    observed_generation: Count | None = None
    """`metadata.generation` that the status refers to."""


def set_condition(
    conditions: Iterable[Condition],
    type_: str,
    status: ConditionStatus,
    reason: str,
    message: str = "",
    *,
    now: str,
    generation: int | None,
) -> tuple[Condition, ...]:
    """Return the conditions by type, with one of them set; it keeps its time while its status stays.

    Args:
        conditions: as they are.
        type_: of the one to set.
        status: its status.
        reason: of the status, in CamelCase.
        message: details of the reason.
        now: wall-clock time, RFC 3339, for a status that has changed.
        generation: `metadata.generation` that it is about; None where that is not known.
    """
    found = {each.type: each for each in conditions}
    old = found.get(type_)
    found[type_] = Condition(
        type=type_,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=old.last_transition_time if old is not None and old.status is status else now,
        observed_generation=generation,
    )
    return tuple(found[kind] for kind in sorted(found))


Conditions = Annotated[
    tuple[Condition, ...],
    Field(
        max_length=16,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    ),
]
