"""Requests to a running extender, as from its users and kube-scheduler."""

import json
from collections.abc import Iterable
from typing import Any

import aiohttp


async def scoring(url: str) -> dict[str, dict[str, Any]]:
    """Return the extender's data of each node: `nodes` of /debug/scoring, by name."""
    answer = json.loads(await request(url, "/debug/scoring"))
    return {node["nodeName"]: node for node in answer["nodes"]}


async def explain(url: str, pod: dict[str, Any], names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return every term of the scores of some nodes for a pod, by name."""
    answer = json.loads(await request(url, "/debug/explain", extender_args(pod, names)))
    return {node["nodeName"]: node for node in answer["nodes"]}


async def request(url: str, path: str, body: bytes | None = None) -> bytes:
    """Return the body of the answer; raise AssertionError for any status but 200."""
    method = "GET" if body is None else "POST"
    async with aiohttp.ClientSession() as session, session.request(method, f"{url}{path}", data=body) as answer:
        content = await answer.read()
        assert answer.status == 200, (path, answer.status, content)
        return content


def extender_args(pod: dict[str, Any], names: Iterable[str]) -> bytes:
    """Return the body that kube-scheduler posts for a pod and its candidates."""
    return json.dumps({"Pod": pod, "Nodes": None, "NodeNames": list(names)}, separators=(",", ":")).encode()
