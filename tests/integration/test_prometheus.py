"""Power readings and facility metrics from a real Prometheus, which scrapes the simulator and a small exporter.

Processes: prometheus, joulie-sim and joulie-operator, on an API server in the test's own process.
"""

import json
import sys
import time
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from tests.e2e.waiting import eventually
from tests.prometheus_server import PrometheusServer, needs_prometheus
from tools.dashboards.boards import OPERATOR

from joulie_devcluster.host.process import ServiceProcess, base_environment
from joulie_testing.api import make_node, make_node_bmc, make_pod

pytestmark = needs_prometheus
DEADLINE_S = 60.0
EPYC, H100 = "AMD EPYC 7763", "NVIDIA H100 80GB HBM3"
PLACE = {"joulie.io/rack": "r1", "joulie.io/cooling-zone": "cold"}
#: Values of the exporter. Watts of the counters, by series.
JOULES = {
    'kepler_node_cpu_joules_total{node_name="cpu-0",zone="package-0"}': 150.0,
    'kepler_node_cpu_joules_total{node_name="cpu-0",zone="package-1"}': 130.0,
    'kepler_node_cpu_joules_total{node_name="cpu-0",zone="dram"}': 40.0,
    'kepler_node_cpu_joules_total{node_name="gpu-0",zone="package-0"}': 200.0,
    'kepler_node_gpu_joules_total{node_name="gpu-0"}': 2_000.0,
    'kepler_node_cpu_joules_total{node_name="gpu-1",zone="package-0"}': 200.0,
    'kepler_node_platform_joules_total{node_name="cpu-0"}': 500.0,
    'kepler_node_platform_joules_total{node_name="vm-0"}': 90.0,
}
GAUGES = {
    "room_celsius": 20.0,
    'zone_celsius{zone="cold"}': 30.0,
    'feed_watts{feed="it"}': 100_000.0,
    'feed_watts{feed="cooling"}': 30_000.0,
    'rack_watts{rack="r1"}': 12_500.0,
}


@pytest.fixture
async def processes():
    """Processes to be started by the test; ended in reverse."""
    started = []
    yield started
    for process in reversed(started):
        await process.stop()


@pytest.fixture
async def exporter():
    """The port of a server that answers /metrics."""
    began_at = time.time()

    async def metrics(_request):
        elapsed_s = time.time() - began_at
        lines = [f"{series} {watts * elapsed_s}" for series, watts in JOULES.items()]
        lines += [f"{series} {value}" for series, value in GAUGES.items()]
        return web.Response(text="\n".join(lines) + "\n")

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield runner.addresses[0][1]
    await runner.cleanup()


async def start_prometheus(processes, directory, targets, rules=()):
    """Scrape the targets once a second; return the base URL."""
    server = PrometheusServer(directory, {name: [port] for name, port in targets.items()}, rules)
    processes.append(server)
    await server.start()
    return server.url


async def start(processes, name, argv, directory, *, env=None, ready):
    process = ServiceProcess(name, argv, log_path=directory / f"{name}.log", env=base_environment() | (env or {}))
    processes.append(process)
    await process.start()
    return await process.wait_for_log(ready, DEADLINE_S)


async def start_service(processes, name, directory, api, **env):
    """Start a service of Joulie and return the port of its metrics."""
    kubeconfig = {"KUBECONFIG": str(api.kubeconfig(directory)), "METRICS_ADDR": "127.0.0.1:0"}
    argv = [sys.executable, "-m", name.replace("-", "_")]
    match = await start(processes, name, argv, directory, env=kubeconfig | env, ready=r'"port": ?(\d+)')
    return int(match[1])


def operator_env(address, source, **env):
    return {
        "OPERATOR_NODE_POWER_SOURCE": source,
        "OPERATOR_NODE_POWER_PROMETHEUS_ADDRESS": address,
        "OPERATOR_NODE_POWER_POLL_INTERVAL": "500ms",
        "FACILITY_PROMETHEUS_ADDRESS": address,
        "FACILITY_POLL_INTERVAL": "500ms",
        "TWIN_INTERVAL": "200ms",
        "DOWNGRADE_SETTLE": "50ms",
        "STATIC_HP_FRAC": "1",
        **env,
    }


class Twins:
    """Twins on the API server."""

    def __init__(self, api):
        self._api = api

    def status(self, name):
        return (self._api.get("NodeTwin", name) or {}).get("status", {})

    def power(self, name):
        found = self.status(name).get("powerMeasurement", {})
        return found.get("source"), found.get("quality"), found.get("measuredNodePowerW")

    async def until(self, condition):
        await self._api.wait_for(condition, timeout_s=DEADLINE_S)


@pytest.fixture
def twins(fake_api):
    return Twins(fake_api)


def nodes():
    gpus = {"cpu_model": EPYC, "cpu_sockets": 2, "cpu": 256, "gpus": 8, "gpu_model": H100}
    return [
        make_node("cpu-0", cpu_model=EPYC, cpu_sockets=2, cpu=256, labels=PLACE),
        make_node("gpu-0", **gpus),
        make_node("gpu-1", **gpus),
        make_node("vm-0", cpu_model=EPYC, cpu_sockets=1, cpu=64),
    ]


async def test_keplers_joules_become_measured_watts(fake_api, twins, processes, exporter, tmp_path):
    fake_api.put_all(nodes())
    address = await start_prometheus(processes, tmp_path, {"kepler": exporter})
    await start_service(processes, "joulie-operator", tmp_path, fake_api, **operator_env(address, "kepler"))

    def measured(name, watts):
        source, quality, found = twins.power(name)
        return (source, quality) == ("kepler", "measured") and found == pytest.approx(watts, rel=0.1)

    await twins.until(lambda: measured("cpu-0", 280))
    await twins.until(lambda: measured("gpu-0", 2_200))
    await twins.until(lambda: measured("vm-0", 90))
    assert twins.power("gpu-1")[:2] == ("utilization", "modelled"), "a GPU node's CPUs alone are no measurement of it"


async def test_the_simulators_watts_and_the_facilitys_figures_arrive_in_the_twin(
    fake_api, twins, processes, exporter, tmp_path
):
    fake_api.put_all(nodes())
    fake_api.put(make_pod("load", node="cpu-0", cpu=200))
    simulator = await start_service(processes, "joulie-sim", tmp_path, fake_api)
    address = await start_prometheus(processes, tmp_path, {"simulator": simulator, "facility": exporter})
    facility = {
        "ENABLE_FACILITY_METRICS": "true",
        "FACILITY_AMBIENT_TEMP_METRIC": "room_celsius",
        "FACILITY_IT_POWER_METRIC": 'feed_watts{feed="it"}',
        "FACILITY_COOLING_POWER_METRIC": 'feed_watts{feed="cooling"}',
        "FACILITY_ZONE_AMBIENT_METRIC_TEMPLATE": 'zone_celsius{zone="{zone}"}',
        "FACILITY_RACK_POWER_METRIC_TEMPLATE": 'rack_watts{rack="{rack}"}',
        "OPERATOR_NODE_POWER_PROMETHEUS_QUERY": "joulie_sim_power_watts",
    }
    env = operator_env(address, "prometheus", **facility)
    await start_service(processes, "joulie-operator", tmp_path, fake_api, **env)

    def is_measured(name):
        return twins.power(name)[:2] == ("prometheus", "measured")

    await twins.until(lambda: all(is_measured(name) for name in ("cpu-0", "gpu-0", "vm-0")))
    await twins.until(lambda: twins.status("cpu-0").get("predictedPsuStressScore") == 25)
    await twins.until(lambda: twins.status("cpu-0").get("estimatedPUE") == 1.3)
    await twins.until(lambda: twins.status("vm-0").get("estimatedPUE") == 1.3)

    def stress(name):
        """Return cooling stress over the share of the TDP that is drawn: what the ambient air adds."""
        power = twins.status(name)["powerMeasurement"]
        drawn = power["measuredNodePowerW"] / power["nodeTdpW"] * 100
        return twins.status(name)["predictedCoolingStressScore"] / drawn

    await twins.until(lambda: stress("cpu-0") == pytest.approx(1.25, rel=0.02))
    await twins.until(lambda: stress("vm-0") == pytest.approx(1, rel=0.02))
    assert "predictedPsuStressScore" not in twins.status("vm-0")


async def test_a_prometheus_that_goes_away_leaves_the_last_reading_until_it_is_old(
    fake_api, twins, processes, exporter, tmp_path
):
    fake_api.put_all(nodes())
    address = await start_prometheus(processes, tmp_path, {"kepler": exporter})
    env = operator_env(address, "kepler", OPERATOR_NODE_POWER_MAX_AGE="2s")
    await start_service(processes, "joulie-operator", tmp_path, fake_api, **env)
    await twins.until(lambda: twins.power("cpu-0")[:2] == ("kepler", "measured"))
    await processes[0].stop()
    await twins.until(lambda: twins.power("cpu-0")[:2] == ("utilization", "modelled"))
    assert twins.power("cpu-0")[2] > 0


async def test_the_panels_about_sleeping_nodes_have_data_of_an_operator_that_recommends(fake_api, processes, tmp_path):
    fake_api.put_all(nodes())
    spec = {"nodeSelector": {"joulie.io/managed": "true"}, "mode": "Recommend"}
    policy = {"apiVersion": "joulie.io/v1alpha1", "kind": "NodeSleepPolicy", "metadata": {"name": "night"}}
    fake_api.put(policy | {"spec": spec})
    env = {"SLEEP_ENABLED": "true", "SLEEP_INTERVAL": "200ms", "STATIC_HP_FRAC": "1"}
    port = await start_service(processes, "joulie-operator", tmp_path, fake_api, **env)
    await start_prometheus(processes, tmp_path, {"operator": port})
    (row,) = (each for each in OPERATOR.rows if each.title == "Sleeping nodes")
    queries = [query.expression for panel in row.panels for query in panel.queries]

    async def answered():
        found = {query: await processes[-1].query(query) for query in queries}
        assert all(found.values()), found
        by_state = {each["metric"]["state"]: each["value"][1] for each in found[queries[0]]}
        assert by_state["Awake"] == "4"
        (saved,) = found[queries[2]]
        assert saved["metric"] == {"__name__": "joulie_operator_sleep_recommended_watts", "policy": "night"}

    await eventually(answered, within_s=DEADLINE_S)


async def test_critical_alerts_say_which_service_is_gone_while_a_node_sleeps(fake_api, processes, tmp_path):
    """The rules of the chart, without their waits, over a real operator and a real out-of-band service that end."""
    fake_api.put_all([*nodes()[1:], sleeping_node("cpu-0")])
    # There is no Secret, so that the BMC is never reached.
    bmc = make_node_bmc("cpu-0", spec={"desiredPower": "Off", "powerOff": "Allowed"})
    bmc["metadata"]["annotations"] = {"joulie.io/requested-power": "Off"}
    spec = {"nodeSelector": {"joulie.io/managed": "true"}, "mode": "Act", "minAwake": {"count": 0, "spare": 0}}
    policy = {
        "apiVersion": "joulie.io/v1alpha1",
        "kind": "NodeSleepPolicy",
        "metadata": {"name": "night"},
        "spec": spec,
    }
    fake_api.put_all([bmc, policy])
    env = {"SLEEP_ENABLED": "true", "SLEEP_INTERVAL": "200ms", "STATIC_HP_FRAC": "1"}
    operator = await start_service(processes, "joulie-operator", tmp_path, fake_api, **env)
    env = {"POD_NAMESPACE": "joulie-system", "BMC_POLL_INTERVAL": "200ms"}
    outofband = await start_service(processes, "joulie-outofband", tmp_path, fake_api, **env)
    rules = rules_without_waits(tmp_path)
    await start_prometheus(processes, tmp_path, {"operator": operator, "outofband": outofband}, [rules])
    *services, prometheus = processes

    async def fires(*names):
        found = await prometheus.query('ALERTS{severity="critical", alertstate="firing"}')
        assert {each["metric"]["alertname"] for each in found} == set(names)

    async def counts(expected):
        found = await prometheus.query("joulie:nodes_put_to_sleep")
        assert [each["value"][1] for each in found] == [expected]

    await eventually(lambda: counts("1"), within_s=DEADLINE_S)
    await eventually(lambda: fires("JoulieSleepingBmcUnreachable"), within_s=DEADLINE_S)
    assert fake_api.get("NodeBMC", "cpu-0")["spec"]["desiredPower"] == "Off", "the operator keeps the node asleep"
    await services[0].stop()
    both = ("JoulieSleepingBmcUnreachable", "JoulieNodesSleepWithoutOperator")
    await eventually(lambda: fires(*both), within_s=DEADLINE_S)
    await services[1].stop()
    gone = ("JoulieNodesSleepWithoutOperator", "JoulieNodesSleepWithoutOutOfBand")
    await eventually(lambda: fires(*gone), within_s=DEADLINE_S)
    await counts("1")


def sleeping_node(name):
    """Return the Node of a server that the operator has put to sleep."""
    node = nodes()[0]
    record = {"state": "Asleep", "since": time.time() - 600, "reason": "off_confirmed"}
    node["metadata"] |= {"name": name, "annotations": {"joulie.io/sleep-record": json.dumps(record)}}
    node["metadata"]["labels"] |= {"joulie.io/sleep-state": "asleep"}
    node["spec"]["taints"] = [{"key": "joulie.io/asleep", "effect": "NoSchedule"}]
    node["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    return node


def rules_without_waits(directory):
    """Return the rule file of the chart, whose alerts fire at once."""
    document = yaml.safe_load((Path(__file__).parents[2] / "helm" / "joulie" / "alerts.yaml").read_text())
    for rule in document["groups"][0]["rules"]:
        rule.pop("for", None)
    path = directory / "alerts.yaml"
    path.write_text(yaml.safe_dump(document))
    return path
