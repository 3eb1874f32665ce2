"""Explains why a node is scored and filtered as it is.

`GET /debug/scoring` shows what is known of all nodes (`?node=NAME`: of one); `POST /debug/explain` takes a body as
/prioritize does and shows every term of every candidate's score by the readable formula, and the filter's result.
Guarantees nothing about speed: thousands of nodes hold the event loop for tens of milliseconds, so these are for
people. Source: docs/decisions/0002-extender.md.
"""

from dataclasses import asdict
from http import HTTPStatus
from typing import Any

import msgspec
from aiohttp import web

from joulie_core.demand import WorkloadClass
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_core.powerest.marginal import marginal_watts
from joulie_core.powerest.pod_demand import PodDemand
from joulie_core.scoring.filter import FilterResult
from joulie_core.scoring.formula import MAX_SCORE
from joulie_core.scoring.state import TwinSnapshot
from joulie_core.stated_time import NINTHS
from joulie_extender.bodies import Bodies, LoopPauses
from joulie_extender.handlers import bad_request
from joulie_extender.node_entry import NodeEntry
from joulie_extender.requests import BadRequestError
from joulie_extender.table import NodeTable
from joulie_extender.watches import ExtenderWatches

_UNKNOWN = TwinSnapshot()


class Debug:
    """The endpoints for people."""

    def __init__(self, table: NodeTable, feeds: ExtenderWatches, bodies: Bodies) -> None:
        self._table = table
        self._feeds = feeds
        self._bodies = bodies

    def routes(self) -> list[web.RouteDef]:
        """Return the endpoints."""
        return [web.get("/debug/scoring", self.scoring), web.post("/debug/explain", self.explain)]

    async def scoring(self, request: web.Request) -> web.Response:
        """Return the state of the nodes."""
        self._feeds.refresh()
        name = request.query.get("node")
        entries = [entry for entry in self._table if name in {None, entry.name}]
        if name is not None and not entries:
            return web.Response(status=HTTPStatus.NOT_FOUND, text=f"nothing is known of a node {name}\n")
        nodes, pace = [], LoopPauses()
        for entry in sorted(entries, key=lambda entry: entry.name):
            nodes.append(self._describe(entry))
            await pace.add()
        return _json({**self._cluster(), "nodes": nodes})

    async def explain(self, request: web.Request) -> web.Response:
        """Every term of the candidates' scores for one pod."""
        async with self._bodies.received(request) as body:
            try:
                query, _ = await self._bodies.read(body, self._feeds.claims.gpus)
            except BadRequestError as error:
                return bad_request(error)
            self._feeds.refresh()
            covered = self._table.covered(query.run_s)
            nodes, pace = [], LoopPauses()
            for name in query.names:
                nodes.append(self._explain(self._table.entry(name), query.demand, covered.get(name, 0)))
                await pace.add()
            pod = asdict(query.demand) | {"run_s": query.run_s}
            return _json({**self._cluster(), "pod": pod, "nodes": nodes})

    def _cluster(self) -> dict[str, Any]:
        coefficients, terms = self._table.config.coefficients, self._table.terms
        return {
            "scorePolicy": self._table.config.score.name,
            "coefficients": {
                "cpuUtilCoeff": coefficients.cpu_util,
                "gpuUtilCoeffStandard": coefficients.gpu_util_standard,
                "gpuUtilCoeffPerformance": coefficients.gpu_util_performance,
            },
            "cluster": {
                "trendWPerMin": terms.trend_w_per_min,
                "trendScale": terms.trend_scale,
                "perfPressure": terms.perf_pressure,
                "problem": self._feeds.stale_reason(),
            },
        }

    def _describe(self, entry: NodeEntry) -> dict[str, Any]:
        state, power = entry.state or _UNKNOWN, entry.power
        return {
            "nodeName": entry.name,
            "schedulableClass": (entry.state.schedulable_class if entry.state else SchedulableClass.UNKNOWN).value,
            "headroom": state.headroom_pct(),
            "coolingStress": state.cooling_stress_pct,
            "measuredPowerW": state.measured_watts,
            "assumedPowerW": state.assumed_watts,
            "cappedPowerW": state.capped_watts,
            "nodeTdpW": state.tdp_watts,
            "powerTrendWPerMin": state.trend_w_per_min,
            "estimatedPUE": state.pue,
            "baseScore": self._base_score(entry),
            "cpuTotalCores": power.cpu_cores,
            "cpuTotalThreads": power.cpu_threads,
            "cpuMaxWattsTotal": power.cpu_max_watts,
            "gpuCount": power.gpu_count,
            "gpuMaxWattsPerGpu": power.watts_per_gpu if power.gpu_count else 0,
            "hasGpu": power.gpu_count > 0,
            "stale": entry.stale,
            **_told_supplies(state),
            "performancePods": _told(entry.judge(WorkloadClass.PERFORMANCE)),
            "standardPods": _told(entry.judge(WorkloadClass.STANDARD)),
        }

    def _base_score(self, entry: NodeEntry) -> float:
        """Return the score for a pod that adds no power, without the terms that depend on the pod's class."""
        # Neither bonus nor pressure applies to performance pods.
        return self._table.explain(entry, PodDemand(0.0, workload_class=WorkloadClass.PERFORMANCE)).score

    def _explain(self, entry: NodeEntry, demand: PodDemand, covered: int) -> dict[str, Any]:
        node = self._table.situation(entry, covered)
        marginal = marginal_watts(demand, node.power, node.coefficients, node.pue)
        terms = self._table.explain(entry, demand, covered)
        return {
            "nodeName": entry.name,
            "score": terms.score * self._table.config.score_max / MAX_SCORE,
            "terms": terms.by_name,
            "projectedHeadroom": terms.headroom_pct,
            "coveredShare": covered / NINTHS,
            "marginalCpuW": marginal.cpu_watts,
            "marginalGpuW": marginal.gpu_watts,
            "neutral": terms.neutral,
            "filter": _told(self._table.judge(entry, demand)),
        }


def _told(judged: FilterResult) -> dict[str, Any]:
    return {"allowed": judged.ok, "reason": judged.reason.value, "message": judged.message}


def _told_supplies(state: TwinSnapshot) -> dict[str, Any]:
    """Return what domains can supply; nothing where no limit of one is enforced."""
    domains = [{"domain": domain, "availableW": watts} for domain, watts in state.supplies]
    return {"powerDomains": domains} if domains else {}


def _json(value: dict[str, Any]) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")
