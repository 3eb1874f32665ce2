"""The endpoints that kube-scheduler calls.

Guarantees: no request waits for the API server, and none fails for its body: a body that cannot be read is answered 400
with the reason. Before the first sync /filter and /prioritize answer 503, as nodes that are not known yet would pass
for free; kube-scheduler then acts on its `ignorable` setting. Requests with thousands of full nodes leave the event
loop between parts, so that probes and other requests get through.
"""

import asyncio
from collections.abc import Iterable
from http import HTTPStatus
from time import perf_counter

from aiohttp import hdrs, web

from joulie_core.demand import WorkloadClass
from joulie_extender.bodies import PART_NODES, read_request
from joulie_extender.metrics import ExtenderMetrics
from joulie_extender.replies import names_reply, objects_reply, refusal
from joulie_extender.requests import BadRequestError, ExtenderRequest, Part, SentNode
from joulie_extender.scores import ScoredNodes
from joulie_extender.table import NodeTable
from joulie_extender.watches import ExtenderWatches


class Handlers:
    """Answers of one extender."""

    def __init__(self, table: NodeTable, feeds: ExtenderWatches, metrics: ExtenderMetrics) -> None:
        self._table = table
        self._feeds = feeds
        self._metrics = metrics

    def routes(self) -> list[web.RouteDef]:
        """Return the endpoints."""
        return [
            web.post("/filter", self.filter),
            web.post("/prioritize", self.prioritize),
            web.get("/healthz", self.healthz),
        ]

    async def filter(self, request: web.Request) -> web.StreamResponse:
        """Which candidates the pod may use."""
        started = perf_counter()
        try:
            query, nodes = await read_request(request, self._feeds.claims.gpus)
        except BadRequestError as error:
            return bad_request(error)
        if not self._feeds.synced:
            return _not_synced()
        self._feeds.refresh()
        picky = query.demand.workload_class is WorkloadClass.PERFORMANCE
        if nodes is None:
            answer: web.StreamResponse = _json(names_reply(query.names, self._table.refusals if picky else {}))
        else:
            passed, refused = await self._judge(nodes) if picky else ([node.raw for node in nodes], [])
            answer = await _send_parts(request, objects_reply(passed, refused))
        self._metrics.filter.observe(query.demand.workload_class, started)
        return answer

    async def prioritize(self, request: web.Request) -> web.Response:
        """How well each candidate suits the pod."""
        started = perf_counter()
        try:
            query, _ = await read_request(request, self._feeds.claims.gpus)
        except BadRequestError as error:
            return bad_request(error)
        if not self._feeds.synced:
            return _not_synced()
        self._feeds.refresh()
        answer = self._table.answer(query.names, query.demand)
        # After the reply is on its way: the scheduler does not wait for it, and sends nothing before.
        asyncio.get_running_loop().call_soon(self._expect, query, answer)
        self._metrics.last_demands[query.demand.workload_class] = query.demand
        self._metrics.prioritize.observe(query.demand.workload_class, started)
        return _json(answer.body)

    async def healthz(self, _request: web.Request) -> web.Response:
        """Answer that the process is alive; readiness is /readyz on the other port."""
        return web.Response(text="ok\n")

    def _expect(self, query: ExtenderRequest, answer: ScoredNodes) -> None:
        node = answer.likely_node(query.uid) if query.uid else None
        if node is not None:
            self._table.expect_pod(query.uid, node, query.demand)

    async def _judge(self, nodes: list[SentNode]) -> tuple[list[Part], list[bytes]]:
        passed: list[Part] = []
        refused: list[bytes] = []
        for number, node in enumerate(nodes, start=1):
            # The object's own label is what the scheduler goes by; without one, the watched node's counts.
            judged = self._table.entry(node.name).judge(WorkloadClass.PERFORMANCE, node.labels or None)
            if judged.ok:
                passed.append(node.raw)
            else:
                refused.append(refusal(node.name, judged))
            if number % PART_NODES == 0:
                await asyncio.sleep(0)
        return passed, refused


async def _send_parts(request: web.Request, parts: Iterable[bytes]) -> web.StreamResponse:
    """Send a reply part by part, chunked, so that neither this process nor the event loop has to hold all of it."""
    answer = web.StreamResponse(headers={hdrs.CONTENT_TYPE: "application/json"})
    await answer.prepare(request)
    for part in parts:
        await answer.write(part)
    await answer.write_eof()
    return answer


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")


def bad_request(error: BadRequestError) -> web.Response:
    """Return the reply to a body that cannot be read."""
    return web.Response(status=HTTPStatus.BAD_REQUEST, text=f"{error}\n")


def _not_synced() -> web.Response:
    return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE, text="the cluster is not known yet\n")
