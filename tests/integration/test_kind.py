"""The files in the directory kind agree with each other, with the chart and with the development cluster."""

import ipaddress
import itertools
import re
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from tests.chart import ROOT, Helm, containers, env_of, find, pod_spec

from joulie_devcluster.binaries.modules import Binary, kubernetes_minors, module_of
from joulie_devcluster.containers.kind import CLUSTER
from joulie_devcluster.control_plane.nodes import default_node_classes, node_manifests
from joulie_devcluster.control_plane.scheduler_config import SchedulerSettings, scheduler_configuration
from joulie_devcluster.kind import NODE_IMAGES
from joulie_sim.demo.kind_nodes import beside_real_nodes
from joulie_sim.demo.kind_release import OPERATOR, UI_PORT, release_values
from joulie_sim.demo.options import parse_options


def load(name: str) -> dict[str, Any]:
    return yaml.safe_load((ROOT / "kind" / name).read_text())


@pytest.fixture
def scheduler() -> dict[str, Any]:
    return load("scheduler-config.yaml")


def test_the_file_to_copy_has_the_settings_of_the_development_cluster(scheduler):
    url = scheduler["extenders"][0]["urlPrefix"]
    expected = scheduler_configuration(SchedulerSettings(), kubeconfig="", extender_url=url)
    for field in ("apiVersion", "kind", "percentageOfNodesToScore", "profiles", "extenders"):
        assert scheduler[field] == expected[field]


def test_every_setting_of_the_file_to_copy_is_explained():
    lines = (ROOT / "kind" / "scheduler-config.yaml").read_text().splitlines()
    settings = re.compile(r"^[\s-]*(?!apiVersion|kind|schedulerName)\w+: \S")
    unexplained = [line for before, line in itertools.pairwise(lines) if settings.match(line) and "#" not in before]
    # One comment explains both verbs.
    assert unexplained == ["    prioritizeVerb: prioritize"]


def test_the_chart_gives_the_extender_the_address_that_kube_scheduler_calls(helm: Helm, scheduler):
    service = find(helm.render(load("values.yaml")), "Service", "joulie-scheduler-extender")["spec"]
    address = urlsplit(scheduler["extenders"][0]["urlPrefix"])
    assert service["clusterIP"] == address.hostname
    assert address.port in {port["port"] for port in service["ports"]}
    assert ipaddress.ip_address(address.hostname) in ipaddress.ip_network(
        load("cluster.yaml")["networking"]["serviceSubnet"]
    )


def test_the_chart_accepts_the_values_of_the_demo_and_serves_its_page(helm: Helm):
    values = {**load("values.yaml")}
    for name, found in release_values(parse_options(["--kind", "--preset", "documents"])).items():
        values[name] = {**values.get(name, {}), **found} if isinstance(found, dict) else found
    helm.lint(values)
    container = containers(find(helm.render(values), "Deployment", OPERATOR.partition("/")[2]))["operator"]
    assert env_of(container)["UI_ADDR"] == f"127.0.0.1:{UI_PORT}"
    assert values["preset"] == "documents"
    assert "STATIC_HP_FRAC" not in env_of(container)


def test_the_charts_agents_are_on_the_workers_and_not_on_simulated_nodes(helm: Helm):
    selector = pod_spec(find(helm.render(load("values.yaml")), "DaemonSet", "joulie-agent"))["nodeSelector"]
    workers = [node["labels"] for node in load("cluster.yaml")["nodes"] if node["role"] == "worker"]
    # The kubelet adds the system.
    assert all(selector.items() <= {**labels, "kubernetes.io/os": "linux"}.items() for labels in workers)
    for node in node_manifests(beside_real_nodes(default_node_classes())):
        assert not selector.items() <= node["metadata"]["labels"].items()


def test_the_cluster_has_a_node_image_by_digest_for_every_release_of_kubernetes():
    assert load("cluster.yaml")["name"] == CLUSTER
    assert tuple(NODE_IMAGES) == kubernetes_minors()
    for minor, image in NODE_IMAGES.items():
        assert re.fullmatch(rf"kindest/node:v{re.escape(minor)}\.\d+@sha256:[0-9a-f]{{64}}", image)
        assert module_of(Binary.KUBEADM, minor).version.startswith(f"v{minor}.")
