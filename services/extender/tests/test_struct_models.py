"""Structs made of models, against the models."""

import json
from typing import Annotated

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, ValidationError

from joulie_core.kinds.base import CheckedModel, Count, Model, Score
from joulie_core.kinds.node_twin import NodeTwin, SchedulableClass
from joulie_extender.struct_models import struct_of

NUMBERS = (
    st.none()
    | st.integers(-(10**30), 10**30)
    | st.floats()
    | st.sampled_from([-1, 0, 1, 99.9, 100, 100.5, 1e400, -0.0, "1.5", True, [], 2**53 + 1])
)
TEXTS = (
    st.none() | st.text("aé0-:TZ", max_size=45) | st.sampled_from(["", "é" * 40, "é" * 41, "2026-01-01T00:00:00Z", 7])
)


def partly(**fields):
    """Objects with any of these fields, and some that are not known."""
    return st.fixed_dictionaries({}, optional=fields | {"unknown": st.just({"a": [1]})})


POWERS = partly(
    source=st.sampled_from(["agent", "static", "none of them", None]),
    quality=st.sampled_from(["measured", "unknown", 1]),
    measuredNodePowerW=NUMBERS,
    nodeCappedPowerW=NUMBERS,
    nodeTdpW=NUMBERS,
    cpuTdpW=NUMBERS,
    powerTrendWPerMin=NUMBERS,
)
STATUSES = partly(
    schedulableClass=st.sampled_from([*SchedulableClass, "none of them", None]),
    predictedPowerHeadroomScore=NUMBERS,
    predictedCoolingStressScore=NUMBERS,
    hardwareDensityScore=NUMBERS,
    estimatedPUE=NUMBERS,
    effectiveCapState=st.none() | partly(cpuPct=NUMBERS, gpuPct=NUMBERS),
    powerMeasurement=st.none() | POWERS,
    powerDomains=st.none() | st.lists(partly(domain=TEXTS, availableWatts=NUMBERS), max_size=34),
    lastUpdated=TEXTS,
)
TWINS = partly(spec=st.none() | partly(nodeName=TEXTS), status=st.none() | STATUSES, kind=TEXTS)
USABLE_POWER = {"source": "agent", "quality": "measured", "nodeCappedPowerW": 700, "powerTrendWPerMin": -3.5}


def decode(raw, model=NodeTwin):
    return msgspec.json.decode(raw, type=struct_of(model))


def same_fields(struct, model):
    """Whether a struct has every value of a model, in the same types; integers for floats count as those."""
    for name in type(model).model_fields:
        got, expected = getattr(struct, name), getattr(model, name)
        if isinstance(expected, tuple):
            if len(got) != len(expected) or not all(map(same_fields, got, expected)):
                return False
        elif isinstance(expected, Model):
            if not same_fields(got, expected):
                return False
        elif got != expected or isinstance(got, str) != isinstance(expected, str):
            return False
    return True


@given(TWINS)
def test_what_a_struct_accepts_the_model_accepts_with_equal_values(twin):
    raw = json.dumps(twin).encode()
    try:
        struct = decode(raw)
    except msgspec.MsgspecError:
        return
    assert same_fields(struct, NodeTwin.model_validate_json(raw))


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"powerMeasurement": USABLE_POWER},
        {"effectiveCapState": {"cpuPct": 55.5}},
        {"powerDomains": [{"domain": "rack-1", "availableWatts": 100}, {"domain": "feed"}]},
    ],
)
def test_an_object_as_it_is_written_is_accepted(status):
    raw = json.dumps({"spec": {"nodeName": "a"}, "status": status}).encode()
    assert same_fields(decode(raw), NodeTwin.model_validate_json(raw))


@pytest.mark.parametrize(
    "twin",
    [
        {"status": {}},
        {"spec": {"nodeName": ""}},
        {"spec": {"nodeName": "a"}, "status": {"estimatedPUE": 0.5}},
        {"spec": {"nodeName": "a"}, "status": {"lastUpdated": "x" * 41}},
        {"spec": {"nodeName": "a"}, "status": {"powerDomains": [{"domain": "d"}] * 33}},
        {"spec": {"nodeName": "a"}, "status": {"powerDomains": [{"domain": "d", "availableWatts": -1}]}},
        {"spec": {"nodeName": "a"}, "status": {"powerDomains": [{"domain": "d" * 254}]}},
        {"spec": {"nodeName": "a"}, "status": {"effectiveCapState": {"gpuPct": 101}}},
        {"spec": {"nodeName": "a"}, "status": {"effectiveCapState": {"gpuPct": -1}}},
        {"spec": {"nodeName": "a"}, "status": {"powerMeasurement": {**USABLE_POWER, "nodeTdpW": -1}}},
    ],
)
def test_what_the_model_refuses_a_struct_refuses(twin):
    raw = json.dumps(twin).encode()
    with pytest.raises(ValidationError):
        NodeTwin.model_validate_json(raw)
    with pytest.raises(msgspec.ValidationError):
        decode(raw)


class Limited(Model):
    """A part with fields that exclude their limits, one of them required and not the first."""

    name: Annotated[str, Field(min_length=1)] | None = None
    share: Annotated[float, Field(gt=0, lt=1)]


@pytest.mark.parametrize("share", [0.01, 0.99])
def test_a_number_within_excluded_limits_is_accepted(share):
    raw = json.dumps({"share": share}).encode()
    assert same_fields(decode(raw, Limited), Limited.model_validate_json(raw))


@pytest.mark.parametrize("share", [0, 1])
def test_a_number_at_an_excluded_limit_is_refused(share):
    with pytest.raises(msgspec.ValidationError):
        decode(json.dumps({"share": share}).encode(), Limited)


class Part(Model):
    share: Score = 50


class Made(Model):
    part: Part = Field(default_factory=Part)


def test_a_default_that_is_made_by_a_function_is_that_of_the_struct():
    assert same_fields(decode(b"{}", Made), Made())


class Counted(Model):
    count: Count = 0


class Checked(CheckedModel):
    share: Score = 0


class Stepped(Model):
    share: Annotated[float, Field(multiple_of=5)] = 0


class Preset(Model):
    """A part whose default is not that of its own model."""

    part: Part = Part(share=0)


@pytest.mark.parametrize(
    ("model", "problem"),
    [(Counted, "int"), (Checked, "checks of its own"), (Stepped, "MultipleOf"), (Preset, "part has a default")],
)
def test_a_model_without_counterpart_is_refused(model, problem):
    with pytest.raises(TypeError, match=problem):
        struct_of(model)
