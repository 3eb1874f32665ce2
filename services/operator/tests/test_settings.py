"""The settings of the operator."""

import pytest

from joulie_api.settings import SettingsError, read_settings
from joulie_core.policy import build_policy
from joulie_operator.settings import settings_model


def read(**env):
    return read_settings(settings_model(), env)


def test_defaults_are_those_of_the_documents():
    settings = read()
    assert {
        name: getattr(settings, name.lower())
        for name in (
            "METRICS_ADDR",
            "NODE_SELECTOR",
            "RESERVED_LABEL_KEY",
            "POLICY_TYPE",
            "RECONCILE_INTERVAL",
            "STATIC_HP_FRAC",
            "QUEUE_HP_BASE_FRAC",
            "QUEUE_HP_MIN",
            "QUEUE_HP_MAX",
            "QUEUE_PERF_PER_HP_NODE",
            "PERFORMANCE_CAP_WATTS",
            "ECO_CAP_WATTS",
            "CPU_PERFORMANCE_CAP_PCT_OF_MAX",
            "CPU_ECO_CAP_PCT_OF_MAX",
            "CPU_ECO_CAP_PCT_OF_MAX_GPU_NODES",
            "GPU_PERFORMANCE_CAP_PCT_OF_MAX",
            "GPU_ECO_CAP_PCT_OF_MAX",
            "CPU_WRITE_ABSOLUTE_CAPS",
            "GPU_WRITE_ABSOLUTE_CAPS",
            "GPU_MODEL_CAPS_JSON",
            "ENABLE_FACILITY_METRICS",
            "FACILITY_POLL_INTERVAL",
            "RACK_CAPACITY_WATTS",
        )
    } == {
        "METRICS_ADDR": ":8081",
        "NODE_SELECTOR": "joulie.io/managed=true",
        "RESERVED_LABEL_KEY": "joulie.io/reserved",
        "POLICY_TYPE": "static_partition",
        "RECONCILE_INTERVAL": 60,
        "STATIC_HP_FRAC": 0.5,
        "QUEUE_HP_BASE_FRAC": 0.6,
        "QUEUE_HP_MIN": 1,
        "QUEUE_HP_MAX": 1_000_000,
        "QUEUE_PERF_PER_HP_NODE": 10,
        "PERFORMANCE_CAP_WATTS": 5000,
        "ECO_CAP_WATTS": 120,
        "CPU_PERFORMANCE_CAP_PCT_OF_MAX": 100,
        "CPU_ECO_CAP_PCT_OF_MAX": 60,
        "CPU_ECO_CAP_PCT_OF_MAX_GPU_NODES": 100,
        "GPU_PERFORMANCE_CAP_PCT_OF_MAX": 100,
        "GPU_ECO_CAP_PCT_OF_MAX": 60,
        "CPU_WRITE_ABSOLUTE_CAPS": False,
        "GPU_WRITE_ABSOLUTE_CAPS": False,
        "GPU_MODEL_CAPS_JSON": {},
        "ENABLE_FACILITY_METRICS": False,
        "FACILITY_POLL_INTERVAL": 30,
        "RACK_CAPACITY_WATTS": 50_000,
    }


def test_all_errors_are_reported_at_once():
    with pytest.raises(SettingsError) as refused:
        read(POLICY_TYPE="best", STATIC_HP_FRAC="2", ECO_CAP_WATTS="many", RECONCILE_INTERVAL="0s")
    assert {problem.name for problem in refused.value.problems} == {
        "POLICY_TYPE",
        "STATIC_HP_FRAC",
        "ECO_CAP_WATTS",
        "RECONCILE_INTERVAL",
    }


@pytest.mark.parametrize(
    ("env", "why"),
    [
        ({"QUEUE_HP_MIN": "5", "QUEUE_HP_MAX": "4"}, "QUEUE_HP_MIN 5 is above QUEUE_HP_MAX 4"),
        (
            {"CPU_ECO_CAP_PCT_OF_MAX": "90", "CPU_PERFORMANCE_CAP_PCT_OF_MAX": "80"},
            "CPU_ECO_CAP_PCT_OF_MAX 90 is above CPU_PERFORMANCE_CAP_PCT_OF_MAX 80",
        ),
        ({"ENABLE_FACILITY_METRICS": "true"}, "FACILITY_PROMETHEUS_ADDRESS must be set"),
        ({"OPERATOR_NODE_POWER_SOURCE": "http"}, "OPERATOR_NODE_POWER_HTTP_ENDPOINT must be set"),
        ({"OPERATOR_NODE_POWER_SOURCE": "prometheus"}, "ADDRESS and OPERATOR_NODE_POWER_PROMETHEUS_QUERY must be set"),
        ({"OPERATOR_NODE_POWER_SOURCE": "kepler"}, "OPERATOR_NODE_POWER_PROMETHEUS_ADDRESS must be set"),
        ({"LEASE_DURATION": "5s", "LEASE_RENEW_DEADLINE": "5s"}, "LEASE_DURATION must be above"),
        ({"TWIN_HEARTBEAT": "1s"}, "TWIN_HEARTBEAT must not be below"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(env, why):
    with pytest.raises(SettingsError, match=why):
        read(**env)


def test_the_selected_policy_gets_its_settings():
    settings = read(POLICY_TYPE="queue_aware_v1", QUEUE_PERF_PER_HP_NODE="3")
    policy = build_policy(settings.policy_type, dict(settings))
    assert policy.settings.queue_perf_per_hp_node == 3


def test_lists_and_json_are_read():
    settings = read(
        GPU_PRODUCT_LABEL_KEYS="example.com/gpu,nvidia.com/gpu.product",
        GPU_MODEL_CAPS_JSON='{"H100": {"performanceWatts": 700, "ecoWatts": 400}}',
        RACK_CAPACITY_JSON='{"rack-7": 30000}',
    )
    assert settings.gpu_product_label_keys == ("example.com/gpu", "nvidia.com/gpu.product")
    assert settings.gpu_model_caps_json["H100"].eco_watts == 400
    assert settings.rack_capacity_json == {"rack-7": 30_000}


def test_the_lease_lies_in_the_operators_namespace():
    assert read().lease_namespace == "joulie-system"
    assert read(POD_NAMESPACE="here").lease_namespace == "here"
    assert read(POD_NAMESPACE="here", OPERATOR_NAMESPACE="there").lease_namespace == "there"


@pytest.mark.parametrize(
    "host", ["http://x/", "proxy.example:8443", "x.example/ui", "a b", "*.example", "-x", "a" * 64]
)
def test_what_cannot_be_a_host_name_of_the_live_page_is_refused(host):
    with pytest.raises(SettingsError, match=r"UI_HOSTS=.*is no host name; write the name alone"):
        read(UI_HOSTS=f"good.example,{host}")


def test_host_names_of_the_live_page_are_compared_without_regard_to_case():
    assert read(UI_HOSTS="Proxy.Example, ops-1").ui_hosts == ("proxy.example", "ops-1")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NODE_SELECTOR", "a in (b"),
        ("OPERATOR_NODE_POWER_HTTP_ENDPOINT", "file:///etc/passwd"),
        ("OPERATOR_NODE_POWER_PROMETHEUS_ADDRESS", "prometheus:9090"),
        ("FACILITY_PROMETHEUS_ADDRESS", "http://"),
    ],
)
def test_selectors_and_addresses_that_cannot_work_are_refused_by_name(name, value):
    with pytest.raises(SettingsError, match=name):
        read(**{name: value})
