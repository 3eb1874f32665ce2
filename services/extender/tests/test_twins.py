"""Twins as the extender reads them."""

import msgspec
import pytest

from joulie_api.errors import DecodeError
from joulie_api.testing import make_node_twin
from joulie_core.kinds.node_twin import NodeTwinStatus
from joulie_core.scoring.state import node_state
from joulie_extender.twins import read_twin


def test_a_twin_is_read_as_its_model_reads_it():
    twin = make_node_twin("a", "eco", measured_watts=123.5, capped_watts=700)
    assert read_twin(msgspec.json.encode(twin)) == node_state(NodeTwinStatus.model_validate(twin["status"]))


def test_a_number_that_is_written_as_a_string_is_read_as_the_model_reads_it():
    twin = make_node_twin("a", "eco", measured_watts=123.5, capped_watts=700)
    twin["status"]["powerMeasurement"]["measuredNodePowerW"] = "123.5"
    assert read_twin(msgspec.json.encode(twin)).measured_watts == 123.5


def test_what_is_no_twin_is_refused_with_the_field_that_is_wrong():
    twin = make_node_twin("a", "no such class", measured_watts=123.5, capped_watts=700)
    with pytest.raises(DecodeError, match=r"status\.schedulableClass"):
        read_twin(msgspec.json.encode(twin))


def test_a_twin_that_is_nested_too_deeply_is_refused_as_what_it_is():
    twin = make_node_twin("a", "eco") | {"parameters": msgspec.Raw(b"[" * 5_000 + b"]" * 5_000)}
    with pytest.raises(DecodeError, match="nested too deeply"):
        read_twin(msgspec.json.encode(twin))
