import threading
from contextlib import aclosing

import grpc
import pytest
from services.agent.tests.holders.scripted_kubelet import claim_resource, container, field, pod

from joulie_agent.holders import kubelet as module
from joulie_agent.holders.kubelet import MOST_BYTES, MOST_ITEMS, SMALL_BYTES, KubeletClient, read_listing
from joulie_core.holders.records import (
    ClaimedDevice,
    DeviceListing,
    HolderReason,
    ListedContainer,
    ListedPod,
    NoListing,
    PluginDevice,
)

GPU = "GPU-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c"
NOW = 1_000_000.0


async def ask(socket, **settings):
    async with aclosing(KubeletClient(socket, wall_time=lambda: NOW, **settings)) as client:
        return await client.list()


async def test_an_answer_of_the_kubelet_becomes_records(kubelet, socket):
    claims = field(4, claim_resource("gpu.nvidia.com", "node-1", "gpu-0", cdi=["nvidia.com/gpu=0"])) + field(
        4, claim_resource("gpu.nvidia.com", "node-1", "gpu-1", share_id="s", cdi=["nvidia.com/gpu=0"])
    )
    kubelet.answer = pod(
        "train",
        container("main", devices=[("nvidia.com/gpu", [GPU, f"{GPU}::1"])], claims=[("train-gpu-x7", claims)]),
        container("sidecar"),
    ) + pod("web", namespace="shop")

    assert await ask(socket) == DeviceListing(
        (
            ListedPod(
                "team",
                "train",
                (
                    ListedContainer(
                        "main",
                        (PluginDevice("nvidia.com/gpu", GPU), PluginDevice("nvidia.com/gpu", f"{GPU}::1")),
                        (
                            ClaimedDevice("gpu.nvidia.com", "node-1", "gpu-0"),
                            ClaimedDevice("gpu.nvidia.com", "node-1", "gpu-1", "s"),
                        ),
                        ("train-gpu-x7",),
                    ),
                    ListedContainer("sidecar"),
                ),
            ),
            ListedPod("shop", "web"),
        ),
        NOW,
    )


async def test_an_answer_without_pods_is_an_answer(kubelet, socket):
    assert await ask(socket) == DeviceListing((), NOW)


async def test_a_small_answer_is_decoded_without_a_change_of_thread_and_a_large_one_beside_the_clients(
    kubelet, socket, monkeypatch
):
    threads = []

    def decode(answer, asked_at_s):
        threads.append(threading.current_thread())
        return read_listing(answer, asked_at_s)

    monkeypatch.setattr(module, "read_listing", decode)
    entry = pod("train", container("main", devices=[("nvidia.com/gpu", [GPU])]))
    small = SMALL_BYTES // len(entry)
    for pods in (small, small + 1):
        kubelet.answer = entry * pods
        assert len((await ask(socket)).pods) == pods
    assert [each is threading.main_thread() for each in threads] == [True, False]


async def test_an_answer_of_17_8_mb_that_repeats_itself_is_read(kubelet, socket):
    # kubernetes#141335: the entries of one driver repeat, each with the CDI names of those before it.
    entry = field(4, claim_resource("gpu.nvidia.com", "node-1", "gpu-0", cdi=["k8s.gpu.nvidia.com/claim=gpu-0"] * 20))
    repeated = entry * (17_800_000 // len(entry))
    kubelet.answer = pod("train", container("main", claims=[("claim", repeated)]))
    assert len(kubelet.answer) > 17_700_000

    found = await ask(socket)

    device = ClaimedDevice("gpu.nvidia.com", "node-1", "gpu-0")
    assert found == DeviceListing(
        (ListedPod("team", "train", (ListedContainer("main", (), (device,), ("claim",)),)),), NOW
    )


async def test_an_answer_of_65_mib_is_too_large(kubelet, socket):
    kubelet.answer = field(9, b"\0" * (65 << 20))

    found = await ask(socket, deadline_s=30)

    assert isinstance(found, NoListing)
    assert found.reason is HolderReason.ANSWER_TOO_LARGE
    assert str(MOST_BYTES) in found.message


async def test_a_million_devices_are_too_large(kubelet, socket):
    many = b"".join(field(2, str(n)) for n in range(1000)) * 1001
    kubelet.answer = pod("train", field(1, "main") + field(2, field(1, "example.com/fuse") + many))

    found = await ask(socket, deadline_s=30)

    assert isinstance(found, NoListing)
    assert found.reason is HolderReason.ANSWER_TOO_LARGE


async def test_a_slow_kubelet_is_late(kubelet, socket):
    kubelet.delay_s = 30

    assert await ask(socket, deadline_s=0.2) == NoListing(HolderReason.KUBELET_LATE, "no answer within 0.2 s")


async def test_a_kubelet_that_closes_the_connection_is_silent(kubelet, socket):
    kubelet.closes = True

    assert (await ask(socket)).reason is HolderReason.KUBELET_SILENT
    assert kubelet.requests == 1


async def test_no_kubelet_is_silent(socket):
    assert (await ask(socket)).reason is HolderReason.KUBELET_SILENT


@pytest.mark.parametrize(
    ("code", "details"),
    [
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit"),
        (grpc.StatusCode.UNIMPLEMENTED, "unknown service"),
        (grpc.StatusCode.INTERNAL, "x" * 5000),
    ],
)
async def test_a_kubelet_that_refuses_is_heard_in_few_words(kubelet, socket, code, details):
    kubelet.refusal = (code, details)

    found = await ask(socket)

    assert found.reason is HolderReason.KUBELET_REFUSED
    assert details[:20] in found.message
    assert len(found.message) <= 300


@pytest.mark.parametrize(
    "answer", [b"\xff", field(1, b"\xff"), field(1, field(1, b"\xc3\x28")), b"HTTP/1.1 400 Bad Request\r\n"]
)
async def test_an_answer_that_is_no_message_is_malformed(kubelet, socket, answer):
    kubelet.answer = answer

    assert (await ask(socket)).reason is HolderReason.ANSWER_MALFORMED


@pytest.mark.parametrize(
    "answer",
    [
        pod("x" * 513),
        pod("train", namespace="x" * 513),
        pod("train", container("x" * 513)),
        pod("train", container("main", devices=[("x" * 513, ["a"])])),
        pod("train", container("main", devices=[("nvidia.com/gpu", ["x" * 513])])),
        pod("train", container("main", claims=[("c", field(4, claim_resource("d", "p", "x" * 513)))])),
        pod("train", container("main", claims=[("c", field(4, claim_resource("d", "p", "e", "x" * 513)))])),
    ],
)
def test_names_longer_than_any_real_one_are_malformed(answer):
    assert read_listing(answer, NOW) == NoListing(HolderReason.ANSWER_MALFORMED, "a name of 513 characters")


@pytest.mark.parametrize(
    "answer",
    [
        pod("train") * (MOST_ITEMS + 1),
        pod("train", *[container("main")] * MOST_ITEMS),
        pod("train", container("main", claims=[(str(n), b"") for n in range(MOST_ITEMS + 1)])),
        pod(
            "train",
            container(
                "main",
                claims=[("c", b"".join(field(4, claim_resource("d", "p", str(n))) for n in range(MOST_ITEMS + 1)))],
            ),
        ),
        pod("train", container("main", claims=[("c", field(4, claim_resource("d", "p", "e")) * 1_000_001)])),
    ],
)
def test_more_of_anything_than_a_node_has_is_too_large(answer):
    assert read_listing(answer, NOW).reason is HolderReason.ANSWER_TOO_LARGE


def test_as_many_items_as_are_allowed_are_read():
    found = read_listing(pod("train") * MOST_ITEMS, NOW)

    assert isinstance(found, DeviceListing)
    assert len(found.pods) == MOST_ITEMS


async def test_a_kubelet_that_comes_back_on_a_new_socket_is_asked_again(kubelet, socket):
    async with aclosing(KubeletClient(socket, wall_time=lambda: NOW)) as client:
        assert isinstance(await client.list(), DeviceListing)
        await kubelet.server.stop(grace=None)
        assert isinstance(await client.list(), NoListing)
        kubelet.answer = pod("train")
        async with kubelet.running(socket):
            # The connection is tried again after a pause that grpc chooses.
            while isinstance(found := await client.list(), NoListing):
                assert found.reason is HolderReason.KUBELET_SILENT
    assert found == DeviceListing((ListedPod("team", "train"),), NOW)
