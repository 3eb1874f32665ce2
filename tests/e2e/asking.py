"""Ask a running extender directly, as its users and kube-scheduler do."""

import json
from collections.abc import Iterable
from typing import Any

import aiohttp


async def scoring(url: str) -> dict[str, dict[str, Any]]:
    """What the extender knows of each node: `nodes` of /debug/scoring, by name."""
    answer = json.loads(await ask(url, "/debug/scoring"))
    return {node["nodeName"]: node for node in answer["nodes"]}


async def explain(url: str, pod: dict[str, Any], names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Every term of the scores of some nodes for a pod, by name."""
    answer = json.loads(await ask(url, "/debug/explain", question(pod, names)))
    return {node["nodeName"]: node for node in answer["nodes"]}


async def ask(url: str, path: str, body: bytes | None = None) -> bytes:
    """The answer's bytes; AssertionError for any status but 200."""
    method = "GET" if body is None else "POST"
    async with aiohttp.ClientSession() as session, session.request(method, f"{url}{path}", data=body) as answer:
        content = await answer.read()
        assert answer.status == 200, (path, answer.status, content)
        return content


def question(pod: dict[str, Any], names: Iterable[str]) -> bytes:
    """The body that kube-scheduler posts about a pod and some candidates."""
    return json.dumps({"Pod": pod, "Nodes": None, "NodeNames": list(names)}, separators=(",", ":")).encode()
