"""The published OpenAPI document of OpenADR 3.1.0, as a judge of requests and answers."""

import os
from pathlib import Path

import jsonschema
import yaml

from joulie_core.timestamps import epoch_seconds

NAME = "openadr-3.1.0/openadr3.yaml"


def find(name=NAME):
    """Return the path of a file of the specification; None where it is not here."""
    roots = [os.environ.get("JOULIE_DATA_DIR"), Path(__file__).parents[4] / "shared" / "data"]
    return next((path for root in roots if root and (path := Path(root) / name).is_file()), None)


def _nullable(node):
    """Return the schema with OpenAPI's `nullable` in the words of JSON Schema."""
    match node:
        case dict():
            found = {key: _nullable(value) for key, value in node.items() if key != "nullable"}
            if node.get("nullable") is True and "type" in node:
                found["type"] = [node["type"], "null"]
            return found
        case list():
            return [_nullable(each) for each in node]
        case _:
            return node


_formats = jsonschema.FormatChecker(formats=())


@_formats.checks("date-time")
def _is_time(value):
    """The beginning of time is a start by the text of the specification, although no date-time."""
    return not isinstance(value, str) or value.startswith("0001-01-01") or epoch_seconds(value) is not None


class Specification:
    """Judges requests and answers; a fault is one line of text."""

    def __init__(self, path):
        self._document = _nullable(yaml.safe_load(path.read_text(encoding="utf-8")))

    def _operation(self, method, path):
        for template, item in self._document["paths"].items():
            parts, names = path.strip("/").split("/"), template.strip("/").split("/")
            if len(parts) == len(names) and all(a == b or b.startswith("{") for a, b in zip(parts, names, strict=True)):
                return item.get(method.lower())
        return None

    def _faults(self, schema, value, what):
        # Keywords beside a $ref do not count in OpenAPI 3.0.
        root = {"allOf": [schema], "components": self._document["components"]}
        judge = jsonschema.Draft4Validator(root, format_checker=_formats)
        return [f"{what}: {error.json_path} {error.message[:200]}" for error in judge.iter_errors(value)]

    def _resolved(self, node):
        while "$ref" in node:
            found = self._document
            for part in node["$ref"].removeprefix("#/").split("/"):
                found = found[part]
            node = found
        return node

    def request(self, method, path, *, query, content_type, body, authorization):
        """Return the faults of a request; `query` is pairs, `body` decoded or None."""
        what, operation = f"{method} {path}", self._operation(method, path)
        if operation is None:
            return [f"{what}: no such operation"]
        found = []
        known = {each["name"]: each for each in operation.get("parameters", ()) if each["in"] == "query"}
        for name in {name for name, _ in query}:
            if name not in known:
                found.append(f"{what}: no query parameter {name}")
                continue
            schema, values = self._resolved(known[name]["schema"]), [value for key, value in query if key == name]
            found += self._faults(schema, _typed(values, schema), f"{what}?{name}")
        contents = operation.get("requestBody", {}).get("content", {})
        if contents and content_type not in contents:
            found.append(f"{what}: content type {content_type}")
        elif contents:
            found += self._faults(contents[content_type]["schema"], body, what)
        elif body is not None:
            found.append(f"{what}: a body")
        if "security" in operation and not authorization.startswith("Bearer "):
            found.append(f"{what}: no bearer token")
        return found

    def answer(self, method, path, status, body):
        """Return the faults of an answer."""
        what = f"{status} of {method} {path}"
        answers = (self._operation(method, path) or {}).get("responses", {})
        if str(status) not in answers:
            return [f"{what}: no such answer"]
        content = self._resolved(answers[str(status)]).get("content", {})
        return self._faults(content["application/json"]["schema"], body, what) if content else []


def _typed(values, schema):
    """Return texts of a query as the schema's type has them."""
    match schema["type"]:
        case "array":
            return values
        case "integer":
            return int(values[0])
        case "boolean":
            return {"true": True, "false": False}.get(values[0], values[0])
        case _:
            return values[0]
