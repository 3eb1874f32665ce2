import json

from joulie_testing.api import make_telemetry_profile
from joulie_testing.cli import ago


def device(index=0, held_as="standard", reason="AllStandard", *, holders=(("train", "standard"),), **more):
    listed = [
        {"namespace": "ml", "pod": pod, "container": "main", "workloadClass": workload_class}
        for pod, workload_class in holders
    ]
    return {
        "uuid": f"GPU-{index}",
        "index": index,
        "heldAs": held_as,
        "reason": reason,
        "holders": listed,
        "holderCount": len(listed),
        **more,
    }


def words(text):
    return [line.split() for line in text.splitlines()]


async def test_each_gpu_is_shown_with_its_holders_and_the_reason(fake_api, cli):
    shared = device(1, "performance", "PerformancePod", holders=(("a", "standard"), ("b", "performance")), watts=301.0)
    free = device(2, "free", "NoPod", holders=())
    fake_api.put(
        make_telemetry_profile("n1", devices=[device(watts=287.5), shared, free], power={"updatedAt": ago(7300)})
    )

    result = await cli("devices", "n1")

    assert result.code == 0
    assert words(result.out)[1:5] == [
        ["0", "standard", "288", "AllStandard", "ml/train", "main,", "standard"],
        ["1", "performance", "301", "PerformancePod", "ml/a", "main,", "standard"],
        ["ml/b", "main,", "performance"],
        ["2", "free", "-", "NoPod", "-"],
    ]
    assert "Watts were read 2h" in result.out


async def test_a_reason_with_details_and_holders_that_are_not_listed_are_said(fake_api, cli):
    crowded = device(0, "unknown", "NotListed", message="pod ml/init requests GPUs") | {"holderCount": 12}
    fake_api.put(make_telemetry_profile("n1", devices=[crowded]))

    result = await cli("devices", "n1")

    assert "and 11 more" in result.out
    assert "GPU 0: pod ml/init requests GPUs" in result.out
    assert "Watts were read" not in result.out


async def test_devices_are_also_data(fake_api, cli):
    fake_api.put(make_telemetry_profile("n1", devices=[device()]))

    data = json.loads((await cli("devices", "n1", "-o", "json")).out)

    assert data[0]["heldAs"] == "standard"
    assert data[0]["holders"][0]["pod"] == "train"


async def test_a_node_without_gpus_has_none(fake_api, cli):
    fake_api.put(make_telemetry_profile("n1", devices=[]))

    assert "knows no GPU" in (await cli("devices", "n1")).out


async def test_an_agent_that_does_not_follow_holders_is_explained(fake_api, cli):
    fake_api.put(make_telemetry_profile("n1"))

    result = await cli("devices", "n1")

    assert result.code == 3
    assert "agent.holders.enabled" in result.err


async def test_a_node_without_a_report_is_explained(fake_api, cli):
    result = await cli("devices", "nix")

    assert result.code == 3
    assert "node 'nix' has no report" in result.err
