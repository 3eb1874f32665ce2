"""The agent's environment and the nodes it makes its own: docs/settings.md."""

import pytest

from joulie_agent.scope import scope_of
from joulie_agent.settings import AgentSettings
from joulie_api.settings import SettingsError, describe, read_settings
from joulie_core.fnv import shard_of
from joulie_core.kinds.telemetry_profile import ControlType, SourceType
from joulie_core.labels import MANAGED
from joulie_core.names import NodeName
from joulie_core.node import Node

POOL = {"AGENT_MODE": "pool"}


def read(**env):
    return read_settings(AgentSettings, env)


def faults(**env):
    with pytest.raises(SettingsError) as caught:
        read(**env)
    return str(caught.value)


def test_the_defaults_are_the_contracts():
    rows = {row.name: row.default for row in describe(AgentSettings)}
    assert (
        rows
        | {
            "AGENT_MODE": "daemonset",
            "METRICS_ADDR": ":8080",
            "RECONCILE_INTERVAL": "20s",
            "POOL_NODE_SELECTOR": "joulie.io/managed=true",
            "HOST_SYS_ROOT": "/host-sys",
            "SIMULATE_ONLY": "false",
            "DVFS_EMA_ALPHA": "0.3",
            "DVFS_TRIP_COUNT": "2",
            "DVFS_COOLDOWN": "20s",
            "DVFS_MIN_FREQ_KHZ": "1500000",
            "DVFS_INTERVAL": "2s",
            "DVFS_MODE": "proportional",
            "ECO_ENERGY_PERFORMANCE_PREFERENCE": "",
            "ECO_UNCORE_MAX_FREQ_MHZ": "0",
            "TELEMETRY_HTTP_TIMEOUT_SECONDS": "5",
        }
        == rows
    )
    dvfs = read(**POOL).dvfs
    assert (dvfs.high_margin_watts, dvfs.low_margin_watts, dvfs.step_pct) == (10, 15, 10)


def test_a_daemonset_needs_its_node():
    assert "NODE_NAME" in faults()
    assert scope_of(read(NODE_NAME="n1")).field_selector == "metadata.name=n1"


@pytest.mark.parametrize(
    ("env", "shown"),
    [
        ({}, False),
        ({"HOLDERS_SOCKET": "/s"}, True),
        ({"HOLDERS_SOCKET": "/s", "CLASS_LIMITS": "Shadow"}, True),
        ({"HOLDERS_SOCKET": "/s", "CLASS_LIMITS": "Enforce"}, True),
        ({"HOLDERS_SOCKET": "/s", "CLASS_LIMITS": "Off"}, False),
        ({"CLASS_LIMITS": "Off"}, False),
    ],
)
def test_limits_by_class_are_shown_where_holders_are_followed_unless_they_are_off(env, shown):
    assert read(NODE_NAME="n1", **env).shows_class_limits is shown


@pytest.mark.parametrize("mode", ["Shadow", "Enforce"])
def test_limits_by_class_without_holders_are_refused_with_the_way_out(mode):
    found = faults(NODE_NAME="n1", CLASS_LIMITS=mode)
    assert f"CLASS_LIMITS is {mode} and HOLDERS_SOCKET is not set" in found
    assert "Set agent.holders.enabled of the chart, or CLASS_LIMITS to Off" in found


def test_enforcing_limits_by_class_is_refused_where_administrators_lock_clocks():
    found = faults(NODE_NAME="n1", HOLDERS_SOCKET="/s", CLASS_LIMITS="Enforce", GPU_CLOCK_FALLBACK="false")
    assert "CLASS_LIMITS is Enforce and GPU_CLOCK_FALLBACK is off" in found


@pytest.mark.parametrize("mode", ["Shadow", "Off"])
def test_a_start_hook_is_refused_where_no_limit_is_set(mode):
    found = faults(NODE_NAME="n1", HOLDERS_SOCKET="/s", CLASS_LIMITS=mode, START_HOOK_SOCKET="/h")
    assert "START_HOOK_SOCKET is set and CLASS_LIMITS is not Enforce" in found


def test_nothing_is_set_by_class_unless_it_is_said():
    settings = read(NODE_NAME="n1", HOLDERS_SOCKET="/s")
    assert (settings.class_limits, settings.default_slowdown_is_consent) == (None, False)


@pytest.mark.parametrize("value", ["5%", "10", "50 %"])
def test_a_default_slowdown_that_no_pod_could_allow_is_refused(value):
    assert "DEFAULT_MAX_SLOWDOWN" in faults(NODE_NAME="n1", DEFAULT_MAX_SLOWDOWN=value)


def test_a_shard_comes_from_the_ordinal_of_the_pod_unless_it_is_set():
    assert read(**POOL, POOL_SHARDS="4", POD_NAME="joulie-agent-pool-3").shard_id == 3
    assert read(**POOL, POOL_SHARDS="4", POD_NAME="joulie-agent-pool-3", POOL_SHARD_ID="1").shard_id == 1
    assert read(**POOL).shard_id == 0


def test_a_shard_that_cannot_be_or_does_not_exist_stops_the_start():
    assert "POOL_SHARD_ID" in faults(**POOL, POOL_SHARDS="2", POD_NAME="joulie-agent-x7f")
    assert "shard 2" in faults(**POOL, POOL_SHARDS="2", POOL_SHARD_ID="2")


def test_every_wrong_value_is_named_at_once():
    text = faults(**POOL, DVFS_EMA_ALPHA="1.5", DVFS_COOLDOWN="soon", TELEMETRY_CPU_CONTROL="smoke")
    assert all(name in text for name in ("DVFS_EMA_ALPHA", "DVFS_COOLDOWN", "TELEMETRY_CPU_CONTROL"))


def test_http_without_an_endpoint_stops_the_start():
    text = faults(**POOL, TELEMETRY_CPU_SOURCE="http", TELEMETRY_GPU_CONTROL="http")
    assert "TELEMETRY_CPU_HTTP_ENDPOINT" in text
    assert "TELEMETRY_GPU_CONTROL_HTTP_ENDPOINT" in text


def test_the_environment_becomes_the_default_route():
    route = read(
        **POOL,
        TELEMETRY_CPU_SOURCE="http",
        TELEMETRY_CPU_HTTP_ENDPOINT="http://sim/telemetry/{node}",
        TELEMETRY_GPU_CONTROL="none",
        TELEMETRY_HTTP_TIMEOUT_SECONDS="9",
    ).default_route
    assert route.cpu_source.type is SourceType.HTTP
    assert (route.cpu_source.http.endpoint, route.cpu_source.http.timeout_seconds) == ("http://sim/telemetry/{node}", 9)
    assert route.gpu_source == route.cpu_source
    assert (route.cpu_control.type, route.gpu_control.type) == (ControlType.HOST, ControlType.NONE)


def test_each_node_of_a_pool_has_exactly_one_shard():
    scopes = [scope_of(read(**POOL, POOL_SHARDS="3", POOL_SHARD_ID=str(shard))) for shard in range(3)]
    for index in range(300):
        node = Node(name=NodeName(f"n{index}"))
        assert [scope.owns(node) for scope in scopes].index(True) == shard_of(node.name, 3)
        assert sum(scope.owns(node) for scope in scopes) == 1


@pytest.mark.parametrize(("name", "value"), [("ENERGY_BY_POD", "true"), ("HOLDERS_SOCKET", "/run/holders")])
def test_a_pool_follows_nothing_of_the_machine_it_runs_on(name, value):
    with pytest.raises(SettingsError, match=name):
        read(**POOL, **{name: value})


def test_processes_of_gpus_need_holders():
    with pytest.raises(SettingsError, match="DEVICE_PROCESSES is set and HOLDERS_SOCKET is not"):
        read(NODE_NAME="n1", DEVICE_PROCESSES="true")
    assert read(NODE_NAME="n1", DEVICE_PROCESSES="true", HOLDERS_SOCKET="/run/holders").device_processes


def test_receipts_need_energy_by_pod():
    with pytest.raises(SettingsError, match="ENERGY_RECEIPTS is set and ENERGY_BY_POD is not"):
        read(NODE_NAME="n1", ENERGY_RECEIPTS="true")
    assert read(NODE_NAME="n1", ENERGY_RECEIPTS="true", ENERGY_BY_POD="true").energy_receipts
    assert not read(NODE_NAME="n1", ENERGY_BY_POD="true").energy_receipts


def test_a_daemonset_owns_its_node_only_while_that_is_managed():
    scope = scope_of(read(NODE_NAME="n1"))
    assert scope.owns(Node(name=NodeName("n1"), labels={MANAGED: "true"}))
    assert not scope.owns(Node(name=NodeName("n1")))
    assert not scope.owns(Node(name=NodeName("n2"), labels={MANAGED: "true"}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NODE_NAME", "../x"),
        ("NODE_NAME", "N1"),
        ("NODE_NAME", "a" * 254),
        ("POOL_NODE_SELECTOR", "a in (b"),
        ("POOL_NODE_SELECTOR", "a=b,"),
        ("POOL_NODE_SELECTOR", "a b"),
        ("TELEMETRY_CPU_HTTP_ENDPOINT", "file:///"),
        ("TELEMETRY_CPU_HTTP_ENDPOINT", "backend:18080"),
        ("TELEMETRY_CPU_CONTROL_HTTP_ENDPOINT", "http://h:99999"),
        ("TELEMETRY_GPU_CONTROL_HTTP_ENDPOINT", "http:///path"),
    ],
)
def test_a_value_that_no_other_system_would_take_is_reported_at_the_start(name, value):
    assert f"{name}=" in faults(**{"NODE_NAME": "n1", name: value})


@pytest.mark.parametrize(
    "selector",
    ["a", "!a", "a=b", "a==b, c!=d", "joulie.io/managed=true", "a in (b, c),d notin (e)", "a=", "n>3", "zone in ()"],
)
def test_a_label_selector_in_the_grammar_of_kubernetes_is_accepted(selector):
    assert read(NODE_NAME="n1", POOL_NODE_SELECTOR=selector).pool_node_selector == selector


def test_all_invalid_values_are_reported_at_once_and_no_password_with_them():
    text = faults(NODE_NAME="../x", TELEMETRY_CPU_HTTP_ENDPOINT="ftp://user:secret@h/")
    assert "NODE_NAME=" in text
    assert "TELEMETRY_CPU_HTTP_ENDPOINT=" in text
    assert "secret" not in text
