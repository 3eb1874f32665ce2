"""CustomResourceDefinition manifests, generated from the models.

The schemas are structural: references inlined, a type at every level, nothing that the API server would reject or
ignore. A model without a structural form fails here, at generation, with the path of the field.

The manifests have no server-side defaults: the API server stores what was written, and the models fill in defaults when
they read. So an absent stanza stays absent ("unmanaged"), server-side apply finds no fields that no manager applied,
and a default can change with a release. CEL rules therefore guard optional fields by has().
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from inspect import cleandoc
from typing import Any, Final

from joulie_core.kinds.adjustment import Adjustment
from joulie_core.kinds.balloons_policy import BalloonsPolicy
from joulie_core.kinds.base import GROUP, VERSION, Column, CustomResource, Model, NameRule
from joulie_core.kinds.descriptions import described_schema
from joulie_core.kinds.node_bmc import NodeBMC
from joulie_core.kinds.node_hardware import NodeHardware
from joulie_core.kinds.node_power_budget import NodePowerBudget
from joulie_core.kinds.node_power_profile import NodePowerProfile
from joulie_core.kinds.node_sleep_policy import NodeSleepPolicy
from joulie_core.kinds.node_twin import NodeTwin
from joulie_core.kinds.power_domain import PowerDomain
from joulie_core.kinds.power_event import PowerEvent
from joulie_core.kinds.telemetry_profile import TelemetryProfile
from joulie_core.kinds.template_policy import TemplatePolicy
from joulie_core.kinds.topology_aware_policy import TopologyAwarePolicy

Schema = dict[str, Any]

RESOURCES: Final[tuple[type[CustomResource], ...]] = (
    NodeHardware,
    NodePowerProfile,
    TelemetryProfile,
    NodeTwin,
    BalloonsPolicy,
    TopologyAwarePolicy,
    TemplatePolicy,
    Adjustment,
    NodeBMC,
    NodeSleepPolicy,
    PowerDomain,
    NodePowerBudget,
    PowerEvent,
)

#: An object has the name of its node: every service finds a node's objects without an index.
_NODE_NAME: Final = NameRule(
    "self.metadata.name == self.spec.nodeName", "nodeName must equal metadata.name", ".spec.nodeName"
)
_FORMATS: Final = {"number": "double", "integer": "int64"}
#: Keywords with the same meaning in a CRD.
_PLAIN: Final = frozenset(
    {
        "type",
        "format",
        "description",
        "enum",
        "required",
        "pattern",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
    }
)
#: Keywords that are written first.
_FIRST: Final = ("description", "type", "format")
#: An object has one of them.
_CONTENT: Final = ("properties", "additionalProperties", "x-kubernetes-preserve-unknown-fields")
#: Keywords that are omitted: titles repeat names; for defaults see the module's docstring.
_DROPPED: Final = frozenset({"title", "default", "$defs"})


class CrdError(TypeError):
    """A model has no structural schema; the message has the path and the reason."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")


def manifests() -> dict[str, dict[str, Any]]:
    """Return the manifest of every kind by file name, such as `joulie.io_nodetwins.yaml`.

    Raises:
        CrdError: a model cannot be expressed.
    """
    return {f"{GROUP}_{each.info.plural}.yaml": manifest(each) for each in RESOURCES}


def manifest(resource: type[CustomResource]) -> dict[str, Any]:
    """Return the CustomResourceDefinition of one kind."""
    info = resource.info
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _root(resource)},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [_column(each) for each in info.columns],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{info.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {
                "kind": info.kind,
                "listKind": f"{info.kind}List",
                "plural": info.plural,
                "singular": info.kind.lower(),
                "shortNames": [info.short_name],
                "categories": ["joulie"],
            },
            "versions": [version],
        },
    }


def _column(column: Column) -> dict[str, str]:
    return {"name": column.name, "type": column.type, "jsonPath": column.path}


def _root(resource: type[CustomResource]) -> Schema:
    schema: Schema = {
        "type": "object",
        "description": cleandoc(resource.__doc__ or ""),
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": structural_schema(resource.info.spec),
            "status": structural_schema(resource.info.status),
        },
    }
    rules = [*([_NODE_NAME] if resource.info.named_after_node else []), *resource.info.name_rules]
    if rules:
        schema["x-kubernetes-validations"] = [each.schema for each in rules]
    return schema


def structural_schema(model: type[Model]) -> Schema:
    """Return the structural OpenAPI v3 schema of one model.

    Raises:
        CrdError: the model uses a construct without structural form.
    """
    source = described_schema(model)
    return _Converter(source.get("$defs", {})).convert(source, model.__name__, ())


class _Converter:
    """Converts the JSON Schema of pydantic into its structural form.

    `path` is the field for error messages; `trail` holds the references that are being inlined.
    """

    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        self._definitions = definitions

    def convert(self, source: Schema, path: str, trail: tuple[str, ...]) -> Schema:
        source, trail = self._inlined(_without_null(source, path), path, trail)
        target: Schema = {}
        for keyword, value in source.items():
            if keyword in _PLAIN or keyword.startswith("x-kubernetes-"):
                target[keyword] = deepcopy(value)  # shared parts would become aliases in YAML
            elif keyword not in _DROPPED:
                target |= self._keyword(keyword, value, path, trail)
        if target.get("x-kubernetes-int-or-string"):
            return target  # the API server wants no type here
        _check_type(target, path)
        if target["type"] in _FORMATS:
            target.setdefault("format", _FORMATS[target["type"]])
        return {keyword: target[keyword] for keyword in _FIRST if keyword in target} | target

    def _inlined(self, source: Schema, path: str, trail: tuple[str, ...]) -> tuple[Schema, tuple[str, ...]]:
        if "$ref" not in source:
            return source, trail
        name = source["$ref"].rpartition("/")[2]
        if name in trail:
            raise CrdError(path, f"{name} contains itself")
        # Keywords beside the reference describe this use and take precedence.
        siblings = {keyword: value for keyword, value in source.items() if keyword != "$ref"}
        return self._inlined(self._definitions[name] | siblings, path, (*trail, name))

    def _keyword(self, keyword: str, value: Any, path: str, trail: tuple[str, ...]) -> Schema:
        match keyword:
            case "properties":
                return {keyword: {name: self.convert(each, f"{path}.{name}", trail) for name, each in value.items()}}
            case "items":
                return {keyword: self.convert(value, f"{path}[]", trail)}
            case "additionalProperties" if isinstance(value, dict):
                return {keyword: self.convert(value, f"{path}{{}}", trail)}
            case "const":
                return {"enum": [value]}
            case "exclusiveMinimum":
                return {"minimum": value, keyword: True}
            case "exclusiveMaximum":
                return {"maximum": value, keyword: True}
            case _:
                raise CrdError(path, f"{keyword} has no structural form")


def _without_null(source: Schema, path: str) -> Schema:
    """Turn `X or None` into X: in a custom resource None is an absent field."""
    if "anyOf" not in source:
        return source
    options = [each for each in source["anyOf"] if each.get("type") != "null"]
    if len(options) != 1:
        raise CrdError(path, "a union has no structural form")
    rest = {keyword: value for keyword, value in source.items() if keyword != "anyOf"}
    return _without_null({**options[0], **rest}, path)


def _check_type(target: Schema, path: str) -> None:
    required: Mapping[str, Callable[[Schema], bool]] = {
        "object": lambda schema: sum(keyword in schema for keyword in _CONTENT) == 1,
        "array": lambda schema: "items" in schema and "maxItems" in schema,
        "string": lambda schema: "enum" in schema or "maxLength" in schema,
        "number": lambda _: True,
        "integer": lambda _: True,
        "boolean": lambda _: True,
    }
    kind = str(target.get("type"))
    if kind not in required:
        raise CrdError(path, f"type {kind} has no structural form")
    # Bounds are required: the API server estimates the cost of CEL rules from them, and an object must fit into etcd.
    if not required[kind](target):
        raise CrdError(path, f"a {kind} needs properties or values, items and bounds")
