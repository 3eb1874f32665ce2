"""Requirements of selectors as the API server sends them."""

import msgspec
import pytest

from joulie_api.wire.terms import WireRequirement, requirements
from joulie_core.pod import Requirement, SelectorOperator


def read(wire):
    return requirements(msgspec.json.decode(wire, type=list[WireRequirement] | None))


def test_requirements_keep_their_order_and_values():
    wire = (
        b'[{"key": "zone", "operator": "In", "values": ["b", "a"]}, {"key": "gpu", "operator": "Gt", "values": ["3"]}]'
    )
    assert read(wire) == (
        Requirement("zone", SelectorOperator.IN, ("b", "a")),
        Requirement("gpu", SelectorOperator.GT, ("3",)),
    )


@pytest.mark.parametrize("values", ["", ', "values": null', ', "values": []'])
def test_a_requirement_of_which_only_the_key_matters_has_no_values(values):
    wire = f'[{{"key": "gpu", "operator": "Exists"{values}}}]'.encode()
    assert read(wire) == (Requirement("gpu", SelectorOperator.EXISTS, ()),)


@pytest.mark.parametrize("wire", [b"null", b"[]"])
def test_a_selector_without_requirements_has_none(wire):
    assert read(wire) == ()


@pytest.mark.parametrize(
    "wire", [b'[{"operator": "Exists"}]', b'[{"key": "gpu"}]', b'[{"key": "gpu", "operator": "x"}]']
)
def test_a_requirement_without_key_or_known_operator_is_refused(wire):
    with pytest.raises(msgspec.ValidationError):
        read(wire)
