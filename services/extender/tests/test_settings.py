"""Settings: the documents' names and defaults."""

import pytest

from joulie_api.settings import SettingsError, describe, read_settings
from joulie_extender.settings import ExtenderSettings

DOCUMENTED = {
    "EXTENDER_ADDR": ":9876",
    "METRICS_ADDR": ":9877",
    "CACHE_TTL": "30s",
    "TWIN_STALENESS_THRESHOLD": "5m",
    "MARGINAL_CPU_UTIL_COEFF": "0.8",
    "MARGINAL_GPU_UTIL_COEFF_STANDARD": "0.6",
    "MARGINAL_GPU_UTIL_COEFF_PERFORMANCE": "0.9",
    "ENABLE_FACILITY_METRICS": "false",
    "SCORE_MAX": "100",
    "SCORE_POLICY": "headroom_v1",
    "TELEMETRY_INTERVAL": "20s",
    "ASSUMED_WINDOW": "2s",
    "COUNT_IN_FLIGHT": "true",
}


@pytest.mark.parametrize(("name", "default"), DOCUMENTED.items())
def test_a_documented_variable_has_its_documented_default(name, default):
    assert {row.name: row.default for row in describe(ExtenderSettings)}[name] == default


def test_every_wrong_value_is_reported_at_once():
    wrong = {
        "CACHE_TTL": "soon",
        "SCORE_MAX": "0",
        "SCORE_POLICY": "headroom",
        "MARGINAL_CPU_UTIL_COEFF": "-1",
        "ENABLE_FACILITY_METRICS": "perhaps",
        "EXTENDER_ADDR": "9876",
    }
    with pytest.raises(SettingsError) as caught:
        read_settings(ExtenderSettings, wrong)
    assert {problem.name for problem in caught.value.problems} == set(wrong)


def test_coefficients_are_tunable():
    names = ("MARGINAL_CPU_UTIL_COEFF", "MARGINAL_GPU_UTIL_COEFF_STANDARD", "MARGINAL_GPU_UTIL_COEFF_PERFORMANCE")
    env = dict(zip(names, ("0.5", "0.4", "10"), strict=True))
    coefficients = read_settings(ExtenderSettings, env).coefficients
    assert (coefficients.cpu_util, coefficients.gpu_util_standard, coefficients.gpu_util_performance) == (0.5, 0.4, 10)


def test_the_gpus_of_device_classes_are_none_unless_they_are_set():
    assert read_settings(ExtenderSettings, {}).device_class_gpus_json == {}
    env = {"DEVICE_CLASS_GPUS_JSON": '{"small-mig": 0.25, "nic": 0}'}
    assert read_settings(ExtenderSettings, env).device_class_gpus_json == {"small-mig": 0.25, "nic": 0}


@pytest.mark.parametrize(
    ("name", "value"), [("MARGINAL_GPU_UTIL_COEFF_STANDARD", "10.5"), ("DEVICE_CLASS_GPUS_JSON", '{"nic": -0.5}')]
)
def test_a_figure_beyond_its_limits_is_refused(name, value):
    with pytest.raises(SettingsError, match=name):
        read_settings(ExtenderSettings, {name: value})
