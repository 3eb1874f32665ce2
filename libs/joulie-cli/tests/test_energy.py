import json

import pytest

from joulie_testing.api import make_telemetry_profile
from joulie_testing.cli import ago

KWH = 3.6e6


def of(namespace, workload, kwh, device="cpu", kind="allocated"):
    joules = kwh * KWH
    return {
        "namespace": namespace,
        "workload": workload,
        "device": device,
        "kind": kind,
        "joules": joules,
        "lowerJoules": joules / 2,
        "upperJoules": joules * 2,
    }


def report(*workloads, age_s=7300, unknown_s=0.0):
    devices = [
        {
            "device": "cpu",
            "podsJoules": 2 * KWH,
            "idleJoules": 3 * KWH,
            "unattributedJoules": KWH,
            "unknownSeconds": unknown_s,
        }
    ]
    return {"since": ago(age_s), "updatedAt": ago(10), "devices": devices, "workloads": list(workloads)}


def words(text):
    return [line.split() for line in text.splitlines()]


@pytest.fixture
def cluster(fake_api):
    train = of("ml", "job/train", 4.0, "gpu", "measured")
    fake_api.put(make_telemetry_profile("n1", energy=report(of("shop", "deployment/web", 1.5), train)))
    fake_api.put(make_telemetry_profile("n2", energy=report(of("shop", "deployment/web", 0.5), age_s=14500)))
    fake_api.put(make_telemetry_profile("n3"))
    return fake_api


async def test_workloads_are_summed_over_nodes_the_largest_first_with_their_bounds(cluster, cli):
    result = await cli("energy")

    assert result.code == 0
    assert words(result.out)[1:3] == [
        ["ml", "job/train", "gpu", "measured", "4.000", "2.000", "8.000"],
        ["shop", "deployment/web", "cpu", "allocated", "2.000", "1.000", "4.000"],
    ]
    assert "All nodes: pods 4.000 kWh, idle 6.000 kWh, unattributed 2.000 kWh." in result.out
    assert "2 nodes, added up for 2h to 4h." in result.out
    assert "No counter told" not in result.out


async def test_one_namespace_or_the_sums_of_all_are_shown(cluster, cli):
    cluster.put(make_telemetry_profile("n4", energy=report(of("shop", "job/mail", 1.0), of("", "other", 0.5))))

    one = words((await cli("energy", "-n", "shop")).out)
    assert [row[1] for row in one[1:3]] == ["deployment/web", "job/mail"]
    by_namespace = words((await cli("energy", "--by", "namespace")).out)
    assert by_namespace[1:4] == [
        ["ml", "-", "gpu", "measured", "4.000", "2.000", "8.000"],
        ["shop", "-", "cpu", "allocated", "3.000", "1.500", "6.000"],
        ["-", "-", "cpu", "allocated", "0.500", "0.250", "1.000"],
    ]


async def test_energy_is_also_data(cluster, cli):
    data = json.loads((await cli("energy", "-o", "json")).out)

    assert data["workloads"][0] == {
        "namespace": "ml",
        "workload": "job/train",
        "device": "gpu",
        "kind": "measured",
        "joules": 4 * KWH,
        "lowerJoules": 2 * KWH,
        "upperJoules": 8 * KWH,
    }
    assert set(data["nodes"]) == {"n1", "n2"}


async def test_time_that_no_counter_told_and_nodes_without_pods_are_said(fake_api, cli):
    fake_api.put(make_telemetry_profile("n1", energy=report(unknown_s=90.0)))

    result = await cli("energy")

    assert "No pod has had energy yet." in result.out
    assert "No counter told the energy of 90s" in result.out
    assert "1 node, added up for 2h." in result.out


async def test_agents_that_do_not_add_it_up_are_explained(fake_api, cli):
    fake_api.put(make_telemetry_profile("n1"))

    result = await cli("energy")

    assert result.code == 3
    assert "agent.energyByPod.enabled" in result.err


async def test_a_report_that_cannot_be_read_is_named_and_the_others_are_shown(cluster, cli):
    broken = make_telemetry_profile("n9")
    broken["spec"]["target"] = {"scope": "nowhere"}
    cluster.put(broken)

    result = await cli("energy")

    assert words(result.out)[1][1] == "job/train"
    assert "TelemetryProfile n9" in result.out
