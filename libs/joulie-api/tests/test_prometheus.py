"""Decoding of a Prometheus server's answers."""

import json
import math

import pytest

from joulie_api.prometheus import PrometheusSample, QueryError, decode_samples, error_text

AT_S = 1767323045.678
DEEP = b"[" * 20_000 + b"]" * 20_000


def answer(result, result_type="vector", **more):
    return json.dumps({"status": "success", "data": {"resultType": result_type, "result": result}, **more}).encode()


def series(value, **labels):
    return {"metric": labels, "value": [AT_S, value]}


def test_every_series_of_a_vector_is_a_sample():
    raw = answer([series("240.5", node="n1"), series("1e3", node="n2")], warnings=["slow"])
    assert decode_samples(raw) == [
        PrometheusSample({"node": "n1"}, 240.5, AT_S),
        PrometheusSample({"node": "n2"}, 1000, AT_S),
    ]


def test_a_scalar_is_a_sample_without_labels():
    assert decode_samples(answer([AT_S, "21.5"], "scalar")) == [PrometheusSample({}, 21.5, AT_S)]


def test_a_series_may_have_no_labels():
    assert decode_samples(answer([{"value": [1, "5"]}])) == [PrometheusSample({}, 5, 1)]


def test_an_empty_vector_is_no_sample():
    assert decode_samples(answer([])) == []


def test_a_series_without_a_value_is_not_omitted():
    samples = decode_samples(answer([series("NaN"), series("+Inf"), series("-Inf"), series("5")]))
    assert math.isnan(samples[0].value)
    assert [sample.value for sample in samples[1:]] == [math.inf, -math.inf, 5]


@pytest.mark.parametrize(
    "odd",
    [
        {"histogram": [AT_S, {"count": "1", "sum": "2"}]},
        {"value": [AT_S, "many"]},
        {"value": [AT_S, 240]},
        {"value": ["now", "240"]},
        {"value": [AT_S]},
        {"value": None},
        {"value": json.loads(DEEP[19_500:-19_500])},
    ],
)
def test_a_series_whose_value_cannot_be_read_has_none_and_the_others_have_theirs(odd):
    first, other = decode_samples(answer([{"metric": {"node": "n1"}, **odd}, series("5", node="n2")]))
    assert first.labels == {"node": "n1"}
    assert math.isnan(first.value)
    assert math.isnan(first.at_s)
    assert other == PrometheusSample({"node": "n2"}, 5, AT_S)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b'{"status": "error", "errorType": "bad_data", "error": "parse error"}', "parse error"),
        (b'{"status": "error"}', "status error"),
        (b'{"status": "success"}', "status success"),
        (answer([], "matrix"), "result type is matrix, must be vector or scalar"),
        (answer([{"metric": {"node": 1}, "value": [AT_S, "5"]}]), "not a result of an instant query"),
        (answer([{"metric": None, "histogram": [1, {}]}]), "not a result of an instant query"),
        (answer([5]), "not a result of an instant query"),
        (answer([AT_S, "many"], "scalar"), "not a result of an instant query"),
        (b"<html>", "not a result of an instant query"),
        (b"", "not a result of an instant query"),
        (b'"\xff"', "not a result of an instant query"),
        (answer([], "x" * 10_000), "result type is x{299}…"),
        (b'{"status": "error", "error": "\\u001b[2J"}', "\N{REPLACEMENT CHARACTER}.2J"),
        (b'{"status":"success","data":{"resultType":"vector","result":%s}}' % DEEP, "nested too deeply"),
    ],
)
def test_an_invalid_vector_is_refused_with_a_reason(raw, reason):
    with pytest.raises(QueryError, match=reason):
        decode_samples(raw)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b'{"status": "error", "errorType": "timeout", "error": "query timed out"}', "query timed out"),
        (b'{"status": "error"}', "status error"),
        (b'{"status": "error", "error": "\\u001b[2J"}', "\N{REPLACEMENT CHARACTER}[2J"),
        (answer([]), None),
        (b'{"kind": "Status", "status": "Failure", "message": "no"}', None),
        (b"<html>", None),
        (b"", None),
    ],
)
def test_the_text_of_an_error_answer_is_told_from_answers_of_others(raw, text):
    assert error_text(raw) == text
