import json

import pytest

from joulie_testing.api import Respond, make_telemetry_profile
from joulie_testing.cli import ago, words

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


FACTORS = {
    "pricePerKwh": "0.25",
    "currency": "EUR",
    "gramsCo2ePerKwh": "350",
    "co2eKind": "average",
    "co2eSource": "grid operator, 2025",
}


def put_factors(fake_api, namespace="joulie-system", **changes):
    metadata = {"name": "joulie-energy-factors", "namespace": namespace}
    fake_api.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {**FACTORS, **changes}})


async def test_money_and_emissions_are_columns_with_the_kind_of_their_figure(cluster, cli):
    put_factors(cluster)

    result = await cli("energy")

    heading, first, second = result.out.splitlines()[:3]
    assert heading.split()[-3:] == ["EUR", "kgCO2e", "average"]
    assert first.split()[-2:] == ["1.00", "1.40"]
    assert second.split()[-2:] == ["0.50", "0.70"]
    assert "Money: 0.25 EUR for each kWh." in result.out
    assert "CO2e: 350 g for each kWh, average emissions. Source: grid operator, 2025" in result.out
    assert (result.code, result.err) == (0, "")


async def test_money_and_emissions_are_also_data_with_their_bounds(cluster, cli):
    put_factors(cluster, co2eKind="marginal")

    data = json.loads((await cli("energy", "-o", "json")).out)

    assert data["workloads"][0]["money"] == {"lower": 0.5, "point": 1.0, "upper": 2.0}
    assert data["workloads"][0]["co2eKilograms"] == pytest.approx({"lower": 0.7, "point": 1.4, "upper": 2.8})
    assert data["factors"] == {
        "price": {"perKwh": 0.25, "currency": "EUR"},
        "emissions": {"gramsPerKwh": 350.0, "kind": "marginal", "source": "grid operator, 2025"},
    }


async def test_without_the_config_map_there_is_neither(cluster, cli):
    text, data = (await cli("energy")).out, json.loads((await cli("energy", "-o", "json")).out)

    assert "CO2e" not in text
    assert "Money" not in text
    assert data["factors"] == {"price": None, "emissions": None}
    assert not {"money", "co2eKilograms"} & set(data["workloads"][0])


@pytest.mark.parametrize("value", ["NaN", "-1", "1e308"])
async def test_an_invalid_config_map_is_an_error_and_the_energy_is_shown_all_the_same(cluster, cli, value):
    put_factors(cluster, pricePerKwh=value)

    result = await cli("energy")

    assert result.code == 3
    assert f"ConfigMap joulie-energy-factors: key pricePerKwh: '{value}' is not a decimal number" in result.err
    assert "kubectl edit configmap joulie-energy-factors -n joulie-system" in result.err
    assert words(result.out)[1] == ["ml", "job/train", "gpu", "measured", "4.000", "2.000", "8.000"]
    assert "CO2e" not in result.out


async def test_the_config_map_is_that_of_the_release(cluster, cli):
    put_factors(cluster, namespace="power")

    assert "EUR" not in (await cli("energy", "-n", "shop")).out
    assert "EUR" in (await cli("energy", "-n", "shop", "--release-namespace", "power")).out


async def test_who_may_not_read_the_config_map_sees_the_energy_and_why_no_money(cluster, cli):
    body = b'{"kind": "Status", "reason": "Forbidden", "message": "no"}'
    cluster.faults.add(Respond(403, body=body), path="/configmaps/", times=None)

    result = await cli("energy")

    assert result.code == 0
    assert words(result.out)[1][1] == "job/train"
    assert "Money and CO2e are not known" in result.out
    assert "the Role joulie-viewer" in " ".join(result.out.split())
