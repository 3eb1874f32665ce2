"""A plain HTTP client: the server is tested by its bytes, not through the client that it is meant to test."""

import asyncio
import json
from dataclasses import dataclass

import aiohttp
import pytest

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
PROFILES = "/apis/joulie.io/v1alpha1/nodepowerprofiles"


@dataclass
class Raw:
    session: aiohttp.ClientSession

    async def __call__(self, method, path, body=None, *, content_type="application/json", **query):
        data = None if body is None else json.dumps(body)
        headers = {"Content-Type": content_type, "User-Agent": "bare/1"}
        async with self.session.request(method, path, params=query, data=data, headers=headers) as response:
            return response.status, await response.json(content_type=None)

    async def apply(self, path, body, *, manager, force="false"):
        return await self("PATCH", path, body, content_type=APPLY, fieldManager=manager, force=force)

    async def merge(self, path, body, **query):
        return await self("PATCH", path, body, content_type=MERGE, **query)

    def watch(self, path, **query):
        return Watch(self.session, path, {"watch": "true", **query})


@dataclass
class Watch:
    session: aiohttp.ClientSession
    path: str
    query: dict
    response: aiohttp.ClientResponse | None = None

    async def __aenter__(self):
        self.response = await self.session.get(self.path, params=self.query)
        return self

    async def __aexit__(self, *_):
        self.response.close()

    async def line(self):
        async with asyncio.timeout(30):
            return await self.response.content.readline()

    async def drain(self):
        while await self.line():
            pass

    async def event(self):
        line = await self.line()
        if not line:
            return None
        event = json.loads(line)
        return event["type"], event["object"]

    async def named(self, count):
        events = [await self.event() for _ in range(count)]
        return [(kind, obj["metadata"]["name"]) for kind, obj in events]


@pytest.fixture
async def raw(fake_api):
    async with aiohttp.ClientSession(fake_api.url) as session:
        yield Raw(session)


def profile(name, cpu=None, **status):
    body = {"apiVersion": "joulie.io/v1alpha1", "kind": "NodePowerProfile", "metadata": {"name": name}}
    if cpu is not None:
        body["spec"] = {"cpu": cpu}
    if status:
        body["status"] = status
    return body


@pytest.fixture
def make_profile():
    return profile
