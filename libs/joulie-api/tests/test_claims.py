"""Demand of pods' claims, with a server that has the API, one that lacks it, and one that refuses it."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from joulie_api import optional_watch
from joulie_api.claims import Claims, DeviceClass, decode_claim, decode_device_class, decode_template
from joulie_api.errors import DecodeError
from joulie_api.log_limit import LogLimit
from joulie_api.pod_reader import read_pod
from joulie_core.pod import Container, Pod, PodClaim
from joulie_core.powerest.claims import ClaimDemand, ClaimRequest, DeviceRequest
from joulie_testing.api import Respond, dra_definitions, make_claim, make_device_class, make_pod


def claim(name, **asked):
    return make_claim(name, "ml", **asked)


def template(name, **asked):
    return make_claim(name, "ml", template=True, **asked)


def pod(*asked):
    return Pod("p", namespace="ml", claims=asked)


@pytest.fixture
def dra_api(fake_api):
    """Return the in-process server with dynamic resource allocation."""
    fake_api.put_all(dra_definitions())
    return fake_api


@asynccontextmanager
async def following(client, classes=None, log_limit=None):
    claims = Claims(client, classes or {}, log_limit)
    task = asyncio.create_task(claims.run())
    try:
        await asyncio.wait_for(claims.wait_settled(), 10)
        yield claims
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - the store has no notification
            await asyncio.sleep(0.005)


async def test_claims_and_templates_are_counted_by_their_device_classes(dra_api, fake_client):
    dra_api.put_all([claim("shared", count=2), template("four", count=4), template("nic", device_class="nic")])
    async with following(fake_client, {"nic": 0.0}) as claims:
        assert claims.gpus(pod(PodClaim("shared"))) == 2
        assert claims.gpus(pod(PodClaim(None, "four"), PodClaim(None, "nic"))) == 4
        assert claims.gpus(pod(PodClaim("not-here-yet", "four"))) == 4
        assert claims.gpus(pod()) == 0


async def test_a_claim_created_later_is_counted(dra_api, fake_client):
    async with following(fake_client) as claims:
        assert claims.gpus(pod(PodClaim("late"))) == 1
        dra_api.put(claim("late", count=8))
        await until(lambda: claims.gpus(pod(PodClaim("late"))) == 8)


async def test_an_unknown_claim_or_class_counts_as_a_whole_gpu_with_one_warning(dra_api, fake_client):
    dra_api.put(claim("odd", device_class="fpga.example.com", count=3))
    with capture_logs() as logs:
        async with following(fake_client) as claims:
            for _ in range(3):
                assert claims.gpus(pod(PodClaim("gone"), PodClaim("odd"))) == 1 + 3
    warned = [(line.get("claim"), line.get("device_class")) for line in logs if line["log_level"] == "warning"]
    assert warned == [("ml/gone", None), (None, "fpga.example.com")]


async def test_many_unknown_claims_at_once_are_one_warning(dra_api, fake_client):
    with capture_logs() as logs:
        async with following(fake_client) as claims:
            for number in range(500):
                assert claims.gpus(pod(PodClaim(f"gone-{number}"))) == 1
    assert [line["claim"] for line in logs if line["log_level"] == "warning"] == ["ml/gone-0"]


async def test_a_claim_that_was_not_logged_for_a_limit_is_logged_after_it(dra_api, fake_client):
    now_s = 0.0
    limit = LogLimit(clock=lambda: now_s)
    limit.admit()
    with capture_logs() as logs:
        async with following(fake_client, log_limit=limit) as claims:
            for name in ("gone", "lost", "gone"):
                assert claims.gpus(pod(PodClaim(name))) == 1
            now_s = 1.0
            assert claims.gpus(pod(PodClaim("lost"))) == 1
    warned = [(line["claim"], line["suppressed"]) for line in logs if line["log_level"] == "warning"]
    assert warned == [("ml/lost", 3)]


async def test_a_name_of_any_length_is_logged_and_remembered_in_part(dra_api, fake_client):
    with capture_logs() as logs:
        async with following(fake_client) as claims:
            assert claims.gpus(pod(PodClaim("x" * 1_000_000))) == 1
    (name,) = [line["claim"] for line in logs if line["log_level"] == "warning"]
    assert name.startswith("ml/xxx")
    assert len(name) < 600
    assert sum(map(len, claims._logged)) < 1_000


async def test_a_cluster_without_the_api_does_not_delay_pods(fake_api, fake_client):
    with capture_logs() as logs:
        async with following(fake_client) as claims:
            assert claims.gpus(pod(PodClaim("any"))) == 1
            assert claims.gpus(pod()) == 0
    assert [line["log_level"] for line in logs if "not served" in line["event"]] == ["info"]
    assert not fake_api.watches()


async def test_claims_without_read_permission_do_not_delay_pods(dra_api, fake_client):
    dra_api.put(claim("hidden", count=4))
    dra_api.faults.add(Respond(403), verb="list", path="/resourceclaims", times=None)
    with capture_logs() as logs:
        async with following(fake_client) as claims:
            assert claims.gpus(pod(PodClaim("hidden"))) == 1
    assert [line["log_level"] for line in logs if "access denied" in line["event"]] == ["warning"]


async def test_an_unreachable_server_delays_pods_for_a_limited_time(fake_api, fake_client, monkeypatch):
    monkeypatch.setattr(optional_watch, "SETTLE_S", 0.01)
    await fake_api.stop()
    async with following(fake_client) as claims:
        assert claims.gpus(pod(PodClaim("any"))) == 1


ALTERNATIVES = {"firstAvailable": [{"deviceClassName": "a", "count": 2}, {"deviceClassName": "b"}]}


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"exactly": {"deviceClassName": "a"}}, ClaimRequest((DeviceRequest("a"),))),
        ({"exactly": {"deviceClassName": "a", "allocationMode": "All"}}, ClaimRequest((DeviceRequest("a", None),))),
        ({"exactly": {"deviceClassName": "a", "adminAccess": True}}, ClaimRequest((DeviceRequest("a", admin=True),))),
        (ALTERNATIVES, ClaimRequest((DeviceRequest("a", 2), DeviceRequest("b")))),
        ({}, ClaimRequest(())),
    ],
)
def test_a_request_is_read_with_its_alternatives(request_, expected):
    spec = {"devices": {"requests": [{"name": "r", **request_}]}}
    assert decode_claim(json.dumps({"spec": spec}).encode()) == ClaimDemand((expected,))
    assert decode_template(json.dumps({"spec": {"spec": spec}}).encode()) == ClaimDemand((expected,))


def test_an_allocation_has_the_number_of_devices():
    results = [{"request": "r", "device": "gpu-0"}, {"request": "r/b", "device": "gpu-1"}, {"request": "other"}]
    raw = {
        "spec": {
            "devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "a", "allocationMode": "All"}}]}
        },
        "status": {"allocation": {"devices": {"results": results}}},
    }
    assert decode_claim(json.dumps(raw).encode()).requests[0].allocated == 2


@pytest.mark.parametrize("decode", [decode_claim, decode_template])
@pytest.mark.parametrize("raw", [b"", b"[]", b'{"spec": {"devices": 1, "spec": 1}}', b"\xff"])
def test_an_invalid_claim_is_refused(decode, raw):
    with pytest.raises(DecodeError):
        decode(raw)


@pytest.mark.parametrize(
    "alternative", [lambda device: {"exactly": device}, lambda device: {"firstAvailable": [device]}]
)
@pytest.mark.parametrize("count", [-1, 2**63, 10**400])
def test_a_count_that_kubernetes_does_not_know_is_refused_with_its_field(alternative, count):
    spec = {"devices": {"requests": [alternative({"deviceClassName": "gpu.nvidia.com", "count": count})]}}
    with pytest.raises(DecodeError, match="count"):
        decode_claim(json.dumps({"spec": spec}).encode())
    with pytest.raises(DecodeError, match="count"):
        decode_template(json.dumps({"spec": {"spec": spec}}).encode())


@pytest.mark.parametrize("count", [0, 1, 2**63 - 1])
def test_any_count_of_kubernetes_is_a_number_of_gpus(count):
    spec = {"devices": {"requests": [{"exactly": {"deviceClassName": "gpu.nvidia.com", "count": count}}]}}
    assert decode_claim(json.dumps({"spec": spec}).encode()).gpus({"gpu.nvidia.com": 1.0}) == float(count or 1)


def requesting(resource, count=2):
    return Pod("p", namespace="ml", containers=(Container(requests={resource: str(count)}),))


async def test_an_extended_resource_counts_by_the_device_class_that_serves_it(dra_api, fake_client):
    dra_api.put_all(
        [make_device_class("gpu.nvidia.com", "example.com/gpu"), make_device_class("small", "example.com/s")]
    )
    async with following(fake_client, {"small": 0.25}) as claims:
        assert claims.gpus(requesting("example.com/gpu")) == 2
        assert claims.gpus(requesting("example.com/s")) == 0.5
        assert claims.gpus(requesting("example.com/nic")) == 0
        dra_api.put(make_device_class("gpu.amd.com", "example.com/nic"))
        await until(lambda: claims.gpus(requesting("example.com/nic")) == 2)
        dra_api.remove("DeviceClass", "gpu.amd.com")
        await until(lambda: claims.gpus(requesting("example.com/nic")) == 0)


async def test_the_api_servers_own_name_of_a_class_counts_as_the_setting_says(dra_api, fake_client):
    async with following(fake_client, {"small": 0.25}) as claims:
        pod = make_pod("p", "ml", gpu=2, gpu_resource="deviceclass.resource.kubernetes.io/small")
        assert read_pod(json.dumps(pod).encode(), claims.gpus).demand.gpus == 0.5


async def test_a_pod_that_was_read_before_counts_anew_when_a_class_serves_its_resource(dra_api, fake_client):
    raw = json.dumps(make_pod("p", "ml", gpu=1, gpu_resource="example.com/late")).encode()
    async with following(fake_client) as claims:
        assert read_pod(raw, claims.gpus).demand.gpus == 0
        dra_api.put(make_device_class("gpu.nvidia.com", "example.com/late"))
        await until(lambda: read_pod(raw, claims.gpus).demand.gpus == 1)


async def test_the_claim_that_the_scheduler_makes_for_extended_resources_does_not_count_again(dra_api, fake_client):
    dra_api.put_all([make_device_class("gpu.nvidia.com", "example.com/gpu"), claim("p-extended-resources-x7k2p")])
    pod = make_pod("p", "ml", gpu=1, gpu_resource="example.com/gpu")
    pod["status"] = {
        "extendedResourceClaimStatus": {
            "resourceClaimName": "p-extended-resources-x7k2p",
            "requestMappings": [{"containerName": "c", "resourceName": "example.com/gpu", "requestName": "devices"}],
        }
    }
    async with following(fake_client) as claims:
        assert read_pod(json.dumps(pod).encode(), claims.gpus).demand.gpus == 1


async def test_of_two_classes_for_one_resource_the_later_one_counts_and_of_equal_age_the_first_by_name(
    dra_api, fake_client
):
    for name, created in (("b-old", 1), ("z-new", 2), ("a-new", 2)):
        device_class = make_device_class(name, "example.com/gpu")
        device_class["metadata"]["creationTimestamp"] = f"2026-01-0{created}T00:00:00Z"
        dra_api.put(device_class)
    async with following(fake_client, {"b-old": 0.1, "a-new": 0.5, "z-new": 0.9}) as claims:
        assert claims.gpus(requesting("example.com/gpu", 1)) == 0.5


async def test_an_unknown_class_that_serves_an_extended_resource_is_one_warning(dra_api, fake_client):
    dra_api.put(make_device_class("fpga.example.com", "example.com/fpga"))
    with capture_logs() as logs:
        async with following(fake_client) as claims:
            assert [claims.gpus(requesting("example.com/fpga", 3)) for _ in range(3)] == [3, 3, 3]
    assert [line["device_class"] for line in logs if line["log_level"] == "warning"] == ["fpga.example.com"]


def test_a_device_class_is_read():
    raw = json.dumps(make_device_class("gpu.nvidia.com", "example.com/gpu")).encode()
    assert decode_device_class(raw) == DeviceClass("gpu.nvidia.com", "", "example.com/gpu")
    assert decode_device_class(json.dumps(make_device_class("small")).encode()).extended_resource is None
    with pytest.raises(DecodeError):
        decode_device_class(b"[]")
