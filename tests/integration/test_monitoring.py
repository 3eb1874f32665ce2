"""Alerts, dashboards and their documentation agree with each other and with the metrics."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.chart import POOL, RESOURCE_MANAGER, VEN, Helm, containers
from tools.dashboards.boards import BOARDS
from tools.dashboards.panels import all_queries

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm" / "joulie"
RULES = yaml.safe_load((CHART / "alerts.yaml").read_text())["groups"][0]["rules"]
ALERTS = [rule for rule in RULES if "alert" in rule]
#: Names of series that the rules record.
RECORDED = {rule["record"] for rule in RULES if "record" in rule}
#: Names of metrics in an expression; histograms by the name before the suffix.
METRIC = re.compile(r"\b(joulie_[a-z_]+?|process_[a-z_]+?)(?:_bucket|_sum|_count)?(?=[^a-z_]|$)")


def documented() -> set[str]:
    return set(re.findall(r"^\| `([a-z_]+)` \|", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.get("alert") or rule["record"])
def test_a_rule_uses_documented_metrics_and_series_that_rules_record(rule: dict[str, Any]) -> None:
    assert set(METRIC.findall(rule["expr"])) <= documented()
    assert set(re.findall(r"\bjoulie:\w+", rule["expr"])) <= RECORDED


def test_dashboards_use_documented_metrics() -> None:
    for board, expression in all_queries(BOARDS):
        used = {name for name in METRIC.findall(expression) if not name.startswith("joulie_sim_")}
        assert used <= documented(), (board, expression)


def test_every_alert_has_a_section_and_a_test_in_which_it_fires() -> None:
    alerts = [rule["alert"] for rule in ALERTS]
    sections = re.findall(r"^### (\w+)$", (ROOT / "docs" / "troubleshooting.md").read_text(), re.MULTILINE)
    assert sorted(sections) == sorted(alerts)
    tests = yaml.safe_load((ROOT / "tests" / "integration" / "alerts.yaml").read_text())["tests"]
    fired = {case["alertname"] for test in tests for case in test["alert_rule_test"] if case.get("exp_alerts")}
    assert fired == set(alerts)
    listed = re.findall(r"`(Joulie\w+)`", (ROOT / "docs" / "monitoring.md").read_text())
    assert sorted(listed) == sorted(alerts)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool on the path (Debian: prometheus)")
def test_alerts_fire_when_they_should_and_not_otherwise() -> None:
    run = subprocess.run(
        ["promtool", "test", "rules", str(ROOT / "tests" / "integration" / "alerts.yaml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_panels_of_a_dashboard_are_distinct_and_do_not_overlap() -> None:
    for board in BOARDS:
        made = json.loads((CHART / "dashboards" / f"{board.name}.json").read_text())
        places = [
            (x, y)
            for panel in made["panels"]
            for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
            for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
        ]
        assert len(places) == len(set(places)), board.name
        titles = [panel["title"] for panel in made["panels"]]
        assert len(titles) == len(set(titles)), board.name


OUT_OF_BAND = {"outofband": {"enabled": True, "secrets": ["bmc"]}}
#: Components whose pods have one port for metrics, whatever the values.
ONE_PORT = {name: ["metrics"] for name in ("operator", "extender", "outofband", "ven")}
MONITORING = {
    "monitoring": {
        "labels": {"release": "prom"},
        **{name: {"enabled": True} for name in ("podMonitors", "alerts", "dashboards")},
    }
}


def test_the_chart_has_no_object_of_the_prometheus_operator_by_default(helm: Helm) -> None:
    assert not [each for each in helm.render({}) if each["apiVersion"].startswith("monitoring.coreos.com")]


@pytest.mark.parametrize(
    ("values", "agent_ports"),
    [(RESOURCE_MANAGER, ["metrics", "node-agent", "resources"]), (POOL, ["metrics"])],
    ids=["node", "pool"],
)
def test_each_service_has_a_monitor_of_ports_that_its_pods_have(
    helm: Helm, values: dict[str, Any], agent_ports: list[str]
) -> None:
    objects = helm.render(MONITORING | OUT_OF_BAND | VEN | values)
    monitors = {_component(each["spec"]["selector"]["matchLabels"]): each for each in _of(objects, "PodMonitor")}
    workloads = _of(objects, "Deployment", "DaemonSet", "StatefulSet")
    templates = {_component(each["spec"]["template"]["metadata"]["labels"]): each for each in workloads}
    for component, ports in {**ONE_PORT, "agent": agent_ports}.items():
        monitor = monitors.pop(component)
        assert [endpoint["port"] for endpoint in monitor["spec"]["podMetricsEndpoints"]] == ports
        assert monitor["metadata"]["labels"]["release"] == "prom"
        of_pods = [
            each for container in containers(templates[component]).values() for each in container.get("ports", ())
        ]
        assert set(ports) <= {port["name"] for port in of_pods}
    assert not monitors


def test_the_chart_contains_alerts_and_dashboards_as_they_are(helm: Helm) -> None:
    objects = helm.render(MONITORING)
    (rules,) = _of(objects, "PrometheusRule")
    assert rules["spec"]["groups"][0]["rules"] == RULES
    boards = [each for each in _of(objects, "ConfigMap") if each["metadata"]["labels"].get("grafana_dashboard") == "1"]
    assert {json.loads(text)["uid"] for each in boards for text in each["data"].values()} == {
        f"joulie-{board.name}" for board in BOARDS
    }


def _of(objects: Iterable[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    return [each for each in objects if each["kind"] in kinds]


def _component(labels: dict[str, str]) -> str:
    return labels["app.kubernetes.io/component"]
