"""Descriptions of fields are the strings below them."""

from joulie_core.kinds.base import Model
from joulie_core.kinds.descriptions import described_schema


class Inner(Model):
    power_w: float = 0.0
    """Its power,
    in watts."""


class Base(Model):
    node_name: str
    """Which node."""
    without: int = 0


class Outer(Base):
    inner: Inner | None = None
    """What is inside."""
    unit: str = "W"
    """Of all."""

    """Of nothing."""


def descriptions(properties):
    return {name: each.get("description") for name, each in properties.items()}


def test_fields_of_a_model_of_its_base_and_of_its_parts_have_the_strings_below_them():
    schema = described_schema(Outer)
    assert descriptions(schema["properties"]) == {
        "nodeName": "Which node.",
        "without": None,
        "inner": "What is inside.",
        "unit": "Of all.",
    }
    assert descriptions(schema["$defs"]["Inner"]["properties"]) == {"powerW": "Its power,\nin watts."}


def test_a_field_that_is_declared_anew_has_its_own_string():
    class Narrower(Base):
        node_name: str
        """The one node."""

    assert described_schema(Narrower)["properties"]["nodeName"]["description"] == "The one node."


def test_no_class_reads_its_source_when_it_is_created():
    assert Outer.model_fields["unit"].description is None
