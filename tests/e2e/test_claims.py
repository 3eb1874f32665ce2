"""Pods that claim GPUs by dynamic resource allocation, on a control plane that allocates them."""

from typing import Any

import msgspec
import pytest
from tests.e2e.extender_client import explain, scoring
from tests.e2e.system import System
from tests.e2e.waiting import eventually

from joulie_api.resources import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Resource
from joulie_testing.api import claiming, make_claim, make_pod

pytestmark = pytest.mark.e2e

_CLASSES = Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False)
_SLICES = Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False)
_DRIVER, _NODE, _WATTS = "gpu.nvidia.com", "h100-0", 700


def _device_class() -> dict[str, Any]:
    selector = {"cel": {"expression": f"device.driver == '{_DRIVER}'"}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": _DRIVER},
        "spec": {"selectors": [selector]},
    }


def _slice() -> dict[str, Any]:
    """What a driver publishes of the node's eight GPUs."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{_NODE}-gpus"},
        "spec": {
            "driver": _DRIVER,
            "nodeName": _NODE,
            "pool": {"name": _NODE, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{index}"} for index in range(8)],
        },
    }


@pytest.mark.system(extender={"TELEMETRY_INTERVAL": "10m", "ASSUMED_WINDOW": "0s"})
async def test_gpus_that_pods_claim_are_counted_before_and_after_the_scheduler_allocates_them(system: System) -> None:
    client, namespace, url = system.view.client, system.view.namespace, system.stack.extender_url
    await client.create(_CLASSES, _device_class())
    await client.create(_SLICES, _slice())
    four = make_claim("four-gpus", namespace, count=4, template=True)
    await client.create(RESOURCE_CLAIM_TEMPLATES, four, namespace)
    await client.create(RESOURCE_CLAIMS, make_claim("two-gpus", namespace, count=2), namespace)

    async def counted(pod: dict[str, Any], gpus: float) -> None:
        node = (await explain(url, pod, [_NODE]))[_NODE]
        assert node["marginalGpuW"] == pytest.approx(gpus * 0.6 * _WATTS), node

    by_template = claiming(make_pod("by-template", namespace, cpu=1), template="four-gpus")
    by_name = claiming(make_pod("by-name", namespace, cpu=1), claim="two-gpus")
    await eventually(lambda: counted(by_template, 4), within_s=30)
    await eventually(lambda: counted(by_name, 2), within_s=30)
    assert (await scoring(url))[_NODE]["assumedPowerW"] == 0

    for pod in (by_template, by_name):
        await client.create(PODS, pod, namespace)

    async def placed() -> None:
        assert set((await system.view.placed(["by-template", "by-name"])).values()) == {_NODE}
        assumed = (await scoring(url))[_NODE]["assumedPowerW"]
        assert 6 * 0.6 * _WATTS <= assumed < 6 * 0.6 * _WATTS + 50, assumed

    await eventually(placed, within_s=60)


async def test_a_claim_that_no_decoder_takes_is_set_aside_and_the_others_are_counted(system: System) -> None:
    client, namespace, url = system.view.client, system.view.namespace, system.stack.extender_url
    deep = make_claim("deep", namespace, count=1)
    parameters = msgspec.Raw(b'{"a":' * 1_600 + b"1" + b"}" * 1_600)
    opaque = {"driver": _DRIVER, "parameters": parameters}
    deep["spec"]["devices"]["config"] = [{"requests": ["devices"], "opaque": opaque}]
    await client.create(RESOURCE_CLAIMS, deep, namespace)
    await client.create(RESOURCE_CLAIMS, make_claim("one-gpu", namespace, count=1), namespace)
    pod = claiming(make_pod("by-name", namespace, cpu=1), claim="one-gpu")

    async def served() -> None:
        for service in (system.operator, system.extender):
            metrics = await service.metrics()
            assert 'joulie_objects_set_aside{resource="resourceclaims.resource.k8s.io"} 1.0' in metrics
            assert "joulie_internal_errors_total{" not in metrics
        assert (await explain(url, pod, [_NODE]))[_NODE]["marginalGpuW"] == pytest.approx(0.6 * _WATTS)

    # By an event of the watch, then as an item of a list.
    await eventually(served, within_s=30)
    await system.operator.restart()
    await system.extender.restart()
    await system.stack.wait_ready()
    await eventually(served, within_s=60)
    await client.delete(RESOURCE_CLAIMS, "deep", namespace)

    async def forgotten() -> None:
        for service in (system.operator, system.extender):
            assert 'joulie_objects_set_aside{resource="resourceclaims.resource.k8s.io"} 0.0' in await service.metrics()

    await eventually(forgotten, within_s=30)
