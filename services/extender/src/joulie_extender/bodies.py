"""Receiving a request: its bytes, and thousands of full nodes without delaying other requests.

Guarantees that the event loop is left between parts of what is received and read, so that probes and other requests get
through. What kube-scheduler writes is cut into its nodes; what is written otherwise is read in one go, up to a mebibyte
of full nodes.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final, Self

from aiohttp import web

from joulie_api.claims import ClaimedGpus
from joulie_extender.byte_budget import ByteBudget
from joulie_extender.requests import (
    BadRequestError,
    Body,
    ExtenderRequest,
    SentNode,
    TooLargeError,
    check_candidates,
    read_object,
    read_query,
    split_nodes,
)

#: Without a limit of the container: the chart's.
_DEFAULT_MEMORY_BYTES: Final = 1024 * 1024 * 1024
#: Nodes looked at before others get the event loop: about two milliseconds.
PART_NODES: Final = 128
#: Bytes of full nodes read or written before others get the event loop.
PART_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """Limits for what is received, which follow from the memory of the container.

    Of 1 GiB: 128 MiB for one body, and 5,000 full nodes with their managed fields are about 47 MB; 256 MiB for all
    bodies that are received or in use.
    """

    one_bytes: int
    all_bytes: int

    @classmethod
    def of_memory(cls, memory_bytes: int | None) -> Self:
        """Return the limits for a container's memory; None: it has no limit."""
        memory = memory_bytes or _DEFAULT_MEMORY_BYTES
        return cls(one_bytes=memory // 8, all_bytes=memory // 4)


class Bodies:
    """The bodies that are received and in use.

    Args:
        max_bytes: of one body.
        budget: of all of them.
    """

    def __init__(self, max_bytes: int, budget: ByteBudget) -> None:
        self._max_bytes = max_bytes
        self._budget = budget
        self._reading = asyncio.Lock()

    @asynccontextmanager
    async def received(self, request: web.Request) -> AsyncGenerator[Body]:
        """Receive a body, and count it among those in use until the end of the context.

        Raises:
            HTTPRequestEntityTooLarge: it is larger than one may be.
            HTTPTooManyRequests: with the others it exceeds the budget.
        """
        # Not `request.read()`, which copies what it has received once more. The buffer grows with what arrives and not
        # to the announced size, which costs a client nothing.
        announced = request.content_length or 0
        if announced > self._max_bytes:
            raise self._too_large(announced)
        body = bytearray()
        taken = 0
        try:
            async for part in request.content.iter_any():
                if not self._budget.take(len(part)):
                    raise _too_many()
                taken += len(part)
                body += part
                if len(body) > self._max_bytes:
                    raise self._too_large(len(body))
            yield body
        finally:
            self._budget.release(taken)

    async def read(self, body: Body, claimed_gpus: ClaimedGpus) -> tuple[ExtenderRequest, list[SentNode] | None]:
        """Decode a body, and its full nodes if it has any, whose names become the request's names.

        One body at a time, with a turn of the event loop before each: of bodies that arrive together each may take
        tens of milliseconds.

        Raises:
            BadRequestError: it cannot be read.
        """
        async with self._reading:
            await asyncio.sleep(0)
            return await _read_body(body, claimed_gpus)

    def _too_large(self, size: int) -> web.HTTPRequestEntityTooLarge:
        refusal = web.HTTPRequestEntityTooLarge(
            self._max_bytes,
            size,
            text=f"the request has {size} bytes, at most {self._max_bytes} are accepted: an eighth of the container's "
            "memory limit\n",
        )
        refusal.force_close()  # The body has not been read.
        return refusal


def _too_many() -> web.HTTPTooManyRequests:
    refusal = web.HTTPTooManyRequests(text="other requests are too large, try again\n", headers={"Retry-After": "1"})
    refusal.force_close()  # The body has not been read.
    return refusal


async def _read_body(body: Body, claimed_gpus: ClaimedGpus) -> tuple[ExtenderRequest, list[SentNode] | None]:
    cut = split_nodes(body, claimed_gpus)
    if cut is not None:
        try:
            return await _read_objects(cut)
        except TooLargeError:
            raise
        except BadRequestError:
            pass  # Whether it is valid is decided on the whole body.
    return await _read_objects(read_query(body, claimed_gpus))


async def _read_objects(query: ExtenderRequest) -> tuple[ExtenderRequest, list[SentNode] | None]:
    if query.objects is None:
        return query, None
    nodes: list[SentNode] = []
    pace = LoopPauses()
    for raw in query.objects:
        nodes.append(read_object(raw))
        check_candidates(len(nodes))
        await pace.add(len(raw))
    return replace(query, names=[node.name for node in nodes]), nodes


class LoopPauses:
    """Leaves the event loop to others between parts of a long work."""

    def __init__(self) -> None:
        self._nodes = self._bytes = 0

    async def add(self, size_bytes: int = 0) -> None:
        """Count a node as done, and wait for a turn of the event loop where a part is complete."""
        self._nodes += 1
        self._bytes += size_bytes
        if self._nodes >= PART_NODES or self._bytes >= PART_BYTES:
            self._nodes = self._bytes = 0
            await asyncio.sleep(0)
