from pathlib import Path

import pytest

from joulie_api.presets import DEFAULT_PRESET, PresetName
from joulie_core.hardware.inventory import Inventory
from joulie_core.kinds.node_hardware import Exactness
from joulie_devcluster.control_plane.nodes import node_manifests
from joulie_sim.demo.options import parse_options
from joulie_sim.demo.scenario import make_scenario
from joulie_sim.workload.openb import NodeGroup
from joulie_sim.workload.openb_csv import NODE_FILE, POD_FILE, TraceError
from joulie_sim.workload.openb_nodes import node_classes

GROUPS = (
    NodeGroup("", 0, 32000, 262144, 2),
    NodeGroup("G2", 8, 96000, 393216, 3),
    NodeGroup("V100M16", 1, 8000, 32768, 1),
)


def test_the_defaults_are_forty_nodes_and_a_few_hundred_pods_in_three_hours_of_which_three_minutes_pass():
    options = parse_options([])
    assert options.sleeps
    assert (options.duration_s, options.time_scale.speed) == (180.0, 60.0)
    scenario = make_scenario(options)
    assert scenario.node_count == 40
    assert len(scenario.items) == 400
    assert max(item.arrives_s for item in scenario.items) <= 3 * 3600.0


def test_pods_of_a_run_in_which_nodes_sleep_are_few_then_many_then_few_and_can_end_in_time():
    items = make_scenario(parse_options([])).items
    early, middle, late = (sum(low * 60 <= item.arrives_s < (low + 20) * 60 for item in items) for low in (10, 70, 120))
    assert middle > 2 * early
    assert middle > 2 * late
    # The longest takes 36 minutes on the slowest nodes.
    assert items[-1].arrives_s + 36 * 60 <= 3 * 3600.0


def test_a_run_in_which_no_node_sleeps_is_not_scaled():
    options = parse_options(["--preset", "score"])
    assert (options.sleeps, options.time_scale.speed) == (False, 1.0)
    assert max(item.arrives_s for item in make_scenario(options).items) <= 180.0


@pytest.mark.parametrize(
    ("argv", "preset", "title"),
    [
        ([], PresetName.SLEEP, "preset sleep"),
        (["--kind"], DEFAULT_PRESET, f"preset {DEFAULT_PRESET}"),
        (["--preset", "documents"], PresetName.DOCUMENTS, "preset documents"),
        (["--policy", "queue_lead_v1"], PresetName.DOCUMENTS, "queue_lead_v1"),
    ],
)
def test_the_demo_has_the_preset_with_sleep_or_another_or_a_policy(argv, preset, title):
    options = parse_options(argv)
    assert options.preset is preset
    assert make_scenario(options).title.endswith(f", {title}")


def test_every_generated_pod_fits_some_node():
    scenario = make_scenario(parse_options(["--nodes", "40", "--pods", "500"]))
    for item in scenario.items:
        assert any(
            item.cpu_milli <= 1000 * found.cpu.cores * found.cpu.threads_per_core
            and (
                not item.gpus
                or (found.gpu and found.gpu.resource == item.gpu_resource and item.gpus <= found.gpu.count)
            )
            for found in scenario.classes
        )


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--nodes", "0"], "between 1 and"),
        (["--nodes", "many"], "not a number"),
        (["--duration", "1"], "between 20 and"),
        (["--policy", "magic"], "invalid choice"),
        (["--preset", "sleep", "--kind"], "its nodes have no BMCs"),
        (["--preset", "sleep", "--trace", "openb", "x"], "its times are not scaled"),
        (["--nodes", "201"], "more than 200 nodes have no BMCs"),
        (["--preset", "score", "--policy", "queue_aware_v1"], "not allowed with"),
        (["--trace", "other", "x"], "only supported trace"),
        (["--trace", "openb", "x", "--nodes", "3"], "--scale"),
        (["--scale", "0.5"], "--nodes"),
        (["--day", "--kind"], "--day cannot be used with --kind"),
    ],
)
def test_a_wrong_command_line_ends_with_the_reason(argv, expected, capsys):
    with pytest.raises(SystemExit) as end:
        parse_options(argv)
    assert end.value.code == 2
    assert expected in capsys.readouterr().err


def test_trace_nodes_become_classes_whose_models_the_inventory_knows():
    classes = node_classes(GROUPS)
    assert [found.name for found in classes] == ["cpu-32t-256g", "g2x8-96t-384g", "v100m16x1-8t-32g"]
    inventory = Inventory.load()
    for found in classes:
        assert inventory.find_cpu(found.cpu.model).exactness is Exactness.EXACT
        assert found.gpu is None or inventory.find_gpu(found.gpu.model).exactness is Exactness.EXACT
    manifests = node_manifests(classes)
    assert len(manifests) == 6
    assert manifests[2]["status"]["capacity"]["cpu"] == "96"
    assert manifests[2]["status"]["capacity"]["nvidia.com/gpu"] == "8"


def test_a_trace_is_replayed_from_its_two_files(tmp_path: Path):
    (tmp_path / NODE_FILE).write_text("sn,cpu_milli,memory_mib,gpu,model\nn0,32000,262144,0,\nn1,96000,393216,8,G2\n")
    header = (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"
    )
    (tmp_path / POD_FILE).write_text(
        f"{header}\np0,12000,16384,1,1000,,LS,Running,0,1000,0\np1,1,1,0,0,,BE,Running,5,9,5\n"
    )
    scenario = make_scenario(parse_options(["--trace", "openb", str(tmp_path), "--duration", "100"]))
    assert scenario.node_count == 2
    assert [item.name for item in scenario.items] == ["p0", "p1"]
    assert scenario.items[1].arrives_s == 65.0


def test_a_directory_without_the_trace_is_named(tmp_path):
    with pytest.raises(TraceError, match=NODE_FILE):
        make_scenario(parse_options(["--trace", "openb", str(tmp_path)]))
