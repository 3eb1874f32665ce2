from enum import StrEnum
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field, model_validator

from joulie_api.addresses import Address, parse_addr
from joulie_api.settings import (
    Duration,
    LogFormat,
    LogLevel,
    ServiceSettings,
    Settings,
    SettingsError,
    Unit,
    describe,
    read_settings,
)


class Mode(StrEnum):
    POOL = "pool"
    DAEMONSET = "daemonset"


class Caps(BaseModel):
    watts: float


class Example(Settings):
    reconcile_interval: Duration = 60
    """How often."""
    grace: Duration | None = None
    simulate_only: bool = False
    mode: Mode = Mode.POOL
    kind: Literal["a", "b"] = "a"
    shards: int = Field(default=1, ge=1)
    cap_watts: Annotated[float, Unit("W")] = 120
    label_keys: tuple[str, ...] = ("x", "y")
    model_caps: dict[str, Caps] = Field(default_factory=dict, alias="GPU_MODEL_CAPS_JSON")
    """Caps
    by model."""


class Needy(Settings):
    node_name: str
    low: int = 1
    high: int = 2

    @model_validator(mode="after")
    def _ordered(self):
        if self.low > self.high:
            raise ValueError("LOW must not be above HIGH")
        return self


def lines_of(model, env):
    with pytest.raises(SettingsError) as caught:
        read_settings(model, env)
    return str(caught.value).splitlines()


def test_defaults_hold_for_unset_and_empty_variables():
    assert read_settings(Example, {"SHARDS": "", "MODE": "  "}) == Example()


def test_values_are_read_by_type():
    env = {
        "RECONCILE_INTERVAL": "1h30m",
        "GRACE": "250ms",
        "SIMULATE_ONLY": "true",
        "MODE": "daemonset",
        "KIND": "b",
        "SHARDS": "3",
        "CAP_WATTS": "72.5",
        "LABEL_KEYS": "a/b, c/d,",
        "GPU_MODEL_CAPS_JSON": '{"H100": {"watts": 350}}',
    }
    read = read_settings(Example, env)
    assert (read.reconcile_interval, read.grace, read.simulate_only, read.mode) == (5400, 0.25, True, Mode.DAEMONSET)
    assert (read.kind, read.shards, read.cap_watts, read.label_keys) == ("b", 3, 72.5, ("a/b", "c/d"))
    assert read.model_caps == {"H100": Caps(watts=350)}


def test_a_list_may_be_json():
    assert read_settings(Example, {"LABEL_KEYS": '["a,b"]'}).label_keys == ("a,b",)


@pytest.mark.parametrize(
    ("text", "expected"), [("true", True), ("TRUE", True), ("1", True), ("t", True), ("false", False), ("0", False)]
)
def test_booleans_are_those_of_go(text, expected):
    assert read_settings(Example, {"SIMULATE_ONLY": text}).simulate_only is expected


def test_unknown_variables_are_ignored():
    assert read_settings(Example, {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "JOULIE_UNHEARD_OF": "1"}) == Example()


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        (
            "RECONCILE_INTERVAL",
            "20",
            "RECONCILE_INTERVAL=20: not a duration; write a duration such as 30s, 5m or 1h30m, or unset it for 1m",
        ),
        (
            "RECONCILE_INTERVAL",
            "-5s",
            (
                "RECONCILE_INTERVAL=-5s: Input should be greater than or equal to 0; "
                "write a duration such as 30s, 5m or 1h30m, or unset it for 1m"
            ),
        ),
        ("GRACE", "soon", "GRACE=soon: not a duration; write a duration such as 30s, 5m or 1h30m, or unset it"),
        (
            "SIMULATE_ONLY",
            "yes",
            "SIMULATE_ONLY=yes: must be true or false; write one of true, false, or unset it for false",
        ),
        (
            "MODE",
            "solo",
            "MODE=solo: Input should be 'pool' or 'daemonset'; write one of pool, daemonset, or unset it for pool",
        ),
        (
            "SHARDS",
            "0",
            "SHARDS=0: Input should be greater than or equal to 1; write a whole number, or unset it for 1",
        ),
        (
            "CAP_WATTS",
            "nan",
            "CAP_WATTS=nan: Input should be a finite number; write a number of watts, or unset it for 120",
        ),
        (
            "GPU_MODEL_CAPS_JSON",
            '{"H100": {"watts": "x"}}',
            (
                'GPU_MODEL_CAPS_JSON={"H100": {"watts": "x"}}: H100.watts: Input should be a valid number, '
                "unable to parse string as a number; write JSON, or unset it for {}"
            ),
        ),
    ],
)
def test_an_invalid_value_is_reported_with_the_reason_and_a_hint(name, value, line):
    assert lines_of(Example, {name: value}) == [line]


def test_json_that_is_nested_too_deeply_is_reported_in_one_short_line():
    (line,) = lines_of(Example, {"GPU_MODEL_CAPS_JSON": "[" * 100_000})
    assert line.startswith("GPU_MODEL_CAPS_JSON=[[")
    assert "nested too deeply" in line
    assert len(line) < 400


def test_invalid_json_is_reported():
    (line,) = lines_of(Example, {"GPU_MODEL_CAPS_JSON": "{"})
    assert line.startswith("GPU_MODEL_CAPS_JSON={: not JSON (")


def test_all_errors_are_reported_at_once():
    lines = lines_of(Example, {"SHARDS": "x", "MODE": "y", "SIMULATE_ONLY": "z", "GRACE": "w"})
    assert sorted(line.partition("=")[0] for line in lines) == ["GRACE", "MODE", "SHARDS", "SIMULATE_ONLY"]


def test_a_required_variable_that_is_missing_is_named():
    assert lines_of(Needy, {}) == ["NODE_NAME: required but not set; set it to text"]


def test_a_violated_rule_over_several_variables_is_reported():
    (line,) = lines_of(Needy, {"NODE_NAME": "n", "LOW": "3"})
    assert line == "settings: LOW must not be above HIGH; change one of these variables"


def test_settings_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        Example().shards = 2


def test_every_setting_is_described_as_it_is_written():
    rows = {row.name: row for row in describe(Example)}
    assert {name: (row.unit, row.default) for name, row in rows.items()} == {
        "RECONCILE_INTERVAL": ("duration", "1m"),
        "GRACE": ("duration", ""),
        "SIMULATE_ONLY": ("true|false", "false"),
        "MODE": ("pool|daemonset", "pool"),
        "KIND": ("a|b", "a"),
        "SHARDS": ("integer", "1"),
        "CAP_WATTS": ("W", "120"),
        "LABEL_KEYS": ("list", "x,y"),
        "GPU_MODEL_CAPS_JSON": ("JSON", "{}"),
    }
    assert rows["RECONCILE_INTERVAL"].doc == "How often."
    assert rows["GPU_MODEL_CAPS_JSON"].doc == "Caps by model."


def test_described_defaults_read_back_as_the_defaults():
    env = {row.name: row.default for row in describe(Example)}
    assert read_settings(Example, env) == Example()


def test_a_required_setting_is_described_as_such():
    assert describe(Needy)[0].required


def test_settings_of_every_process():
    read = read_settings(ServiceSettings, {"KUBECONFIG": "/k", "METRICS_ADDR": "127.0.0.1:0", "LOG_LEVEL": "DEBUG"})
    assert (read.kubeconfig, read.metrics_addr, read.log_level) == ("/k", "127.0.0.1:0", LogLevel.DEBUG)
    assert read.log_format is LogFormat.JSON
    assert all(row.doc for row in describe(ServiceSettings))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (":9876", Address("", 9876)),
        ("127.0.0.1:0", Address("127.0.0.1", 0)),
        ("[::1]:8080", Address("::1", 8080)),
        ("localhost:65535", Address("localhost", 65535)),
    ],
)
def test_addresses(text, expected):
    assert parse_addr(text) == expected


@pytest.mark.parametrize("text", ["", "8080", "host", ":", ":http", ":65536", "::1:8080", ":-1"])
def test_an_invalid_address_is_refused(text):
    with pytest.raises(ValueError, match=r"address|ambiguous"):
        parse_addr(text)


def test_an_invalid_address_is_reported_at_the_start():
    (line,) = lines_of(ServiceSettings, {"METRICS_ADDR": "8080"})
    assert line.startswith("METRICS_ADDR=8080: '8080' is not an address")
