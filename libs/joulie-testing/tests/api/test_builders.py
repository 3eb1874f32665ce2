from joulie_api.client import KubeClient
from joulie_api.resources import NODES
from joulie_core.kinds import NodeHardware, NodePowerProfile, NodeTwin, TelemetryProfile
from joulie_testing.api import (
    make_node,
    make_node_hardware,
    make_node_power_profile,
    make_node_twin,
    make_pod,
    make_telemetry_profile,
)


def test_a_node_states_its_resources_and_hardware_labels():
    node = make_node("n", cpu=64, gpus=4, gpu_model="H100", cpu_model="EPYC 9654", cpu_sockets=2)
    assert node["status"]["allocatable"] == {"cpu": "64", "memory": "128Gi", "pods": "110", "nvidia.com/gpu": "4"}
    labels = node["metadata"]["labels"]
    assert labels["joulie.io/managed"] == "true"
    assert (labels["joulie.io/hw.gpu-model"], labels["joulie.io/hw.gpu-count"]) == ("H100", "4")
    assert (labels["joulie.io/hw.cpu-model"], labels["joulie.io/hw.cpu-sockets"]) == ("EPYC 9654", "2")


def test_an_unmanaged_node_has_no_managed_label():
    assert "joulie.io/managed" not in make_node("n", managed=False)["metadata"]["labels"]


def test_a_pod_waits_without_a_node_and_runs_on_one():
    assert make_pod("p")["status"]["phase"] == "Pending"
    assert make_pod("p", node="n")["status"]["phase"] == "Running"
    assert make_pod("p", node="n", phase="Succeeded")["status"]["phase"] == "Succeeded"


def test_a_pod_has_its_requests_and_limits_its_gpus():
    container = make_pod("p", cpu=2, gpu=1)["spec"]["containers"][0]
    assert container["resources"] == {
        "requests": {"cpu": "2", "nvidia.com/gpu": "1"},
        "limits": {"nvidia.com/gpu": "1"},
    }


def test_a_pods_class_is_an_annotation():
    pod = make_pod("p", workload_class="performance", node_selector={"a": "b"})
    assert pod["metadata"]["annotations"] == {"joulie.io/workload-class": "performance"}
    assert pod["spec"]["nodeSelector"] == {"a": "b"}


def test_nameless_pods_get_different_names():
    assert make_pod()["metadata"]["name"] != make_pod()["metadata"]["name"]


async def test_the_client_fixture_reaches_the_server_by_its_kubeconfig(fake_api, fake_client):
    fake_api.put(make_node("n"))
    assert isinstance(fake_client, KubeClient)
    assert b'"n"' in await fake_client.get(NODES, "n")
    assert fake_api.requests[-1].user_agent == "joulie-test/0"


def test_custom_objects_are_of_their_node_and_validate():
    target = make_node_power_profile("n1", cpu={"packagePowerCapPctOfMax": 60}, gpu={"capPctOfMax": 50})
    spec = NodePowerProfile.model_validate(target).spec
    assert (target["metadata"]["name"], spec.node_name, spec.profile, spec.draining) == ("n1", "n1", "eco", False)
    assert (spec.cpu.package_power_cap_pct_of_max, spec.gpu.power_cap.cap_pct_of_max) == (60, 50)
    twin = NodeTwin.model_validate(make_node_twin("n1", "draining", measured_watts=90, capped_watts=100))
    assert (twin.spec.node_name, twin.status.schedulable_class) == ("n1", "draining")
    power = twin.status.power_measurement
    assert (power.measured_node_power_w, power.node_capped_power_w) == (90, 100)
    hardware = NodeHardware.model_validate(make_node_hardware("n1", cpu={"sockets": 2}, gpu={"count": 8}))
    assert (hardware.spec.node_name, hardware.status.cpu.sockets, hardware.status.gpu.count) == ("n1", 2, 8)
    profile = make_telemetry_profile(
        "n1", power={"cpuWatts": 5}, control={"cpu": {"result": "applied"}}, labels={"a": "b"}
    )
    model = TelemetryProfile.model_validate(profile)
    assert (model.spec.target.node_name, profile["metadata"]["labels"]) == ("n1", {"a": "b"})
    assert (model.status.power.cpu_watts, model.status.control.cpu.result) == (5, "applied")


def test_what_is_not_stated_is_absent():
    assert "status" not in make_node_power_profile("n1")
    assert make_node_twin("n1")["status"] == {"schedulableClass": "performance"}
    assert "status" not in make_node_hardware("n1")
    assert make_telemetry_profile("all", target={"scope": "cluster"})["spec"] == {"target": {"scope": "cluster"}}
