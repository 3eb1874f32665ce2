"""JSON schemas of the models of custom resources, with the strings below the fields as descriptions.

pydantic finds these strings itself where `use_attribute_docstrings` is set, each time a class is created: that is a
tenth of the start of every service, of which none needs a description. Here they are read when a schema is made.
"""

import ast
import inspect
from functools import cache
from itertools import pairwise
from textwrap import dedent
from typing import Any

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from joulie_core.kinds.base import Model


def described_schema(model: type[Model]) -> dict[str, Any]:
    """Return the JSON schema of a model, by the names that its fields have in JSON."""
    return model.model_json_schema(by_alias=True, mode="validation", schema_generator=_DescribedSchema)


class _DescribedSchema(GenerateJsonSchema):
    def model_schema(self, schema: core_schema.ModelSchema) -> dict[str, Any]:
        found = super().model_schema(schema)
        properties = found.get("properties", {})
        for base in reversed(schema["cls"].__mro__):
            if issubclass(base, Model):
                for field, text in _texts(base).items():
                    properties[base.model_fields[field].alias or field]["description"] = text
        return found


@cache
def _texts(model: type[Model]) -> dict[str, str]:
    """Return the strings below the fields that a class declares, by field."""
    (declared,) = ast.parse(dedent(inspect.getsource(model))).body
    assert isinstance(declared, ast.ClassDef)
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(declared.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and field.target.id in model.model_fields
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }
