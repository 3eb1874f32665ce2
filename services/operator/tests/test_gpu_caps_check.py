"""What is logged where GPU_MODEL_CAPS_JSON does not do what its author expects."""

from structlog.testing import capture_logs

from joulie_core.caps import CapIntent, CapSettings
from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import view_from_node
from joulie_core.node import Node
from joulie_operator.gpu_caps_check import GpuCapsCheck

CAPS = {"performanceWatts": 650, "ecoWatts": 400}
GPU = view_from_node(Node("n1", labels={"nvidia.com/gpu.product": "NVIDIA-L40S"}), Inventory.load()).gpu


def check(*models, on=True):
    return GpuCapsCheck(CapSettings(gpu_write_absolute_caps=on, gpu_model_caps_json=dict.fromkeys(models, CAPS)))


def test_a_name_that_the_inventory_does_not_know_is_told_at_the_start_with_the_closest_known_ones():
    with capture_logs() as logs:
        check("H1OO", "NVIDIA-H100-80GB-HBM3").at_start()
    [said] = logs
    assert (said["log_level"], said["model"]) == ("warning", "H1OO")
    assert any("H100" in name for name in said["known"])


def test_entries_that_nothing_reads_are_told_at_the_start():
    with capture_logs() as logs:
        check("H100", on=False).at_start()
        check("H100").at_start()
        check(on=False).at_start()
    assert [each["models"] for each in logs] == [["H100"]]


def test_a_gpu_model_without_an_entry_is_told_once():
    with capture_logs() as logs:
        checked = check("H100")
        checked.on_caps(GPU, CapIntent(gpu_pct=60))
        checked.on_caps(GPU, CapIntent(gpu_pct=60))
        checked.on_caps(None, CapIntent())
        check("L40S").on_caps(GPU, CapIntent(gpu_watts=400))
        check().on_caps(GPU, CapIntent(gpu_pct=60))
    [said] = logs
    assert (said["model"], said["names"]) == ("NVIDIA L40S", ["NVIDIA-L40S"])
