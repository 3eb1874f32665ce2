import json

import msgspec
import pytest

from joulie_testing.api import Respond, make_node, make_node_power_budget, make_pod, make_telemetry_profile
from joulie_testing.cli import ago, extender_service

CLUSTER = {"trendWPerMin": 0.0, "trendScale": 6.0, "perfPressure": 0.0, "problem": None}
PROXY = "/api/v1/namespaces/joulie-system/services/http:joulie-scheduler-extender:http/proxy"


def judged(*, allowed=True, reason="PerformanceNode", message="node supplies performance"):
    return {"allowed": allowed, "reason": reason, "message": message}


def explained(name, score, *, neutral=None, **filter_):
    terms = {"headroom": 68.2, "cooling": 15.0, "trend": 0.0, "profile": 0.0, "pressure": -1.5}
    return {
        "nodeName": name,
        "score": score,
        "terms": terms,
        "projectedHeadroom": 97.4,
        "marginalCpuW": 41.0,
        "marginalGpuW": 0.0,
        "neutral": neutral,
        "filter": judged(**filter_),
    }


def answer(*nodes, problem=None):
    demand = {"cpu_cores": 8.0, "gpus": 0.0, "memory_bytes": 0.0, "workload_class": "performance"}
    return {"scorePolicy": "headroom_v1", "cluster": {**CLUSTER, "problem": problem}, "pod": demand, "nodes": nodes}


REFUSED = {"allowed": False, "reason": "EcoNode", "message": "joulie: node is eco, performance pods are kept off it"}


@pytest.fixture
def proxied(fake_api):
    """The Service of an extender, and what its proxy answers."""
    fake_api.put(extender_service())
    fake_api.put_all([make_node("n1"), make_node("n2"), make_pod("train", "ml", cpu=8, workload_class="performance")])

    def script(body, status=200):
        raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
        fake_api.faults.add(Respond(status, body=raw), path=f"{PROXY}/debug", times=None)

    return script


async def test_a_pods_scores_are_shown_term_by_term_with_refusals(fake_api, cli, proxied):
    proxied(answer(explained("n2", 81.7), explained("n1", 30.0, **REFUSED)))
    result = await cli("explain", "pod", "train", "-n", "ml")
    assert result.code == 0
    text = " ".join(result.out.split())
    assert "performance: its annotation joulie.io/workload-class is performance" in text
    assert "1 allowed, 1 refused" in result.out
    rows = [line.split() for line in result.out.splitlines()]
    assert ["n2", "81.7", "68.2", "15.0", "0.0", "0.0", "-1.5", "41", "W"] in rows
    assert "refused, EcoNode: 1 node: node is eco, performance pods are kept off it: n1" in text
    assert "up to 70 points for power that is free" in result.out
    body = fake_api.requests.find(verb="create", kind="Service")[0].json()
    assert (body["NodeNames"], body["Pod"]["metadata"]["name"]) == (["n1", "n2"], "train")


async def test_the_stated_run_time_is_shown_with_what_nodes_cover_of_it(cli, proxied):
    stated = answer(explained("n2", 81.7) | {"coveredShare": 7 / 9}, explained("n1", 30.0) | {"coveredShare": 0.0})
    stated["pod"]["run_s"] = 5_400.0
    proxied(stated)
    result = await cli("explain", "pod", "train", "-n", "ml")
    text = " ".join(result.out.split())
    assert "1h30m0s at most, as it states" in text
    rows = [line.split() for line in result.out.splitlines()]
    assert ["n2", "81.7", "68.2", "15.0", "0.0", "0.0", "-1.5", "78%", "41", "W"] in rows
    assert ["n1", "30.0", "68.2", "15.0", "0.0", "0.0", "-1.5", "0%", "41", "W"] in rows
    assert "COVERED of the pod's run time" in text


@pytest.mark.parametrize("share", [{}, {"coveredShare": 0.0}])
async def test_a_pod_whose_run_time_is_not_covered_or_stated_has_no_column_for_it(cli, proxied, share):
    proxied(answer(explained("n2", 81.7) | share))
    result = await cli("explain", "pod", "train", "-n", "ml")
    assert "COVERED" not in result.out
    assert "as it states" not in result.out


async def test_the_best_nodes_come_first_and_the_rest_is_counted(fake_api, cli, proxied):
    proxied(answer(*(explained(f"n{number}", float(number)) for number in range(12))))
    result = await cli("explain", "pod", "train", "-n", "ml", "--most", "2")
    assert [line.split()[0] for line in result.out.splitlines() if line.startswith("n")] == ["n11", "n10"]
    assert "10 more nodes score less" in result.out


async def test_a_neutral_score_is_explained_and_has_no_terms(cli, proxied):
    proxied(answer(explained("n1", 50.0, neutral="StaleTwin")))
    result = await cli("explain", "pod", "train", "-n", "ml")
    assert ["n1", "50.0", "-", "-", "-", "-", "-", "41", "W"] in [line.split() for line in result.out.splitlines()]
    assert "neutral score, as the node's twin is too old: n1" in result.out


async def test_the_extenders_own_problem_is_shown(cli, proxied):
    proxied(answer(explained("n1", 50.0), problem="nodes: no contact for 40 s"))
    text = " ".join((await cli("explain", "pod", "train", "-n", "ml")).out.split())
    assert "old: nodes: no contact for 40 s" in text


def known_node(**changes):
    return {
        "nodeName": "n1", "schedulableClass": "eco", "headroom": None, "coolingStress": None, "measuredPowerW": None,
        "assumedPowerW": 12.0, "cappedPowerW": 400.0, "nodeTdpW": 600.0, "powerTrendWPerMin": 0.0, "estimatedPUE": None,
        "baseScore": 50.0, "cpuTotalCores": 0, "cpuTotalThreads": 0, "cpuMaxWattsTotal": 0, "gpuCount": 0,
        "gpuMaxWattsPerGpu": 0, "hasGpu": False, "stale": True, "performancePods": REFUSED,
        "standardPods": judged(reason="StandardPod", message="standard pods run on every node"), **changes,
    }  # fmt: skip


async def test_a_nodes_state_is_shown_with_unknown_values(cli, proxied):
    proxied({**answer(), "nodes": [known_node()]})
    result = await cli("explain", "node", "n1")
    assert "refused, EcoNode: node is eco, performance pods are kept off it" in " ".join(result.out.split())
    assert "an unknown number of watts of 400 W" in result.out
    assert "- cores, - threads, maximum power unknown" in result.out
    assert "stale: its numbers do not count" in result.out
    assert "allowed, StandardPod: standard pods run on every node" in result.out
    assert "Sleep" not in result.out


APPLIED = {"result": "applied", "reason": "Capped", "backend": "rapl"}
GPUS = [
    {"uuid": "u0", "index": 0, "classLimit": {"enforced": {"reason": "Set", "limitMhz": 1410}}},
    {"uuid": "u1", "index": 1, "classLimit": {"enforced": {"reason": "NoConsent"}}},
    {"uuid": "u2", "index": 2, "classLimit": {"clockMhz": 1200}},
    {"uuid": "u3", "index": 3, "classLimit": {"watts": 250}},
    {"uuid": "u4", "index": 4, "classLimit": {"reason": "Free"}},
]


async def test_what_binds_each_subsystem_of_a_node_is_named_with_its_domain(fake_api, cli, proxied):
    control = {
        "cpu": APPLIED | {"requestedWatts": 150, "enforcedWatts": 150, "capSource": "budget"},
        "gpu": APPLIED | {"requestedWatts": 300, "enforcedWatts": 310, "capSource": "profile", "result": "error"},
    }
    fake_api.put(make_telemetry_profile("n1", control=control, devices=GPUS))
    fake_api.put_all(
        [make_node_power_budget(name, limit_watts=900, powerDomain=f"rack-{name}") for name in ("n1", "n2")]
    )
    domains = [{"domain": "rack-n1", "availableW": 12.0}, {"domain": "feed", "availableW": None}]
    proxied({**answer(), "nodes": [known_node(powerDomains=domains)]})
    text = " ".join((await cli("explain", "node", "n1")).out.split())
    for each in (
        "CPU cap 150 W for each package, by the power budget of power domain rack-n1, 900 W for the node",
        (
            "GPU cap 310 W for each GPU, by the profile, below the power budget of power domain rack-n1, 900 W for the "
            "node; 300 W asked: error, Capped"
        ),
        "GPU 0 1410 MHz by the class of its holders (Set)",
        "GPU 1 no limit by the class of its holders (NoConsent)",
        "GPU 2 would have 1200 MHz by the class of its holders; it is not set",
        "GPU 3 would have 250 W by the class of its holders; it is not set",
        "Domain rack-n1 can supply 12 W more",
        "Domain feed can supply an unknown number of watts more",
    ):
        assert each in text
    assert "GPU 4" not in text
    data = json.loads((await cli("explain", "node", "n1", "-o", "json")).out)
    assert data["caps"]["control"]["cpu"]["capSource"] == "budget"
    assert data["caps"]["powerBudget"]["powerDomain"] == "rack-n1"


async def test_a_node_without_a_budget_is_capped_by_its_profile_and_no_budget_is_read(fake_api, cli, proxied):
    control = {
        "cpu": APPLIED | {"requestedWatts": 150, "enforcedWatts": 150},
        "gpu": {"result": "none", "reason": "NoProfile"},
    }
    fake_api.put(make_telemetry_profile("n1", control=control))
    proxied({**answer(), "nodes": [known_node()]})
    text = " ".join((await cli("explain", "node", "n1")).out.split())
    assert "CPU cap 150 W for each package, by the profile GPU cap none, NoProfile" in text
    assert not [each for each in fake_api.requests if each.kind == "NodePowerBudget"]


async def test_a_report_that_cannot_be_read_says_nothing_of_caps(fake_api, cli, proxied):
    fake_api.put(make_telemetry_profile("n1", control={"cpu": {"requestedWatts": -1}}))
    proxied({**answer(), "nodes": [known_node()]})
    result = await cli("explain", "node", "n1")
    assert result.code == 0
    assert "CPU cap" not in result.out


SLEEPING = {
    "allowed": False,
    "reason": "SleepingNode",
    "message": "joulie: node is asleep, or about to be; it is woken where pods have no other room",
}


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (("asleep", "Asleep"), ["Sleep asleep for 2h: off confirmed", "Woken by pods that", "kubectl joulie wake n1"]),
        (("powering-off", "PoweringOff"), ["Sleep powering-off for 2h: off confirmed", "Kept awake by pods that"]),
        (("waking", "Waking"), ["Sleep waking for 2h: off confirmed", "Takes pods once its BMC says that it is on"]),
        (("quarantined", "Quarantined"), ["Sleep quarantined", "kubectl joulie wake n1 --clear-quarantine"]),
        # The condition is written after the label.
        (("waking", "Asleep"), ["Sleep waking Takes pods"]),
    ],
)
async def test_a_node_that_is_not_awake_is_explained_with_reason_and_what_wakes_it(
    fake_api, cli, proxied, states, expected
):
    state, condition = states
    told = {"type": "joulie.io/Asleep", "status": "True", "reason": condition, "message": f"{condition}: off confirmed"}
    told["lastTransitionTime"] = ago(7300)
    fake_api.patch("Node", "n1", {"metadata": {"labels": {"joulie.io/sleep-state": state}}})
    fake_api.patch("Node", "n1", {"status": {"conditions": [told]}})
    proxied({**answer(), "nodes": [known_node(performancePods=SLEEPING, standardPods=SLEEPING)]})
    result = await cli("explain", "node", "n1")
    text = " ".join(result.out.split())
    for each in expected:
        assert each in text
    assert "Standard pods refused, SleepingNode: node is asleep, or about to be" in text
    assert max(map(len, result.out.splitlines())) <= 80
    data = json.loads((await cli("explain", "node", "n1", "-o", "json")).out)
    assert data["sleep"]["state"] == state


async def test_json_is_the_extenders_answer(cli, proxied):
    proxied(answer(explained("n1", 50.0)))
    found = json.loads((await cli("explain", "pod", "train", "-n", "ml", "-o", "json")).out)
    assert found["nodes"][0]["terms"]["cooling"] == 15.0


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (404, b"nothing is known of a node n9\n", "does not know it: nothing is known of a node n9"),
        (
            503,
            b"no endpoints available",
            "cannot reach the extender joulie-system/joulie-scheduler-extender: no endpoints available",
        ),
        (403, b"cannot create services/proxy", "forbidden: cannot create services/proxy"),
        (400, b"no Pod in the request", "answered 400: no Pod in the request"),
        (200, b"<html>", "is not Joulie's extender"),
    ],
)
async def test_a_failing_extender_is_named_with_a_way_out(cli, proxied, status, body, expected):
    proxied(body, status)
    result = await cli("explain", "node", "n9")
    assert result.code == 3
    assert expected in result.err


async def test_a_missing_extender_is_named(fake_api, cli):
    result = await cli("explain", "node", "n1")
    assert result.code == 3
    assert "the extender is not installed" in result.err
    assert "--extender-url" in result.err


async def test_an_unknown_pod_is_named_with_its_namespace(fake_api, cli):
    result = await cli("explain", "pod", "nix")
    assert result.code == 3
    assert "namespace 'default' has no pod 'nix'" in result.err


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "not a url"])
async def test_an_extender_url_that_does_not_answer_is_named(cli, url):
    result = await cli("explain", "node", "n1", "--extender-url", url)
    assert result.code == 3
    assert f"--extender-url {url}: cannot reach it" in result.err
