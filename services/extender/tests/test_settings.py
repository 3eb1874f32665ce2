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
    env = {"MARGINAL_CPU_UTIL_COEFF": "0.5", "MARGINAL_GPU_UTIL_COEFF_STANDARD": "0.4"}
    coefficients = read_settings(ExtenderSettings, env).coefficients
    assert (coefficients.cpu_util, coefficients.gpu_util_standard, coefficients.gpu_util_performance) == (0.5, 0.4, 0.9)
