"""The endpoints that kube-scheduler calls.

Guarantees: no request waits for the API server, and none fails for its body: a body that cannot be read is answered 400
with the reason, one beyond a limit 413. Before the first sync /filter and /prioritize answer 503, as nodes that are not
known yet would pass for free; kube-scheduler then acts on its `ignorable` setting, as it does on every error. Large
requests leave the event loop between parts, so that probes and other requests get through.
"""

import asyncio
from collections.abc import Iterable
from http import HTTPStatus
from time import perf_counter
from typing import Final

from aiohttp import hdrs, web

from joulie_core.powerest.pod_demand import PodDemand
from joulie_extender.bodies import Bodies, LoopPauses
from joulie_extender.direct_http import DirectEndpoint, DirectReply
from joulie_extender.metrics import ExtenderMetrics
from joulie_extender.replies import names_reply, objects_reply, refusal
from joulie_extender.requests import BadRequestError, ExtenderRequest, Part, SentNode, TooLargeError, read_query
from joulie_extender.scores import ScoredNodes
from joulie_extender.table import NodeTable
from joulie_extender.watches import ExtenderWatches

_NOT_SYNCED: Final = "the cluster is not known yet"
#: Of a body that is answered at once, together with others that arrived at the same time: 5,000 names of 25 characters,
#: and their commas with the members of a usual pod. What is above is read in a turn of its own.
_USUAL_BYTES: Final = 128 * 1024
_USUAL_PARTS: Final = 6_000


class Handlers:
    """Answers of one extender."""

    def __init__(self, table: NodeTable, feeds: ExtenderWatches, metrics: ExtenderMetrics, bodies: Bodies) -> None:
        self._table = table
        self._feeds = feeds
        self._metrics = metrics
        self._bodies = bodies
        #: The latest body of names, and what it is.
        self._latest: tuple[bytes, ExtenderRequest] | None = None

    def routes(self) -> list[web.RouteDef]:
        """Return the endpoints."""
        return [
            web.post("/filter", self.filter),
            web.post("/prioritize", self.prioritize),
            web.get("/healthz", self.healthz),
        ]

    def direct(self) -> dict[str, DirectEndpoint]:
        """Return the endpoints for the usual requests: a pod and names."""
        return {"/filter": self.filter_names, "/prioritize": self.prioritize_names}

    def filter_names(self, body: bytes, started: float) -> DirectReply | None:
        """Return which candidates the pod may use; None for a body with full nodes, or an unusually large one."""
        query = self._read_names(body)
        if not isinstance(query, ExtenderRequest):
            return query
        return DirectReply(self._filter_reply(query, started))

    def prioritize_names(self, body: bytes, started: float) -> DirectReply | None:
        """Return how well each candidate suits the pod; None as for `filter_names`."""
        query = self._read_names(body)
        if not isinstance(query, ExtenderRequest):
            return query
        return DirectReply(self._scores_reply(query, started))

    async def filter(self, request: web.Request) -> web.StreamResponse:
        """Answer with the candidates that the pod may use."""
        started = perf_counter()
        async with self._bodies.received(request) as body:
            try:
                query, nodes = await self._bodies.read(body, self._feeds.claims.gpus)
            except BadRequestError as error:
                return bad_request(error)
            if not self._feeds.synced:
                return _not_synced()
            if nodes is None:
                return _json(self._filter_reply(query, started))
            self._feeds.refresh()
            passed, refused = await self._judge(nodes, query.demand)
            answer = await _send_parts(request, objects_reply(passed, refused))
            self._metrics.filter.observe(query.demand.workload_class, started)
            return answer

    async def prioritize(self, request: web.Request) -> web.Response:
        """Answer with the score of each candidate for the pod."""
        started = perf_counter()
        async with self._bodies.received(request) as body:
            try:
                query, _ = await self._bodies.read(body, self._feeds.claims.gpus)
            except BadRequestError as error:
                return bad_request(error)
            if not self._feeds.synced:
                return _not_synced()
            return _json(self._scores_reply(query, started))

    def _read_names(self, body: bytes) -> ExtenderRequest | DirectReply | None:
        # kube-scheduler repeats the body of /filter in /prioritize where no node was refused.
        latest = self._latest
        if latest is not None and latest[0] == body:
            query = latest[1]
        elif not _is_usual(body):
            return None
        else:
            try:
                query = read_query(body, self._feeds.claims.gpus)
            except BadRequestError as error:
                return DirectReply.text(HTTPStatus.BAD_REQUEST, str(error))
            if query.objects is not None:
                return None
            self._latest = None if query.with_claims else (body, query)
        return query if self._feeds.synced else DirectReply.text(HTTPStatus.SERVICE_UNAVAILABLE, _NOT_SYNCED)

    def _filter_reply(self, query: ExtenderRequest, started: float) -> bytes:
        self._feeds.refresh()
        body = names_reply(query.names, self._table.refusals_of(query.names, query.demand))
        self._metrics.filter.observe(query.demand.workload_class, started)
        return body

    def _scores_reply(self, query: ExtenderRequest, started: float) -> bytes:
        self._feeds.refresh()
        answer = self._table.answer(query.names, query.demand, query.run_s)
        # After the reply is on its way: the scheduler does not wait for it, and sends nothing before.
        asyncio.get_running_loop().call_soon(self._expect, query, answer)
        self._metrics.last_demands[query.demand.workload_class] = query.demand
        self._metrics.prioritize.observe(query.demand.workload_class, started)
        return answer.body

    async def healthz(self, _request: web.Request) -> web.Response:
        """Answer that the process is alive; readiness is /readyz on the other port."""
        return web.Response(text="ok\n")

    def _expect(self, query: ExtenderRequest, answer: ScoredNodes) -> None:
        node = answer.likely_node(query.uid) if query.uid else None
        if node is not None:
            self._table.expect_pod(query.uid, node, query.demand)

    async def _judge(self, nodes: list[SentNode], demand: PodDemand) -> tuple[list[Part], list[bytes]]:
        passed: list[Part] = []
        refused: list[bytes] = []
        pace = LoopPauses()
        for node in nodes:
            # The object's own label is what the scheduler goes by; without one, the watched node's counts.
            judged = self._table.judge(self._table.entry(node.name), demand, node.labels or None)
            if judged.ok:
                passed.append(node.raw)
            else:
                refused.append(refusal(node.name, judged))
            await pace.add()
        return passed, refused


def _is_usual(body: bytes) -> bool:
    return len(body) <= _USUAL_BYTES and body.count(b",") + body.count(b":") + body.count(b"{") <= _USUAL_PARTS


async def _send_parts(request: web.Request, parts: Iterable[bytes]) -> web.StreamResponse:
    """Send a reply part by part, chunked, so that neither this process nor the event loop has to hold all of it."""
    answer = web.StreamResponse(headers={hdrs.CONTENT_TYPE: "application/json"})
    await answer.prepare(request)
    for part in parts:
        await answer.write(part)
        await asyncio.sleep(0)  # a client that reads as fast as this writes makes no write wait
    await answer.write_eof()
    return answer


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")


def bad_request(error: BadRequestError) -> web.Response:
    """Return the reply to a body that cannot be read."""
    too_large = isinstance(error, TooLargeError)
    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE if too_large else HTTPStatus.BAD_REQUEST
    return web.Response(status=status, text=f"{error}\n")


def _not_synced() -> web.Response:
    return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE, text=f"{_NOT_SYNCED}\n")
