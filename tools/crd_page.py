"""Writes docs/crds.md, the reference of every custom resource, from the models."""

import inspect
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tools.generated import ROOT, cell, finish

from joulie_core.kinds.base import API_VERSION, CustomResource
from joulie_core.kinds.crds import RESOURCES
from joulie_core.kinds.descriptions import described_schema

_Schema = Mapping[str, Any]

_HEAD: Final = f"""\
# Custom resources

All kinds belong to `{API_VERSION}`, are cluster-scoped and have a status subresource. `kubectl explain` shows
the same descriptions. Defaults are applied by the services when they read an object, not by the API server.

This page is generated: `just docs`.
"""

#: Unit by the last part of a field's name.
_UNITS: Final = {
    "Watts": "W",
    "WattsPerSocket": "W per package",
    "WattsPerGpu": "W per GPU",
    "PowerW": "W",
    "TdpW": "W",
    "WPerMin": "W/min",
    "MHz": "MHz",
    "Bytes": "bytes",
    "Seconds": "s",
    "PctOfMax": "%",
    "Pct": "%",
    "HeadroomScore": "%",
    "StressScore": "%",
    # Power limits of a GPU.
    "Min": "W",
    "Max": "W",
    "Default": "W",
}


def page() -> str:
    """Return the page."""
    return "\n".join([_HEAD, *(line for each in RESOURCES for line in _section(each))])


def _section(resource: type[CustomResource]) -> Iterator[str]:
    info = resource.info
    yield f"## {info.kind}\n"
    yield f"{inspect.cleandoc(resource.__doc__ or '')}\n"
    yield f"Names: `{info.plural}`, `{info.short_name}`. Columns of `kubectl get`: {', '.join(_columns(resource))}.\n"
    yield "| field | type | unit | default | description |"
    yield "|---|---|---|---|---|"
    for part, model in (("spec", info.spec), ("status", info.status)):
        schema = described_schema(model)
        yield from _rows(part, schema, schema.get("$defs", {}))
    yield ""


def _columns(resource: type[CustomResource]) -> Iterator[str]:
    for column in resource.info.columns:
        yield f"{column.name} (`{column.path}`)"


def _rows(path: str, schema: _Schema, definitions: Mapping[str, _Schema]) -> Iterator[str]:
    for name, declared in schema.get("properties", {}).items():
        field = _resolved(declared, definitions)
        if not field.get("description"):
            raise ValueError(f"{path}.{name} has no description")
        nested, mark = _nested(field, definitions)
        required = "*required*" if name in schema.get("required", ()) else _default(declared)
        kind, unit = _type(field, definitions), _unit(name)
        yield f"| `{path}.{name}{mark}` | {cell(kind)} | {unit} | {required} | {cell(field['description'])} |"
        yield from _rows(f"{path}.{name}{mark}", nested, definitions)


def _nested(field: _Schema, definitions: Mapping[str, _Schema]) -> tuple[_Schema, str]:
    """Return the schema whose fields follow below a field, and how its path is marked."""
    for keyword, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(field.get(keyword), dict):
            entry = _resolved(field[keyword], definitions)
            if entry.get("properties"):
                return entry, mark
    return field, ""


def _resolved(schema: _Schema, definitions: Mapping[str, _Schema]) -> _Schema:
    """Return a schema without references and without the alternative null; what stands beside a reference wins."""
    if "anyOf" in schema:
        (option,) = (each for each in schema["anyOf"] if each.get("type") != "null")
        rest = {key: value for key, value in schema.items() if key != "anyOf"}
        return _resolved({**option, **rest}, definitions)
    if "$ref" in schema:
        target = definitions[schema["$ref"].rpartition("/")[2]]
        return _resolved({**target, **{key: value for key, value in schema.items() if key != "$ref"}}, definitions)
    return schema


def _type(field: _Schema, definitions: Mapping[str, _Schema]) -> str:
    if "enum" in field or "const" in field:
        return " | ".join(f"`{each}`" for each in field.get("enum", [field.get("const")]))
    if "x-kubernetes-int-or-string" in field:
        return "number or string"
    kind = str(field.get("format", field["type"]))
    if kind == "array":
        return f"list of {_type(_resolved(field['items'], definitions), definitions)}, at most {field['maxItems']}"
    if isinstance(field.get("additionalProperties"), dict):
        return f"map of {_type(_resolved(field['additionalProperties'], definitions), definitions)}"
    if "x-kubernetes-preserve-unknown-fields" in field:
        return "object of any content"
    return f"{kind}{_range(field)}"


def _range(field: _Schema) -> str:
    low, high = field.get("minimum"), field.get("maximum")
    above = field.get("exclusiveMinimum")
    bounds = [f">= {low:g}"] if low is not None else [f"> {above:g}"] if above is not None else []
    bounds += [f"<= {high:g}"] if high is not None else []
    return f", {', '.join(bounds)}" if bounds else ""


def _default(declared: _Schema) -> str:
    default = declared.get("default")
    # The defaults of an object are those of its fields, which have rows of their own.
    if default is None or isinstance(default, dict) or default in ("", []):
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _unit(name: str) -> str:
    return next(
        (unit for suffix, unit in _UNITS.items() if name.endswith(suffix) or name == suffix[0].lower() + suffix[1:]), ""
    )


if __name__ == "__main__":
    sys.exit(finish(ROOT / "docs" / "crds.md", page(), "just docs"))
