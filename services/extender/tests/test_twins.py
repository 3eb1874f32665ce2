"""Twins as the extender reads them."""

import math
from dataclasses import astuple

import msgspec
import pytest

from joulie_api.errors import DecodeError
from joulie_core.kinds.node_twin import NodeTwinStatus
from joulie_core.plausible import HIGHEST_VALUE
from joulie_core.scoring.state import node_state
from joulie_extender import twins
from joulie_extender.twins import read_twin
from joulie_testing.api import make_node_twin


def test_a_twin_is_read_as_its_model_reads_it():
    twin = make_node_twin("a", "eco", measured_watts=123.5, capped_watts=700)
    assert read_twin(msgspec.json.encode(twin)) == node_state(NodeTwinStatus.model_validate(twin["status"]))


def test_a_valid_twin_is_read_without_its_model(monkeypatch):
    """The model takes several times as long, and a twin comes with every pod that is scheduled."""
    monkeypatch.setattr(twins, "_decode_model", lambda _raw: pytest.fail("the model was used"))
    twin = make_node_twin("a", "eco", measured_watts=123.5, capped_watts=700)
    assert read_twin(msgspec.json.encode(twin)).measured_watts == 123.5


def test_a_number_that_is_written_as_a_string_is_read_as_the_model_reads_it():
    twin = make_node_twin("a", "eco", measured_watts=123.5, capped_watts=700)
    twin["status"]["powerMeasurement"]["measuredNodePowerW"] = "123.5"
    assert read_twin(msgspec.json.encode(twin)).measured_watts == 123.5


def test_what_is_no_twin_is_refused_with_the_field_that_is_wrong():
    twin = make_node_twin("a", "no such class", measured_watts=123.5, capped_watts=700)
    with pytest.raises(DecodeError, match=r"status\.schedulableClass"):
        read_twin(msgspec.json.encode(twin))


NUMBERS = ["measuredNodePowerW", "nodeCappedPowerW", "nodeTdpW", "powerTrendWPerMin"]
SCORES = ["predictedPowerHeadroomScore", "predictedCoolingStressScore", "estimatedPUE"]
HUGE = [b"1e308", b"-1e308", b"1e400", b"9" * 400, b"9223372036854775808", b"NaN", b"Infinity", b'"x"', b"[]"]


def evil_twin(field, value):
    """A valid twin of a busy performance node, but for one number."""
    twin = make_node_twin("evil", "performance", measured_watts=590, capped_watts=600)
    status = twin["status"] | {"predictedPowerHeadroomScore": 2, "predictedCoolingStressScore": 90, "estimatedPUE": 1.2}
    power = status["powerMeasurement"]
    (power if field in NUMBERS else status)[field] = "VALUE"
    return msgspec.json.encode(twin | {"status": status}).replace(b'"VALUE"', value)


@pytest.mark.parametrize("value", HUGE)
@pytest.mark.parametrize("field", NUMBERS + SCORES)
def test_a_twin_with_an_impossible_number_is_refused_or_read_without_it(field, value):
    try:
        state = read_twin(evil_twin(field, value))
    except DecodeError:
        return
    figures = [each for each in astuple(state) if isinstance(each, float)]
    assert all(math.isfinite(each) and abs(each) <= HIGHEST_VALUE for each in figures if each != state.last_updated_s)
    headroom = state.headroom_pct()
    assert headroom is None or headroom <= 10 or field == "nodeCappedPowerW"


@pytest.mark.parametrize("value", [*HUGE, b"-1", b"null"])
def test_what_a_domain_cannot_have_left_is_refused_or_unknown(value):
    twin = make_node_twin("evil", "performance") | {"status": {"powerDomains": [{"domain": "a", "availableWatts": 42}]}}
    try:
        state = read_twin(msgspec.json.encode(twin).replace(b"42", value))
    except DecodeError:
        return
    assert [tuple(each) for each in state.supplies] == [("a", None)]


def test_a_twin_that_is_nested_too_deeply_is_refused_as_what_it_is():
    twin = make_node_twin("a", "eco") | {"parameters": msgspec.Raw(b"[" * 5_000 + b"]" * 5_000)}
    with pytest.raises(DecodeError, match="nested too deeply"):
        read_twin(msgspec.json.encode(twin))
