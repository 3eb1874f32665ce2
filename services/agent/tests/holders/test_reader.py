import asyncio
import os
import socket as socket_module
from dataclasses import replace

import pytest
from services.agent.tests.holders.scripted_kubelet import container, pod

from joulie_actuator.server import Admission, Peer
from joulie_agent.holders import reader as reader_module
from joulie_agent.holders.answer import MOST_BYTES, decode_answer, encode_answer, fetch_answer, now_socket
from joulie_agent.holders.process import run
from joulie_agent.holders.reader import HoldersReader, serving
from joulie_agent.holders.settings import HoldersSettings
from joulie_api.settings import read_settings
from joulie_core.holders.records import (
    ClaimedDevice,
    DeviceListing,
    HolderReason,
    ListedContainer,
    ListedPod,
    NoListing,
    PluginDevice,
)

LISTING = DeviceListing(
    (
        ListedPod(
            "team",
            "train",
            (
                ListedContainer(
                    "main",
                    (PluginDevice("nvidia.com/gpu", "GPU-a"),),
                    (ClaimedDevice("gpu.nvidia.com", "n", "gpu-0", "s"),),
                    ("claim",),
                ),
            ),
        ),
    ),
    1_000_000.0,
)


class Kubelet:
    """Gives scripted answers, one after the other; the last one for good."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = 0
        self.was_asked = asyncio.Event()

    async def list(self):
        self.asked += 1
        self.was_asked.set()
        answer = self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)
        if isinstance(answer, float):
            await asyncio.sleep(answer)
            return LISTING
        return answer


def test_an_answer_arrives_as_it_was_sent():
    assert decode_answer(encode_answer(LISTING, 0.5)) == LISTING


def test_a_reason_arrives_as_it_was_sent():
    found = NoListing(HolderReason.KUBELET_LATE, "no answer within 2 s")

    assert decode_answer(encode_answer(found, 0.5)) == found


@pytest.mark.parametrize(("age_s", "is_current"), [(3.0, True), (3.01, False)])
def test_an_answer_is_current_for_three_seconds(age_s, is_current):
    found = decode_answer(encode_answer(LISTING, age_s))

    assert found == (LISTING if is_current else NoListing(HolderReason.ANSWER_OLD, found.message))


def test_an_old_reason_stays_the_reason():
    found = NoListing(HolderReason.KUBELET_SILENT, "x")

    assert decode_answer(encode_answer(found, 99.0)) == found


@pytest.mark.parametrize(
    "line",
    [b"", b"{}", b"[" * 100_000, b'{"age_s":-1}', b'{"age_s":1,"pods":[{}]}', b'{"age_s":1,"reason":"Odd"}', b"\xff"],
)
def test_what_is_no_answer_is_malformed(line):
    found = decode_answer(line)

    assert found.reason is HolderReason.ANSWER_MALFORMED
    assert len(found.message) <= 300


def test_an_answer_that_the_controller_would_not_read_is_too_large():
    pods = tuple(ListedPod("n" * 512, f"{number}".rjust(512)) for number in range(MOST_BYTES // 1000))

    assert decode_answer(encode_answer(DeviceListing(pods, 0.0), 0.0)).reason is HolderReason.ANSWER_TOO_LARGE


@pytest.mark.looptime
async def test_the_kubelet_is_asked_once_a_second_and_a_failure_replaces_the_answer(looptime):
    late = NoListing(HolderReason.KUBELET_LATE, "no answer within 2 s")
    kubelet = Kubelet(LISTING, late, replace(LISTING, pods=()))
    reader = HoldersReader(kubelet.list)
    assert decode_answer(await reader.answer()).reason is HolderReason.KUBELET_SILENT
    task = asyncio.create_task(reader.run())
    try:
        found = []
        for _ in range(3):
            await asyncio.sleep(0.5)
            found.append((decode_answer(await reader.answer()), kubelet.asked))
            await asyncio.sleep(0.5)
        assert found == [(LISTING, 1), (late, 2), (replace(LISTING, pods=()), 3)]
    finally:
        task.cancel()


@pytest.mark.looptime
async def test_an_answer_ages_while_the_next_one_does_not_come(looptime):
    reader = HoldersReader(Kubelet(LISTING, 30.0).list)
    task = asyncio.create_task(reader.run())
    try:
        await asyncio.sleep(2.9)
        assert decode_answer(await reader.answer()) == LISTING
        await asyncio.sleep(0.2)
        assert decode_answer(await reader.answer()).reason is HolderReason.ANSWER_OLD
    finally:
        task.cancel()


async def test_a_question_that_is_asked_now_is_not_answered_by_an_earlier_answer(tmp_path):
    newer = replace(LISTING, pods=())
    kubelet = Kubelet(LISTING, newer)
    reader, path = HoldersReader(kubelet.list), tmp_path / "holders-now.sock"
    task = asyncio.create_task(reader.run())
    async with serving(reader.answer_now, path, Admission(uid=os.geteuid(), gid=os.getegid())):
        await kubelet.was_asked.wait()
        assert await fetch_answer(str(path)) == newer
    task.cancel()


@pytest.mark.looptime
async def test_an_answer_that_took_long_is_as_old_as_its_question(looptime):
    reader = HoldersReader(Kubelet(3.5).list)
    assert decode_answer(await reader.answer_now()).reason is HolderReason.ANSWER_OLD


def test_the_second_socket_lies_beside_the_first():
    assert now_socket("/run/joulie/holders.sock") == "/run/joulie/holders-now.sock"


async def test_no_process_is_a_reason(tmp_path):
    assert (await fetch_answer(str(tmp_path / "none.sock"))).reason is HolderReason.NO_READER


async def test_a_process_that_hangs_is_a_reason(tmp_path):
    with socket_module.socket(socket_module.AF_UNIX) as hung:
        hung.bind(str(tmp_path / "hung.sock"))
        hung.listen()
        found = await fetch_answer(str(tmp_path / "hung.sock"))

    assert found.reason is HolderReason.NO_READER


async def test_a_process_that_sends_too_much_is_cut_off(tmp_path):
    ended = asyncio.Event()

    async def flood(_reader, writer):
        try:
            writer.write(b" " * (2 * MOST_BYTES))
            await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()
            ended.set()

    server = await asyncio.start_unix_server(flood, tmp_path / "flood.sock")
    async with server:
        found = await fetch_answer(str(tmp_path / "flood.sock"))
        await ended.wait()

    # On a slow machine the deadline comes first; either ends it.
    assert found.reason in {HolderReason.ANSWER_TOO_LARGE, HolderReason.NO_READER}


async def test_a_peer_that_is_not_admitted_gets_nothing(tmp_path, monkeypatch):
    reader, path = HoldersReader(Kubelet(LISTING).list), tmp_path / "holders.sock"
    controller = os.geteuid() + 10
    async with serving(reader.answer, path, Admission(uid=controller, gid=os.getegid())):
        monkeypatch.setattr(reader_module, "peer_of", lambda _: Peer(1, uid=controller + 1, gid=os.getegid()))
        assert (await fetch_answer(str(path))).reason is HolderReason.ANSWER_MALFORMED
        monkeypatch.setattr(reader_module, "peer_of", lambda _: Peer(1, uid=controller, gid=os.getegid()))
        assert (await fetch_answer(str(path))).reason is HolderReason.KUBELET_SILENT


async def test_the_process_gives_the_controller_what_the_kubelet_lists(kubelet, socket, tmp_path):
    kubelet.answer = pod("train", container("main", devices=[("nvidia.com/gpu", ["GPU-a"])]))
    path = tmp_path / "shared" / "holders.sock"
    settings = read_settings(
        HoldersSettings,
        {
            "METRICS_ADDR": "127.0.0.1:0",
            "KUBELET_SOCKET": str(socket),
            "HOLDERS_SOCKET": str(path),
            "HOLDERS_CONTROLLER_UID": str(os.geteuid()),
            "HOLDERS_CONTROLLER_GID": str(os.getegid()),
        },
    )
    apps = []
    task = asyncio.create_task(run(settings, on_start=apps.append))
    async with asyncio.timeout(60):
        while isinstance(found := await fetch_answer(str(path)), NoListing):
            assert not task.done()
            await asyncio.sleep(0.01)
    assert path.stat().st_mode & 0o777 == 0o660
    second = path.with_name("holders-now.sock")
    assert second.stat().st_mode & 0o777 == 0o660
    assert (await fetch_answer(str(second))).pods == found.pods
    apps[0].stop()
    await task

    device = PluginDevice("nvidia.com/gpu", "GPU-a")
    assert found.pods == (ListedPod("team", "train", (ListedContainer("main", (device,)),)),)
    assert (path.exists(), second.exists()) == (False, False)
