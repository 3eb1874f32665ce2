"""Texts of a cluster are printed without characters that control a terminal."""

import json

import msgspec
import pytest
import yaml
from rich.console import Console

from joulie_cli.__main__ import main
from joulie_cli.arguments import VERBS
from joulie_cli.layout import Cell, TableColumn, plain, table
from joulie_cli.output import styled
from joulie_cli.verbs import completion
from joulie_cli.verbs.top import TopView, screen
from joulie_cli.views.nodes import NodeMarks, decode_report, decode_target, decode_twin
from joulie_cli.views.rows import join
from joulie_testing.api import (
    Respond,
    make_node,
    make_node_bmc,
    make_node_hardware,
    make_pod,
    make_power_domain,
    make_power_event,
)
from joulie_testing.cli import ago, extender_service, make_event, managed_node, service_pod

#: Colour, title of the window, C1 control, DEL, another direction of text, a forged line, a line that is overwritten.
POISON = "\x1b[31mred\x1b]0;title\x07\x9b2J\x7f\u202eevil\nerror: forged\rover"
CONTROLS = ("\x1b", "\x07", "\x9b", "\x7f", "\u202e", "\r")
#: Texts that anybody on a node, or with a pod, may choose.
FREE = {
    "workload",
    "message",
    "reason",
    "backend",
    "source",
    "quality",
    "model",
    "rawModel",
    "driverFamily",
    "gitVersion",
    "image",
}
PROXY = "/api/v1/namespaces/joulie-system/services/http:joulie-scheduler-extender:http/proxy"
NOT_READING = {"completion", "top"}
COMMANDS = [
    ("status",),
    ("nodes",),
    ("nodes", "-o", "wide"),
    ("explain", "node", "n1"),
    ("explain", "pod", "train"),
    ("why-pending", "train"),
    ("profile", "n1"),
    ("devices", "n1"),
    ("energy",),
    ("energy", "--since", "24h", "--prometheus", "monitoring/prometheus"),
    ("savings",),
    ("power",),
    ("power", "rack"),
    ("event",),
    ("event", "cut"),
    ("doctor",),
    ("events",),
    ("wake", "n1"),
    ("wake", "n2"),
    ("sleep",),
    ("maintenance", "n1", "--reason", f"fan {POISON}"),
]
#: The message about a device and the name of a workload are cleaned when they are decoded, and a ledger has no texts.
AS_DATA = [
    each
    for each in COMMANDS
    if "wide" not in each and each != ("wake", "n2") and each[0] not in {"devices", "energy", "savings"}
]


_DOMAIN_STATUS = {
    "lastUpdated": ago(5),
    "lowered": [{"node": "n1", "wantedWatts": 400, "allocatedWatts": 300, "reason": "limit of rack"}],
    "conditions": [{"type": "Accepted", "status": "False", "reason": "Cycle", "message": "its parents lead back"}],
}
_EVENT_STATUS = {
    "lastUpdated": ago(5),
    "state": "Active",
    "bindingEvent": "cut",
    "minutes": [{"start": ago(60), "drawnWatts": 900.0, "targetWatts": 950.0, "samples": 6, "quality": "measured"}],
    "conditions": [{"type": "Accepted", "status": "False", "reason": "DepthNotReachable", "message": "900 W"}],
}


def poisoned(part, key=""):
    """Return an object with each of its free texts followed by the poison."""
    if isinstance(part, dict):
        return {name: poisoned(value, name) for name, value in part.items()}
    if isinstance(part, (list, tuple)):
        return [poisoned(value, key) for value in part]
    return f"{part}{POISON}" if isinstance(part, str) and key in FREE else part


def some_objects():
    condition = {
        "type": "Enforced",
        "status": "False",
        "reason": "Locked",
        "message": "cpu",
        "lastTransitionTime": ago(9),
    }
    cpu = {"result": "blocked", "reason": "Locked", "message": "package-0", "requestedWatts": 180}
    hardware = make_node_hardware("n1")
    hardware["status"] = {"cpu": {"model": "EPYC", "rawModel": "AMD EPYC", "sockets": 2, "warnings": ["odd"]}}
    node, target, twin, report = managed_node("n1", "eco", cpu=cpu, conditions=(condition,), server_watts=400)
    node["status"]["conditions"] = [
        {"type": "joulie.io/Asleep", "status": "True", "reason": "Asleep", "message": "asleep: idle"}
    ]
    node["metadata"]["labels"]["joulie.io/sleep-state"] = "asleep"
    report["status"]["devices"] = [{"uuid": "GPU-0", "reason": "PodsNotRead", "message": "no contact"}]
    workload = {"namespace": "ml", "workload": "job/train", "device": "gpu", "kind": "measured"}
    joules = {"joules": 5.0, "lowerJoules": 5.0, "upperJoules": 5.0}
    report["status"]["energy"] = {"since": ago(99), "updatedAt": ago(9), "workloads": [workload | joules]}
    target["spec"]["policy"] = {"name": "queue_aware_v1", "reason": "2 of 4 nodes"}
    bmc = make_node_bmc("n1")
    bmc["status"] = {
        "conditions": [{"type": "Reachable", "status": "False", "reason": "TimedOut", "message": "no answer"}]
    }
    pod = make_pod("train", workload_class="performance")
    pod["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
    ]
    return [
        node,
        target,
        twin,
        report,
        hardware,
        bmc,
        pod,
        make_power_domain("rack", status=_DOMAIN_STATUS),
        make_power_event("cut", status=_EVENT_STATUS),
        make_node("n2", labels={"joulie.io/sleep-state": "quarantined"}),
        service_pod("operator", "n1"),
        service_pod("agent", "n1", owner="DaemonSet"),
        extender_service(),
        make_event("Node", "n1", "EcoAllowed", "because", at=ago(60)),
        make_event("Pod", "train", "FailedScheduling", "0/1 nodes", component="default-scheduler", at=ago(5)),
    ]


def explained(name):
    refused = {"allowed": False, "reason": "EcoNode", "message": "node is eco"}
    terms = {"headroom": 68.2, "cooling": 15.0, "trend": 0.0, "profile": 0.0, "pressure": -1.5}
    node = {
        "nodeName": name, "score": 50.0, "terms": terms, "projectedHeadroom": 97.4, "marginalCpuW": 41.0,
        "marginalGpuW": 0.0, "neutral": None, "filter": refused, "schedulableClass": "eco", "headroom": None,
        "coolingStress": None, "measuredPowerW": None, "assumedPowerW": 12.0, "cappedPowerW": 400.0, "nodeTdpW": 600.0,
        "powerTrendWPerMin": 0.0, "estimatedPUE": None, "twinAgeS": 3.0, "performancePods": refused,
        "standardPods": refused, "stale": False, "baseScore": 50.0, "cpuTotalCores": 0, "cpuTotalThreads": 0,
        "cpuMaxWattsTotal": 0, "gpuCount": 0, "gpuMaxWattsPerGpu": 0, "hasGpu": False,
    }  # fmt: skip
    cluster = {"trendWPerMin": 0.0, "trendScale": 6.0, "perfPressure": 0.0, "problem": f"no contact {POISON}"}
    demand = {"cpu_cores": 8.0, "gpus": 0.0, "memory_bytes": 0.0, "workload_class": "performance"}
    return poisoned({"scorePolicy": "headroom_v1", "cluster": cluster, "pod": demand, "nodes": [node]})


def energy_of_a_day():
    labels = {"joulie_figure": "energy", "device": "cpu", "kind": "allocated"}
    free = {"namespace": f"ml{POISON}", "workload": f"job/train{POISON}"}
    seen = {"joulie_figure": "seen", "node": f"n1{POISON}"}
    result = [
        {"metric": labels | free, "value": [1.0, "5"]},
        {"metric": labels | free | {"kind": "x"}, "value": [1.0, "NaN"]},
        {"metric": seen, "value": [1.0, "5"]},
    ]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


@pytest.fixture
def hostile(fake_api):
    """A cluster in which each free text has the poison."""
    objects = [poisoned(each) for each in some_objects()]
    # A message belongs to the state that its reason names, which only the operator writes.
    objects[0]["status"]["conditions"][0]["reason"] = "Asleep"
    fake_api.put_all(objects)
    body = msgspec.json.encode(explained("n1"))
    fake_api.faults.add(Respond(200, body=body), path=f"{PROXY}/debug", times=None)
    energy = msgspec.json.encode(energy_of_a_day())
    fake_api.faults.add(Respond(200, body=energy), path="/http:prometheus:9090/proxy/", times=None)
    version = json.dumps(poisoned({"gitVersion": "v1.34.4"})).encode()
    fake_api.faults.add(Respond(200, body=version), path="/version", times=None)
    return fake_api


def _name(command):
    return " ".join(command[:3]).partition(" --")[0]


def assert_harmless(text):
    assert text
    assert [each for each in CONTROLS if each in text] == []
    assert not any(line.startswith("error: forged") for line in text.splitlines())


def test_every_verb_that_prints_texts_of_the_cluster_is_tested():
    assert {verb for verb, *_ in COMMANDS} == set(VERBS) - NOT_READING


@pytest.mark.parametrize("command", COMMANDS, ids=_name)
async def test_a_verb_prints_no_control_character_of_the_cluster(hostile, cli, command):
    result = await cli(*command)
    assert_harmless(result.out + result.err)


@pytest.mark.parametrize("command", AS_DATA, ids=_name)
async def test_data_is_exact_and_has_no_control_character_either(hostile, cli, command):
    as_json, as_yaml = [await cli(*command, "-o", form) for form in ("json", "yaml")]
    for result in (as_json, as_yaml):
        assert [each for each in CONTROLS if each in result.out] == []
    # Of `maintenance`, the text is the own argument, which is clean before it is stored.
    if command[0] not in {"nodes", "wake", "maintenance"}:
        assert POISON in "".join(texts(json.loads(as_json.out))), "the text itself, escaped as JSON has it"
        assert POISON in "".join(texts(yaml.safe_load(as_yaml.out)))


def texts(part):
    if isinstance(part, dict):
        part = [*part, *part.values()]
    if isinstance(part, list):
        return [text for each in part for text in texts(each)]
    return [part] if isinstance(part, str) else []


def test_top_shows_no_control_character_of_the_cluster(capsys):
    encode = msgspec.json.encode
    _, target, twin, report = (encode(poisoned(each)) for each in managed_node("n1", "eco", server_watts=400))
    marks = NodeMarks("n1", {"joulie.io/power-profile": f"eco{POISON}", "joulie.io/rack": f"r1{POISON}"})
    rows = join([marks], [decode_target(target)], [decode_twin(twin)], [decode_report(report)], now_s=0)
    lines = screen(rows, TopView("name"), server=f"https://x{POISON}", problem=f"away {POISON}", width=200, height=24)
    console = Console(highlight=False)
    for line in lines:
        console.print(styled(line))
    assert_harmless(capsys.readouterr().out)


def test_an_error_keeps_its_lines_and_loses_control_characters(capsys, monkeypatch, tmp_path):
    kubeconfig = tmp_path / "evil"
    kubeconfig.write_text(json.dumps({"contexts": [], "current-context": f"x{POISON}"}))
    with pytest.raises(SystemExit) as ended:
        main(["status", "--kubeconfig", str(kubeconfig)])
    assert ended.value.code == 3
    written = capsys.readouterr().err
    assert [each for each in CONTROLS if each in written] == []
    assert written.startswith("error: ")
    assert "\n  choose a file with --kubeconfig" in written


def test_completion_prints_no_control_character_of_the_cluster(capsys, monkeypatch):
    monkeypatch.setattr(completion, "complete", lambda _words: [f"n1{POISON}"])
    completion.main()
    assert_harmless(capsys.readouterr().out)


def test_columns_are_aligned_by_what_is_shown():
    rows = [[Cell(f"a{POISON}"), Cell("1")], [Cell("b"), Cell("2")]]
    lines = table([TableColumn("NAME"), TableColumn("VALUE")], rows)
    assert len({len(line[0].text) for line in lines}) == 1


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (
            None,
            [
                "NAME                    REASON               WATTS",
                "a-node.of.a.long.name.  nothing to do there    217",
            ],
        ),
        (48, ["NAME                  REASON               WATTS", "a-node.of.a.long.na…  nothing to do there    217"]),
        (40, ["NAME              REASON           WATTS", "a-node.of.a.lon…  nothing to do …    217"]),
        (10, ["NAME      REASON    WATTS", "a-node.…  nothing…    217"]),
    ],
)
def test_the_widest_columns_of_a_table_are_cut_and_figures_never(width, expected):
    columns = [TableColumn("NAME", elastic=True), TableColumn("REASON", elastic=True), TableColumn("WATTS", right=True)]
    rows = [[Cell("a-node.of.a.long.name."), Cell("nothing to do there"), Cell("217")]]
    assert plain(table(columns, rows, width)).splitlines() == expected
