"""The demo on a cluster of kind, without one: nodes, values of the chart, Helm's failures and the removal."""

import asyncio
import json

import pytest

from joulie_api.errors import KubeError
from joulie_api.presets import PRESETS, PresetName
from joulie_api.resources import NODES, PODS
from joulie_devcluster.containers.images import repository_root
from joulie_devcluster.control_plane.nodes import default_node_classes, node_manifests
from joulie_devcluster.errors import EngineError
from joulie_sim.demo import __main__ as command
from joulie_sim.demo import kind_site
from joulie_sim.demo.errors import DemoError
from joulie_sim.demo.kind_nodes import POD_SPEC, SIMULATED, beside_real_nodes, remove_simulated
from joulie_sim.demo.kind_release import install_release, release_values, waiting_reasons
from joulie_sim.demo.options import parse_options
from joulie_sim.demo.scenario import make_scenario
from joulie_sim.demo.settings import demo_arm
from joulie_sim.engine.node_scores import ScoreSettings
from joulie_sim.workload.item import WORKLOAD_LABEL, pod_manifest
from joulie_testing.api.builders import make_node, make_pod
from joulie_testing.api.faults import Respond

OPTIONS = parse_options(["--kind", "--nodes", "8"])


def test_simulated_nodes_have_what_pods_of_others_and_daemonsets_of_the_system_do_not_match():
    before = {each["metadata"]["name"]: each for each in node_manifests(default_node_classes())}
    for node in node_manifests(beside_real_nodes(default_node_classes())):
        old = before[node["metadata"]["name"]]
        assert node["spec"]["taints"] == [{"key": SIMULATED, "value": "true", "effect": "NoSchedule"}]
        assert node["metadata"]["labels"] == {
            **old["metadata"]["labels"],
            SIMULATED: "true",
            "kubernetes.io/os": "simulated",
        }
        assert node["status"] == old["status"]


def test_pods_of_the_demo_select_and_tolerate_simulated_nodes_only():
    item = make_scenario(OPTIONS).items[0]
    spec = pod_manifest(item, workload="demo", spec=POD_SPEC)["spec"]
    assert spec["nodeSelector"] == {SIMULATED: "true"}
    assert [each["key"] for each in spec["tolerations"]] == [SIMULATED]
    without = pod_manifest(item, workload="demo")["spec"]
    assert spec == {**without, **POD_SPEC}


@pytest.mark.parametrize("argument", ["--preset=score", "--preset=documents", "--policy=queue_aware_v1"])
def test_the_services_get_the_settings_that_the_comparison_simulates(argument):
    options = parse_options(["--kind", argument])
    values, settings = release_values(options), demo_arm(options).joulie
    preset = PRESETS[PresetName(values["preset"])]
    env = {**preset.operator, **values["operator"]["env"]}
    assert env["POLICY_TYPE"] == settings.policy
    assert settings.score == ScoreSettings(policy=preset.extender.get("SCORE_POLICY", "headroom_v1"))
    assert {name.lower(): float(env[name.upper()]) for name in settings.policy_values} == settings.policy_values
    assert env["PLAN_DEBOUNCE"] == f"{settings.plan_debounce_s * 1000:.0f}ms"


def test_changed_images_replace_pods(monkeypatch):
    first = release_values(OPTIONS)
    monkeypatch.setattr("joulie_sim.demo.kind_release.image_digest", lambda service: f"other {service}")
    second = release_values(OPTIONS)
    for service in ("operator", "agent", "extender"):
        assert first[service]["podAnnotations"] != second[service]["podAnnotations"]


async def test_the_removal_deletes_the_demos_pods_and_nodes_and_nothing_else(fake_api, fake_client):
    fake_api.put(make_node("real"))
    fake_api.put(make_pod("other"))
    for index in range(3):
        fake_api.put(make_node(f"simulated-{index}", labels={SIMULATED: "true"}))
        fake_api.put(make_pod(f"work-{index}", labels={WORKLOAD_LABEL: "demo"}))
    for _ in range(2):
        await remove_simulated(fake_client)
        assert [each["metadata"]["name"] for each in await fake_client.list(NODES)] == ["real"]
        assert [each["metadata"]["name"] for each in await fake_client.list(PODS)] == ["other"]


async def test_a_removal_that_the_api_server_refuses_is_an_error(fake_api, fake_client):
    fake_api.put(make_node("simulated-0", labels={SIMULATED: "true"}))
    fake_api.faults.add(Respond(403), verb="delete")
    with pytest.raises(ExceptionGroup) as raised:
        await remove_simulated(fake_client)
    assert raised.group_contains(KubeError)


WAITING = {
    "metadata": {"name": "joulie-agent-x"},
    "status": {
        "conditions": [{"type": "PodScheduled", "status": "True"}],
        "containerStatuses": [
            {"name": "controller", "state": {"running": {}}},
            {"name": "actuator", "state": {"waiting": {"reason": "ErrImageNeverPull", "message": "no image"}}},
        ],
    },
}
PENDING = {
    "metadata": {"name": "joulie-operator-y"},
    "status": {"conditions": [{"type": "PodScheduled", "status": "False", "message": "Insufficient cpu"}]},
}


def test_the_reasons_are_those_of_containers_that_wait_and_of_pods_without_a_node():
    assert waiting_reasons([WAITING, PENDING, {"metadata": {"name": "new"}}]) == [
        "pod joulie-agent-x, container actuator: ErrImageNeverPull: no image",
        "pod joulie-operator-y has no node: Insufficient cpu",
    ]


@pytest.fixture
def helm(tmp_path):
    """Return a function that makes a helm: a shell script."""

    def make(script):
        path = tmp_path / "helm"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    return make


async def test_the_release_is_installed_or_upgraded_with_its_own_values_and_those_of_the_demo(
    helm, fake_client, tmp_path
):
    program = helm(f'echo "$KUBECONFIG" "$@" > {tmp_path}/call; cat > {tmp_path}/values')
    values = release_values(OPTIONS)
    await install_release(program, tmp_path / "kubeconfig", fake_client, values)
    kubeconfig, *words = (tmp_path / "call").read_text().split()
    assert kubeconfig == str(tmp_path / "kubeconfig")
    assert words[:3] == ["upgrade", "--install", "joulie"]
    assert {"--reset-then-reuse-values", "--wait"} <= set(words)
    assert words[-4:] == ["--values", f"{repository_root()}/kind/values.yaml", "--values", "-"]
    assert json.loads((tmp_path / "values").read_text()) == values


async def test_if_helm_fails_the_error_has_its_reason_and_those_of_the_pods(helm, fake_api, fake_client, tmp_path):
    pod = make_pod("joulie-agent-x", "joulie-system")
    fake_api.put({**pod, "status": WAITING["status"]})
    program = helm("cat > /dev/null; echo 'timed out' >&2; exit 1")
    with pytest.raises(DemoError, match=r"(?s)failed: timed out\n.*actuator: ErrImageNeverPull: no image"):
        await install_release(program, tmp_path / "kubeconfig", fake_client, {})


async def test_an_interrupted_helm_gets_sigterm_and_is_waited_for(helm, fake_client, tmp_path):
    ended, begun = tmp_path / "ended", tmp_path / "begun"
    program = helm(f"trap 'touch {ended}; exit 1' TERM; cat > /dev/null; touch {begun}; while :; do sleep 0.05; done")
    task = asyncio.create_task(install_release(program, tmp_path / "kubeconfig", fake_client, {}))
    async with asyncio.timeout(20):
        while not begun.exists():  # noqa: ASYNC110 - the program signals no event
            await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.exists()


def test_without_a_cluster_the_demo_ends_with_what_to_do(monkeypatch, capsys):
    def missing(_reporter):
        raise EngineError("no kind cluster is running: create it with `just kind-up`")

    monkeypatch.setattr(kind_site.kind, "find", missing)
    monkeypatch.setattr("sys.argv", ["joulie-demo", "--kind"])
    with pytest.raises(SystemExit) as end:
        command.main()
    assert end.value.code == 1
    assert "joulie-demo: no kind cluster is running: create it with `just kind-up`" in capsys.readouterr().err
