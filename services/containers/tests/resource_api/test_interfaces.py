"""Both interfaces over real sockets, with services that record what they are called with."""

import asyncio
import os
import stat
from contextlib import asynccontextmanager
from unittest.mock import ANY

import pytest
from structlog.testing import capture_logs

from joulie_containers.resource_api.cluster import ClusterClient, serve_cluster
from joulie_containers.resource_api.config import ConfigClient, serve_config
from joulie_containers.resource_api.proto import resource_api_pb2 as pb
from joulie_containers.resource_api.transport import InvalidCallError, ResourceApiError, ResourceApiUnavailableError


class Service:
    """Answers any method with what the test has put into `answers`."""

    def __init__(self, **answers):
        self.answers = answers
        self.calls = []

    def __getattr__(self, name):
        async def method(request):
            self.calls.append((name, request))
            answer = self.answers.get(name, pb.Nothing())
            if isinstance(answer, Exception):
                raise answer
            return answer

        return method


@asynccontextmanager
async def config(tmp_path, service):
    client = ConfigClient(tmp_path / "config.sock")
    async with serve_config(tmp_path / "config.sock", service):
        yield client
    await client.close()


@asynccontextmanager
async def cluster(tmp_path, service):
    client = ClusterClient(tmp_path / "cluster.sock")
    async with serve_cluster(tmp_path / "cluster.sock", service):
        yield client
    await client.close()


async def test_a_configuration_reaches_the_resource_manager_and_its_error_the_node_agent(tmp_path):
    service = Service(set_config=pb.SetConfigReply(error="spec.pinCPU: 3 is no boolean", ignored=["spec.log"]))
    async with config(tmp_path, service) as client:
        reply = await client.set_config("n1", "{}")
    assert (reply.error, list(reply.ignored)) == ("spec.pinCPU: 3 is no boolean", ["spec.log"])
    assert service.calls == [("set_config", pb.SetConfigRequest(node_name="n1", manifest="{}"))]


async def test_errors_of_adjustments_come_back_by_name(tmp_path):
    errors = {"a": {"": "limit below request", "ns/pod/main": "b applies too"}, "fine": {}}
    reply = {name: pb.AdjustmentErrors(errors=each) for name, each in errors.items()}
    service = Service(set_adjustments=pb.SetAdjustmentsReply(errors=reply))
    async with config(tmp_path, service) as client:
        assert await client.set_adjustments("n1", {"a": "{}"}) == {"a": errors["a"]}
    assert service.calls == [("set_adjustments", pb.SetAdjustmentsRequest(node_name="n1", adjustments={"a": "{}"}))]


async def test_profile_and_status_are_exchanged(tmp_path):
    status = pb.ManagerStatus(node_name="n1", registered=True, zones=[pb.Zone(name="root", cpus="0-7")])
    service = Service(get_status=status)
    async with config(tmp_path, service) as client:
        await client.set_power_profile("eco")
        answer = await client.status()
        assert answer == pb.ManagerStatus(node_name="n1", registered=True, zones=status.zones, instance=answer.instance)
    assert service.calls[0] == ("set_power_profile", pb.SetPowerProfileRequest(profile="eco"))


async def test_what_pods_allow_reaches_the_resource_manager(tmp_path):
    service = Service()
    pods = [pb.PodConsent(namespace="ml", pod="a", pod_uid="u", allowed="25%", source="namespace", consents=True)]
    async with config(tmp_path, service) as client:
        await client.set_pod_consents("n1", pods)
    assert service.calls == [("set_pod_consents", pb.SetPodConsentsRequest(node_name="n1", pods=pods))]


async def test_every_server_is_another_instance(tmp_path):
    service, instances = Service(get_status=pb.ManagerStatus()), []
    for _ in range(2):
        async with config(tmp_path, service) as client:
            instances += [(await client.status()).instance, (await client.status()).instance]
    assert instances[0] == instances[1] != ""
    assert instances[1] != instances[2] == instances[3]


async def test_metadata_of_the_node_is_read_in_parts(tmp_path):
    taint = pb.Taint(key="k", value="v", effect="NoSchedule")
    node = pb.NodeMetadata(labels={"a": "1"}, annotations={"b": "2"}, taints=[taint], capacity={"x.io/y": "3"})
    async with cluster(tmp_path, Service(get_node=node)) as client:
        assert await client.labels() == {"a": "1"}
        assert await client.annotations() == {"b": "2"}
        assert await client.taints() == [taint]
        assert await client.capacity() == {"x.io/y": "3"}


async def test_changes_of_metadata_reach_the_node_agent(tmp_path):
    service, taint = Service(), pb.Taint(key="k", value="v", effect="NoSchedule")
    event = pb.PodEvent(namespace="ns", pod="p", pod_uid="u", reason="InvalidAnnotation", message="text")
    async with cluster(tmp_path, service) as client:
        await client.set_labels({"a": "1"})
        await client.remove_labels(["b"])
        await client.set_annotations({"a": "1"})
        await client.remove_annotations(["b"])
        await client.set_taints([taint])
        await client.remove_taints([taint])
        await client.set_capacity({"x.io/y": "3"})
        await client.remove_capacity(["x.io/z"])
        await client.record_events([event])
    assert service.calls == [
        ("update_labels", pb.MapUpdate(set={"a": "1"})),
        ("update_labels", pb.MapUpdate(remove=["b"])),
        ("update_annotations", pb.MapUpdate(set={"a": "1"})),
        ("update_annotations", pb.MapUpdate(remove=["b"])),
        ("update_taints", pb.TaintsUpdate(set=[taint])),
        ("update_taints", pb.TaintsUpdate(remove=[taint])),
        ("update_capacity", pb.MapUpdate(set={"x.io/y": "3"})),
        ("update_capacity", pb.MapUpdate(remove=["x.io/z"])),
        ("record_events", pb.EventsRequest(events=[event])),
    ]


@pytest.mark.parametrize("problem", ["", "no contact with the API server"])
async def test_health_is_a_problem_or_none(tmp_path, problem):
    service = Service(health_check=pb.HealthCheckReply(problem=problem))
    async with cluster(tmp_path, service) as client:
        assert await client.health() == (problem or None)


async def test_a_refused_call_raises_its_reason(tmp_path):
    service = Service(update_capacity=InvalidCallError("capacity of cpu cannot be set"))
    async with cluster(tmp_path, service) as client:
        with pytest.raises(ResourceApiError, match="capacity of cpu cannot be set") as error:
            await client.set_capacity({"cpu": "3"})
    assert not isinstance(error.value, ResourceApiUnavailableError)


async def test_a_call_that_fails_is_logged_and_reported(tmp_path):
    service = Service(get_node=RuntimeError("broken"))
    with capture_logs() as logs:
        async with cluster(tmp_path, service) as client:
            with pytest.raises(ResourceApiError, match="RuntimeError: broken"):
                await client.labels()
    assert {"event": "call failed", "method": ANY, "log_level": "error", "exc_info": ANY} in logs


async def test_a_call_without_a_server_is_unavailable_in_time(tmp_path):
    client = ClusterClient(tmp_path / "none.sock")
    client._channel._timeout_s = 0.2
    with pytest.raises(ResourceApiUnavailableError):
        await client.health()
    await client.close()


async def test_a_client_reaches_a_server_that_starts_later_and_one_that_was_restarted(tmp_path):
    client = ClusterClient(tmp_path / "cluster.sock")
    call = asyncio.create_task(client.health())
    for problem in ("first", "second"):
        async with serve_cluster(tmp_path / "cluster.sock", Service(health_check=pb.HealthCheckReply(problem=problem))):
            assert await (call if problem == "first" else client.health()) == problem
    await client.close()


async def test_owner_and_group_may_connect_and_the_socket_goes_with_its_server(tmp_path):
    path = tmp_path / "run" / "cluster.sock"
    gid = os.getegid()
    async with serve_cluster(path, Service(), gid=gid):
        status = os.stat(path)  # noqa: PTH116 - not blocking for long
        assert (stat.S_IMODE(status.st_mode), status.st_gid) == (0o660, gid)
    assert not os.path.exists(path)  # noqa: ASYNC240, PTH110
