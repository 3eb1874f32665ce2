"""What is logged where GPU_MODEL_CAPS_JSON has no effect."""

from structlog.testing import capture_logs

from joulie_core.caps import CapIntent, CapSettings
from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import view_from_node
from joulie_core.node import Node
from joulie_operator.gpu_caps_check import GpuCapsCheck, is_unlisted

CAPS = {"performanceWatts": 650, "ecoWatts": 400}
GPU = view_from_node(Node("n1", labels={"nvidia.com/gpu.product": "NVIDIA-L40S"}), Inventory.load()).gpu


def check(*models, on=True):
    return GpuCapsCheck(CapSettings(gpu_write_absolute_caps=on, gpu_model_caps_json=dict.fromkeys(models, CAPS)))


def test_a_name_that_the_inventory_does_not_know_is_logged_at_the_start_with_the_closest_known_ones():
    with capture_logs() as logs:
        check("H1OO", "NVIDIA-H100-80GB-HBM3").at_start()
    [line] = logs
    assert (line["log_level"], line["model"]) == ("warning", "H1OO")
    assert any("H100" in name for name in line["known"])


def test_entries_without_effect_are_logged_at_the_start():
    with capture_logs() as logs:
        check("H100", on=False).at_start()
        check("H100").at_start()
        check(on=False).at_start()
    assert [each["models"] for each in logs] == [["H100"]]


def test_a_gpu_model_is_unlisted_where_absolute_caps_are_configured_but_none_for_it():
    listed = CapSettings(gpu_write_absolute_caps=True, gpu_model_caps_json={"H100": CAPS})
    assert is_unlisted(CapIntent(gpu_pct=60), listed)
    assert not is_unlisted(CapIntent(gpu_watts=400), listed)
    assert not is_unlisted(CapIntent(gpu_pct=60), listed.model_copy(update={"gpu_write_absolute_caps": False}))
    assert not is_unlisted(CapIntent(gpu_pct=60), CapSettings(gpu_write_absolute_caps=True))


def test_an_unlisted_gpu_model_is_logged_once():
    with capture_logs() as logs:
        checked = check("H100")
        checked.on_unlisted(GPU)
        checked.on_unlisted(GPU)
    [line] = logs
    assert (line["model"], line["names"], line["configured"]) == ("NVIDIA L40S", ["NVIDIA-L40S"], ["H100"])
