"""Power intent: docs/decisions/0013-conventions.md."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from joulie_core.caps import CapIntent, CapSettings, intent_for
from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import view_from_node
from joulie_core.kinds.base import Profile
from joulie_core.labels import HW_CPU_MODEL, HW_CPU_SOCKETS, HW_GPU_COUNT, HW_GPU_MODEL
from joulie_core.names import NodeName
from joulie_core.node import Node

INVENTORY = Inventory.load()
CPU_LABELS = {HW_CPU_MODEL: "AMD EPYC 7763", HW_CPU_SOCKETS: "2"}
CPU_NODE = view_from_node(Node(NodeName("cpu"), labels=CPU_LABELS), INVENTORY)
GPU_NODE = view_from_node(
    Node(NodeName("gpu"), labels=CPU_LABELS | {HW_GPU_MODEL: "NVIDIA H100 80GB HBM3", HW_GPU_COUNT: "8"}), INVENTORY
)
H100 = GPU_NODE.gpu.model


def intent(profile, hardware, *, draining=False, **settings):
    return intent_for(profile, draining=draining, hardware=hardware, settings=CapSettings(**settings))


def test_percentages_are_published_by_default():
    assert intent(Profile.PERFORMANCE, CPU_NODE) == CapIntent(cpu_pct=100)
    assert intent(Profile.ECO, CPU_NODE) == CapIntent(cpu_pct=60)
    assert intent(Profile.PERFORMANCE, GPU_NODE) == CapIntent(cpu_pct=100, gpu_pct=100)


def test_the_default_eco_caps_are_not_below_the_knee_of_any_device():
    settings = CapSettings()
    for cpu in INVENTORY.cpus.values():
        knee = cpu.curve.response.knee_watts(cpu.max_watts, cpu.idle_watts)
        assert settings.cpu_eco_cap_pct_of_max / 100 * cpu.max_watts >= knee, cpu.model
    for gpu in INVENTORY.gpus.values():
        assert settings.gpu_eco_cap_pct_of_max / 100 * gpu.max_watts >= gpu.knee_watts, gpu.model


def test_an_eco_node_with_gpus_keeps_its_cpus_unless_their_own_setting_caps_them():
    assert intent(Profile.ECO, GPU_NODE) == CapIntent(cpu_pct=100, gpu_pct=60)
    assert intent(Profile.ECO, GPU_NODE, cpu_eco_cap_pct_of_max_gpu_nodes=80).cpu_pct == 80
    assert intent(Profile.ECO, GPU_NODE, cpu_write_absolute_caps=True) == CapIntent(cpu_pct=100, gpu_pct=60)


def test_eco_caps_at_the_knee_are_those_of_each_model_and_never_above_performance():
    gpu = intent(Profile.ECO, GPU_NODE, eco_caps_at_knee=True)
    # The knee of this model was not measured.
    assert gpu.gpu_pct == pytest.approx(0.75 * GPU_NODE.gpu.spec.natural_watts / GPU_NODE.gpu.max_watts * 100)
    assert gpu.cpu_pct == 100
    cpu = intent(Profile.ECO, CPU_NODE, eco_caps_at_knee=True)
    assert 20 < cpu.cpu_pct < 60
    low = {"cpu_performance_cap_pct_of_max": 10, "cpu_eco_cap_pct_of_max": 5}
    assert intent(Profile.ECO, CPU_NODE, eco_caps_at_knee=True, **low).cpu_pct == 10
    for profile, draining in ((Profile.PERFORMANCE, False), (Profile.ECO, True)):
        assert intent(profile, GPU_NODE, draining=draining, eco_caps_at_knee=True) == CapIntent(
            cpu_pct=100, gpu_pct=100
        )
    assert intent(Profile.ECO, None, eco_caps_at_knee=True) == CapIntent(cpu_pct=60)


def test_absolute_cpu_caps_are_watts_and_nothing_else():
    settings = {"cpu_write_absolute_caps": True, "eco_cap_watts": 150}
    assert intent(Profile.ECO, CPU_NODE, **settings) == CapIntent(cpu_watts=150)
    assert intent(Profile.PERFORMANCE, CPU_NODE, **settings) == CapIntent(cpu_watts=5000)


@given(
    st.sampled_from([CPU_NODE, GPU_NODE, None]),
    st.builds(
        CapSettings,
        cpu_eco_cap_pct_of_max=st.floats(1, 100),
        gpu_eco_cap_pct_of_max=st.floats(1, 100),
        cpu_write_absolute_caps=st.booleans(),
        gpu_write_absolute_caps=st.booleans(),
        gpu_model_caps_json=st.sampled_from([{}, {H100: {"performanceWatts": 700, "ecoWatts": 350}}]),
    ),
)
def test_a_draining_node_keeps_the_caps_of_performance(hardware, settings):
    draining = intent_for(Profile.ECO, draining=True, hardware=hardware, settings=settings)
    assert draining == intent_for(Profile.PERFORMANCE, draining=False, hardware=hardware, settings=settings)


@given(st.sampled_from(Profile), st.booleans(), st.booleans(), st.sampled_from([CPU_NODE, GPU_NODE, None]))
def test_no_watts_are_published_unless_configured_and_no_gpu_stanza_without_gpus(profile, draining, by_watts, hardware):
    caps = intent(profile, hardware, draining=draining, gpu_write_absolute_caps=by_watts)
    assert caps.cpu_watts is None
    assert caps.gpu_watts is None, "no model is configured"
    if hardware is not GPU_NODE:
        assert caps.gpu_target() is None


@pytest.mark.parametrize(
    ("caps", "performance", "eco"),
    [
        ({"performanceWatts": 650, "ecoWatts": 400}, 650, 400),
        ({"maxCapWatts": 700, "minCapWatts": 200}, 700, 420),
        ({"maxCapWatts": 700, "minCapWatts": 500}, 700, 500),
        ({"maxCapWatts": 700}, 700, 420),
    ],
)
def test_gpu_watts_of_a_configured_model_stand_beside_the_percentage(caps, performance, eco):
    settings = {"gpu_write_absolute_caps": True, "gpu_model_caps_json": {H100: caps}}
    assert intent(Profile.PERFORMANCE, GPU_NODE, **settings) == CapIntent(
        cpu_pct=100, gpu_pct=100, gpu_watts=performance
    )
    assert intent(Profile.ECO, GPU_NODE, **settings) == CapIntent(cpu_pct=100, gpu_pct=60, gpu_watts=eco)


def test_gpu_model_caps_are_read_by_their_json_names_whatever_the_names_of_the_other_settings():
    values = {"gpu_model_caps_json": {"H100": {"performanceWatts": 650, "ecoWatts": 400}}}
    settings = CapSettings.model_validate(values, by_alias=False, by_name=True)
    assert settings.gpu_model_caps_json["H100"].eco_watts == 400


def test_gpu_models_are_matched_without_case_and_punctuation():
    spelled = H100.upper().replace(" ", "-")
    caps = {spelled: {"performanceWatts": 650, "ecoWatts": 400}}
    settings = {"gpu_write_absolute_caps": True, "gpu_model_caps_json": caps}
    assert intent(Profile.ECO, GPU_NODE, **settings).gpu_watts == 400
    assert intent(Profile.ECO, GPU_NODE, gpu_model_caps_json=caps).gpu_watts is None, "the switch is off"


@pytest.mark.parametrize(
    "caps",
    [
        {},
        {"ecoWatts": 100},
        {"minCapWatts": 100},
        {"performanceWatts": 100, "ecoWatts": 100, "maxCapWatts": 100},
        {"maxCapWatts": 100, "minCapWatts": 200},
        {"performanceWatts": 400, "ecoWatts": 500},
        {"maxCapWatts": 0},
        {"maxcapwatts": 100},
    ],
)
def test_gpu_model_caps_that_make_no_sense_are_refused(caps):
    with pytest.raises(ValidationError, match="gpu_model_caps_json"):
        CapSettings(gpu_model_caps_json={"H100": caps})


@pytest.mark.parametrize(
    ("settings", "fields"),
    [
        ({"cpu_eco_cap_pct_of_max": 90, "cpu_performance_cap_pct_of_max": 80}, "CPU_ECO_CAP_PCT_OF_MAX 90 .* 80"),
        ({"gpu_eco_cap_pct_of_max": 90, "gpu_performance_cap_pct_of_max": 80}, "GPU_ECO_CAP_PCT_OF_MAX 90 .* 80"),
        ({"performance_cap_watts": 100}, "ECO_CAP_WATTS 120 is above PERFORMANCE_CAP_WATTS 100"),
        (
            {"cpu_eco_cap_pct_of_max_gpu_nodes": 95, "cpu_performance_cap_pct_of_max": 90},
            "CPU_ECO_CAP_PCT_OF_MAX_GPU_NODES 95 is above CPU_PERFORMANCE_CAP_PCT_OF_MAX 90",
        ),
        (
            {"gpu_model_caps_json": {"L4": {"performanceWatts": 50, "ecoWatts": 60}}},
            "ecoWatts 60 .*performanceWatts 50",
        ),
    ],
)
def test_an_eco_cap_above_the_performance_cap_is_refused_with_both_named(settings, fields):
    with pytest.raises(ValidationError, match=fields):
        CapSettings(**settings)


def test_the_default_of_eco_nodes_with_gpus_follows_the_performance_cap():
    assert intent(Profile.ECO, GPU_NODE, cpu_performance_cap_pct_of_max=90).cpu_pct == 90


@pytest.mark.parametrize("pct", [0, 100.1, -1])
def test_a_percentage_outside_its_range_is_refused(pct):
    with pytest.raises(ValidationError, match="cpu_eco_cap_pct_of_max"):
        CapSettings(cpu_eco_cap_pct_of_max=pct)


def test_intents_become_the_stanzas_of_the_resource():
    both = CapIntent(cpu_pct=60, gpu_pct=60, gpu_watts=420)
    assert both.cpu_target().dump() == {"packagePowerCapPctOfMax": 60}
    assert both.gpu_target().dump() == {"powerCap": {"scope": "perGpu", "capWattsPerGpu": 420, "capPctOfMax": 60}}
    assert CapIntent().cpu_target() is None
    assert CapIntent().gpu_target() is None
