"""The kubelet's pod-resources API, over its UNIX socket: one question, `List`.

Guarantees one current answer or the reason why there is none: each call has a deadline, a message and what it lists
have maxima, and whatever an answer holds becomes a value. Equal entries are counted once, since the kubelet may repeat
them without bound (kubernetes#141335).
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TypeVar

import grpc
from google.protobuf.message import DecodeError as ProtobufError
from grpc import aio

from joulie_agent.holders.proto.pod_resources_pb2 import (
    ContainerResources,
    ListPodResourcesRequest,
    ListPodResourcesResponse,
    PodResources,
)
from joulie_core.holders.records import (
    ClaimedDevice,
    DeviceListing,
    HolderReason,
    ListedContainer,
    ListedPod,
    NoListing,
    PluginDevice,
)
from joulie_core.text import printable

_Entry = TypeVar("_Entry")

METHOD: Final = "/v1.PodResourcesLister/List"
#: A kubelet with 110 pods answers in less than a millisecond.
DEADLINE_S: Final = 2.0
MOST_BYTES: Final = 64 << 20
#: Decoded within milliseconds, in which a container waits for no other thread; 110 pods with GPUs have 8 KiB.
SMALL_BYTES: Final = 32 << 10
#: Pods, containers, claims and devices of one answer, equal ones counted once: a node has a few hundred.
MOST_ITEMS: Final = 65_536
#: Entries that are looked at, equal ones included.
MOST_ENTRIES: Final = 1_000_000
#: Characters of a name: those of Kubernetes have 253 at most.
MOST_TEXT: Final = 512
_LONGEST_MESSAGE: Final = 300
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MOST_BYTES),
    # A kubelet that restarts is found again at one of the next calls.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 1000),
)


class KubeletClient:
    """Client of the kubelet of this node; it connects when needed, and again after a failure. For one event loop."""

    def __init__(
        self, socket: Path, *, deadline_s: float = DEADLINE_S, wall_time: Callable[[], float] = time.time
    ) -> None:
        self._socket = socket
        self._deadline_s = deadline_s
        self._wall_time = wall_time
        self._channel: aio.Channel | None = None

    async def list(self) -> DeviceListing | NoListing:
        """Return what the containers of this node have."""
        asked_at_s = self._wall_time()
        answer = await self._call()
        if isinstance(answer, NoListing):
            return answer
        if len(answer) <= SMALL_BYTES:
            return read_listing(answer, asked_at_s)
        # Decoding takes up to a second, and the reader's clients are not to wait for it.
        return await asyncio.to_thread(read_listing, answer, asked_at_s)

    async def aclose(self) -> None:
        """Close the connection."""
        if self._channel is not None:
            await self._channel.close()
            self._channel = None

    async def _call(self) -> bytes | NoListing:
        if self._channel is None:
            self._channel = aio.insecure_channel(f"unix:{self._socket}", options=_OPTIONS)
        method: aio.UnaryUnaryMultiCallable[ListPodResourcesRequest, bytes] = self._channel.unary_unary(
            METHOD, request_serializer=ListPodResourcesRequest.SerializeToString
        )
        try:
            answer: bytes = await method(ListPodResourcesRequest(), timeout=self._deadline_s)
        except aio.AioRpcError as error:
            return self._failed(error)
        return answer

    def _failed(self, error: aio.AioRpcError) -> NoListing:
        message = printable(f"{self._socket}: {error.details()}", _LONGEST_MESSAGE)
        match error.code():
            case grpc.StatusCode.DEADLINE_EXCEEDED:
                return NoListing(HolderReason.KUBELET_LATE, f"no answer within {self._deadline_s:g} s")
            case grpc.StatusCode.UNAVAILABLE | grpc.StatusCode.CANCELLED:
                return NoListing(HolderReason.KUBELET_SILENT, message)
            # Of the kubelet itself it is the limit of requests per second.
            case grpc.StatusCode.RESOURCE_EXHAUSTED if "larger than max" in (error.details() or ""):
                return NoListing(HolderReason.ANSWER_TOO_LARGE, message)
            case _:
                return NoListing(HolderReason.KUBELET_REFUSED, message)


def read_listing(answer: bytes, asked_at_s: float) -> DeviceListing | NoListing:
    """Decode an answer.

    Args:
        answer: the message, ListPodResourcesResponse.
        asked_at_s: clock of the node before the request, in seconds since the epoch.
    """
    try:
        message = ListPodResourcesResponse.FromString(answer)
        return DeviceListing(_Reading().pods(message.pod_resources), asked_at_s)
    except ProtobufError as error:
        return NoListing(HolderReason.ANSWER_MALFORMED, printable(str(error), _LONGEST_MESSAGE))
    except _BeyondBoundsError as error:
        return NoListing(error.reason, str(error))


class _BeyondBoundsError(Exception):
    def __init__(self, reason: HolderReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class _Reading:
    """Turns one answer into records, and counts what it holds."""

    def __init__(self) -> None:
        self._items = self._entries = 0

    def pods(self, messages: Iterable[PodResources]) -> tuple[ListedPod, ...]:
        return tuple(self._pod(each) for each in self._looked_at(messages))

    def _pod(self, message: PodResources) -> ListedPod:
        self._count(1)
        return ListedPod(
            namespace=_text(message.namespace),
            name=_text(message.name),
            containers=tuple(self._container(each) for each in self._looked_at(message.containers)),
        )

    def _container(self, message: ContainerResources) -> ListedContainer:
        devices: dict[PluginDevice, None] = {}
        claimed: dict[ClaimedDevice, None] = {}
        claims: dict[str, None] = {}
        for of_resource in self._looked_at(message.devices):
            name = _text(of_resource.resource_name)
            for device_id in self._looked_at(of_resource.device_ids):
                devices[PluginDevice(name, _text(device_id))] = None
                self._bound(len(devices))
        for of_claim in self._looked_at(message.dynamic_resources):
            claims[_text(of_claim.claim_name)] = None
            for each in self._looked_at(of_claim.claim_resources):
                device = ClaimedDevice(
                    driver=_text(each.driver_name),
                    pool=_text(each.pool_name),
                    device=_text(each.device_name),
                    share_id=_text(each.share_id) if each.HasField("share_id") else None,
                )
                claimed[device] = None
                self._bound(len(claimed) + len(claims))
        self._count(1 + len(devices) + len(claimed) + len(claims))
        return ListedContainer(_text(message.name), tuple(devices), tuple(claimed), tuple(claims))

    def _looked_at(self, messages: Iterable[_Entry]) -> Iterable[_Entry]:
        for each in messages:
            self._entries += 1
            if self._entries > MOST_ENTRIES:
                raise _BeyondBoundsError(HolderReason.ANSWER_TOO_LARGE, f"more than {MOST_ENTRIES} entries")
            yield each

    def _count(self, items: int) -> None:
        self._items += items
        self._bound(0)

    def _bound(self, more: int) -> None:
        if self._items + more > MOST_ITEMS:
            raise _BeyondBoundsError(HolderReason.ANSWER_TOO_LARGE, f"more than {MOST_ITEMS} pods and devices")


def _text(text: str) -> str:
    if len(text) > MOST_TEXT:
        raise _BeyondBoundsError(HolderReason.ANSWER_MALFORMED, f"a name of {len(text)} characters")
    return text
