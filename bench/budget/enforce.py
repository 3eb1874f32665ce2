"""A cut of the root limit over 1,000 nodes: CPU and time of the operator's side, on an in-process API server.

    python bench/budget/enforce.py
    python bench/budget/enforce.py --nodes 5000

The API server and the agents, which answer at once, are in a process of their own. The operator is its controller of
power domains alone, with its watches and its writes. Three cuts of the root to 70, 60 and 50 % of what the nodes may
draw, by its limit, and then by PowerEvents that start when they are created; of each the time from the write to the
last ask that is stored and to the last answer that the API server has, and the CPU of the operator's process in it.
Exit code 1 where a cut takes more than ten seconds.
"""

import argparse
import asyncio
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from prometheus_client import CollectorRegistry

from joulie_api.apply import FencedWriter
from joulie_api.client import KubeClient
from joulie_api.failures import Failures
from joulie_api.reflector import Reflector
from joulie_api.resources import NODE_POWER_BUDGETS, NODES, POWER_DOMAINS, POWER_EVENTS
from joulie_api.wire import decode_kind, decode_node
from joulie_core.budget import BudgetNode
from joulie_core.kinds import NodePowerBudget, PowerDomain, PowerEvent
from joulie_core.names import NodeName
from joulie_core.node import Node
from joulie_operator.power_domains.available import AvailableWatts
from joulie_operator.power_domains.budget_writer import BudgetWriter
from joulie_operator.power_domains.budgets import NodeBudgets
from joulie_operator.power_domains.controller import PowerDomainController, PowerDomainParts
from joulie_operator.power_domains.events import PowerEventParts, PowerEvents
from joulie_operator.power_domains.inputs import DomainNode, identity_of
from joulie_operator.power_domains.sent import SentLimits
from joulie_testing.api import FakeApiServer, make_node, make_power_domain, make_power_event

LIMIT_S: Final = 10.0
_MAX_WATTS: Final = 1_000
_RACKS: Final = 20
_WRITES: Final = 16
#: Share of a limit that is given out in the end.
_RAISED: Final = 0.95


class _Sight:
    """Every node may draw 1,000 W, and wants as much."""

    def node(self, node: Node) -> DomainNode:
        """Return one node of the cluster."""
        return DomainNode(BudgetNode(node.name, identity_of(node), _MAX_WATTS * 1_000, 200_000, _MAX_WATTS * 1_000))

    def retain(self, names: Iterable[NodeName]) -> None:
        """Forget nothing: nothing is measured."""


def _domain(name: str, limit_watts: int, **spec: Any) -> dict[str, Any]:
    return make_power_domain(name, limit_watts=limit_watts, mode="Enforce", **spec)


async def _serve(pipe: Connection, directory: Path, nodes: int) -> None:
    async with FakeApiServer() as api:
        for number in range(nodes):
            labels = {"rack": f"r{number % _RACKS}"}
            api.put(make_node(f"n{number}", labels=labels, boot_id="b"))
        api.put(_domain("feed", nodes * _MAX_WATTS))
        for number in range(_RACKS):
            api.put(_domain(f"r{number}", nodes * _MAX_WATTS, parent="feed", nodeSelector={"rack": f"r{number}"}))
        api.kubeconfig(directory)
        answered = asyncio.create_task(_answer(api))
        pipe.send("ready")
        loop = asyncio.get_running_loop()
        while (order := await loop.run_in_executor(None, pipe.recv)) is not None:
            kind, watts = order
            if kind == "raise":
                await _raise(api, watts)
                pipe.send(None)
                continue
            seen = len(api.requests)
            start = time.monotonic()
            if kind == "limit":
                api.put(_domain("feed", watts))
            else:
                api.put(make_power_event(f"cut-{watts}", domain="feed", limitWatts=watts))
            asked_s = await _within(api, seen, watts, "spec", "limitWatts") - start
            answered_s = await _within(api, seen, watts, "status", "inForceWatts") - start
            writes = [each for each in list(api.requests)[seen:] if each.kind == "NodePowerBudget"]
            pipe.send((asked_s, answered_s, sum(each.verb in {"create", "patch"} for each in writes)))
        answered.cancel()


async def _raise(api: FakeApiServer, watts: int) -> None:
    """Give the feed a limit without events, and return when the sum of all limits that were answered is close to it."""
    for event in api.objects("PowerEvent"):
        api.remove("PowerEvent", event["metadata"]["name"])
    api.put(_domain("feed", watts))
    async with asyncio.timeout(60.0):
        while True:
            if sum(_answered_watts(each) for each in api.objects("NodePowerBudget")) >= _RAISED * watts:
                return
            # Not at each change: a look at all objects takes longer than a write.
            await asyncio.sleep(0.5)


def _answered_watts(budget: Mapping[str, Any]) -> float:
    spec, status = budget["spec"], budget.get("status", {})
    return float(spec.get("limitWatts", _MAX_WATTS)) if status.get("sequence") == spec["sequence"] else 0.0


async def _within(api: FakeApiServer, seen: int, watts: int, part: str, key: str) -> float:
    """Return when the sum of the limits of all nodes was first within the limit; each takes a request at least."""
    count = api.count("Node")
    while True:
        await api.wait_for(lambda: len(api.requests) >= seen + count, timeout_s=60.0)
        limits = [each.get(part, {}).get(key) for each in api.objects("NodePowerBudget")]
        if len(limits) == count and None not in limits and sum(limits) <= watts:
            return time.monotonic()
        await asyncio.sleep(0.05)


async def _answer(api: FakeApiServer) -> None:
    """Let the agent of each node that was asked answer."""
    done = 0
    pending: list[Mapping[str, Any]] = []
    while True:
        entries = list(api.requests)[done:]
        done += len(entries)
        written = (each for each in entries if each.kind == "NodePowerBudget" and each.verb in {"create", "patch"})
        asked, pending = [*pending, *(each.json()["spec"] for each in written)], []
        for spec in asked:
            stored = api.get("NodePowerBudget", spec["nodeName"])
            if stored is None or stored["spec"]["renewal"] < spec["renewal"]:
                pending.append(spec)  # received, and not stored yet
                continue
            kept = ("nodeUID", "bootID", "sequence", "renewal")
            status = {each: stored["spec"][each] for each in kept}
            status["inForceWatts"] = stored["spec"].get("limitWatts")
            api.patch("NodePowerBudget", spec["nodeName"], {"status": status})
        await asyncio.sleep(0.01)


def _run_server(pipe: Connection, directory: Path, nodes: int) -> None:
    asyncio.run(_serve(pipe, directory, nodes))


def _controller(client: KubeClient) -> tuple[PowerDomainController, list[Reflector[Any]]]:
    domains = Reflector(client, POWER_DOMAINS, decode_kind(PowerDomain))
    nodes = Reflector(client, NODES, decode_node)
    budgets = Reflector(client, NODE_POWER_BUDGETS, decode_kind(NodePowerBudget))
    events = Reflector(client, POWER_EVENTS, decode_kind(PowerEvent))
    writer, clock = FencedWriter(client, "joulie-operator", max_in_flight=_WRITES), asyncio.get_running_loop().time
    sent, failures = SentLimits(), Failures(CollectorRegistry())
    parts = PowerDomainParts(
        domains=domains,
        nodes=nodes,
        sight=_Sight(),  # type: ignore[arg-type]
        budgets=NodeBudgets(
            budgets,
            sent,
            BudgetWriter(writer, sent, clock=clock, concurrency=_WRITES, ahead=nullcontext),
            term=lambda above: 1 if above < 1 else None,
            enforces=True,
            clock=clock,
        ),
        available=AvailableWatts(clock),
        events=PowerEvents(PowerEventParts(events, events.stale_reason, writer, failures)),
        writer=writer,
        stale_reason=lambda: domains.stale_reason() or nodes.stale_reason(),
        failures=failures,
        wall=time.time,
        clock=clock,
    )
    return PowerDomainController(parts), [domains, nodes, budgets, events]


async def _measure(pipe: Connection, directory: Path, count: int) -> bool:
    slow = False
    client = await KubeClient.connect(kubeconfig=str(directory / "kubeconfig.json"), user_agent="joulie-operator/bench")
    async with client:
        controller, watches = _controller(client)
        tasks = [asyncio.create_task(each.run()) for each in (*watches, controller)]
        loop = asyncio.get_running_loop()
        print(f"{count} nodes, {_RACKS} racks: cut of the feed to   asked s   answered s   CPU s   writes")
        for kind in ("limit", "event"):
            pipe.send(("raise", count * _MAX_WATTS))
            await loop.run_in_executor(None, pipe.recv)
            await asyncio.sleep(3.0)
            for share in (0.7, 0.6, 0.5):
                before = time.process_time()
                pipe.send((kind, int(share * count * _MAX_WATTS)))
                asked_s, answered_s, writes = await loop.run_in_executor(None, pipe.recv)
                cpu_s = time.process_time() - before
                print(f"{kind:>38}{share:6.0%}{asked_s:10.2f}{answered_s:13.2f}{cpu_s:8.2f}{writes:9}", flush=True)
                slow |= answered_s > LIMIT_S
                await asyncio.sleep(3.0)
        pipe.send(None)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return slow


def main() -> int:
    """Print the table and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1_000)
    count = parser.parse_args().nodes
    here, there = multiprocessing.Pipe()
    with tempfile.TemporaryDirectory() as name:
        server = multiprocessing.Process(target=_run_server, args=(there, Path(name), count), daemon=True)
        server.start()
        here.recv()
        slow = asyncio.run(_measure(here, Path(name), count))
        server.join(timeout=10.0)
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
