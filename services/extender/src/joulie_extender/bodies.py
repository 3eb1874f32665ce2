"""Receiving a request: its bytes, and thousands of full nodes without delaying other requests.

Guarantees that the event loop is left between parts of what is received and read, so that probes and other requests get
through, where the body is written as kube-scheduler writes it; written otherwise it is read in one go.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Final

from aiohttp import web

from joulie_api.byte_budget import ByteBudget
from joulie_api.claims import ClaimedGpus
from joulie_extender.requests import (
    BadRequestError,
    Body,
    ExtenderRequest,
    SentNode,
    read_object,
    read_query,
    split_nodes,
)

#: 5,000 full nodes with their managed fields are about 47 MB.
MAX_BODY_BYTES: Final = 256 * 1024 * 1024
#: All bodies together that are received or in use; the chart limits the container's memory to 1 GiB.
MAX_BODIES_BYTES: Final = 512 * 1024 * 1024
#: Full nodes looked at before others get the event loop: about two milliseconds.
PART_NODES: Final = 128


class Bodies:
    """The bodies that are received and in use."""

    def __init__(self, budget: ByteBudget) -> None:
        self._budget = budget

    @asynccontextmanager
    async def received(self, request: web.Request) -> AsyncGenerator[Body]:
        """Receive a body, and count it among those in use until the end of the context.

        Raises:
            HTTPRequestEntityTooLarge: it exceeds MAX_BODY_BYTES.
            HTTPTooManyRequests: with the others it exceeds the budget.
        """
        # Not `request.read()`, which copies what it has received once more. The buffer grows with what arrives and not
        # to the announced size, which costs a client nothing.
        announced = request.content_length or 0
        if announced > MAX_BODY_BYTES:
            raise web.HTTPRequestEntityTooLarge(MAX_BODY_BYTES, announced)
        body = bytearray()
        taken = 0
        try:
            async for part in request.content.iter_any():
                if not self._budget.take(len(part)):
                    raise _too_many()
                taken += len(part)
                body += part
                if len(body) > MAX_BODY_BYTES:
                    raise web.HTTPRequestEntityTooLarge(MAX_BODY_BYTES, len(body))
            yield body
        finally:
            self._budget.release(taken)


def _too_many() -> web.HTTPTooManyRequests:
    refusal = web.HTTPTooManyRequests(text="other requests are too large, try again\n", headers={"Retry-After": "1"})
    refusal.force_close()  # The body has not been read.
    return refusal


async def read_body(body: Body, claimed_gpus: ClaimedGpus) -> tuple[ExtenderRequest, list[SentNode] | None]:
    """Decode a body, and its full nodes if it has any, whose names become the request's names.

    Raises:
        BadRequestError: it cannot be read.
    """
    cut = split_nodes(body, claimed_gpus)
    if cut is not None:
        with suppress(BadRequestError):  # Whether it is valid is decided on the whole body.
            return await _read_objects(cut)
    return await _read_objects(read_query(body, claimed_gpus))


async def _read_objects(query: ExtenderRequest) -> tuple[ExtenderRequest, list[SentNode] | None]:
    if query.objects is None:
        return query, None
    nodes: list[SentNode] = []
    for raw in query.objects:
        nodes.append(read_object(raw))
        if len(nodes) % PART_NODES == 0:
            await asyncio.sleep(0)
    return replace(query, names=[node.name for node in nodes]), nodes
