"""What the models of all custom resources share.

The models read leniently (an unknown field of a newer release is ignored) and are immutable; ranges and enumerations
are checked. `Kind` ties a model to its names at the API server and to its printer columns; `joulie_core.kinds.crds`
turns it into a CustomResourceDefinition.
"""

from collections.abc import Callable
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

#: CEL rule that freezes `spec.nodeName`; the API server names the field in its answer.
NODE_NAME_RULE: Final[dict[str, Any]] = {"rule": "self == oldSelf", "message": "nodeName is immutable"}

_LARGEST: Final = 2**63 - 1


def _within_int64(value: int) -> int:
    """Refuse what the API server cannot hold; not said in the schema, where int64 is a format."""
    if value > _LARGEST:
        raise ValueError("more than an int64 holds")
    return value


#: Name of the Node that an object belongs to; immutable.
NodeNameField = Annotated[
    str,
    Field(min_length=1, max_length=253, json_schema_extra={"x-kubernetes-validations": [NODE_NAME_RULE]}),
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
    """Base of every part of a custom resource: camelCase outside, frozen, unknown fields ignored."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
        use_enum_values=False,
        # JSON has neither, and would send null in their place.
        allow_inf_nan=False,
    )

    def dump(self) -> dict[str, Any]:
        """Return the JSON-ready form that is sent to the API server, absent fields left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


@dataclass(frozen=True, slots=True)
class Invariant:
    """One relation between the fields of a model, said twice: to the API server in CEL, and here.

    `holds` takes the model; a CEL rule must ask has() before it reads an optional field.
    """

    rule: str
    message: str
    holds: Callable[[Any], bool]


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
class Kind:
    """Names, models and printer columns of one custom resource."""

    kind: str
    plural: str
    short_name: str
    spec: type[Model]
    status: type[Model]
    columns: tuple[Column, ...]
    #: Whether an object must bear the name of the node that its spec names.
    named_after_node: bool = True


class CustomResource(Model):
    """A whole object as read from the API server; metadata stays with the client that read it."""

    info: ClassVar[Kind]


class Profile(StrEnum):
    """Supply state of a node."""

    PERFORMANCE = "performance"
    ECO = "eco"


class ConditionStatus(StrEnum):
    """Value of a condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(Model):
    """A Kubernetes status condition."""

    type: Annotated[str, Field(max_length=316)]
    status: ConditionStatus
    reason: Annotated[str, Field(max_length=1024)] = ""
    message: Annotated[str, Field(max_length=32768)] = ""
    last_transition_time: Timestamp | None = None
    observed_generation: Count | None = None


Conditions = Annotated[
    tuple[Condition, ...],
    Field(
        max_length=16,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    ),
]
