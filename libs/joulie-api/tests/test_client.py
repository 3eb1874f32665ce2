import asyncio
import base64
import json
from datetime import timedelta
from pathlib import Path

import aiohttp
import certifi
import pytest
from aiohttp import web

from joulie_api._kubernetes import Session, load_library
from joulie_api.client import KubeClient
from joulie_api.errors import (
    AlreadyExists,
    ConfigError,
    Conflict,
    Forbidden,
    NotFound,
    StreamBrokenError,
    TooManyRequests,
    TransportError,
    Unauthorized,
)
from joulie_api.resources import LEASES, NODE_POWER_PROFILES, NODES
from joulie_testing.api import CutMidLine, Delay, Disconnect, Respond, make_node


def profile(name="n1", **spec):
    return {
        "apiVersion": "joulie.io/v1alpha1",
        "kind": "NodePowerProfile",
        "metadata": {"name": name},
        "spec": {"nodeName": name, "profile": "eco", **spec},
    }


async def test_objects_are_created_read_replaced_and_deleted(fake_api, fake_client):
    body = {"metadata": {"name": "op"}, "spec": {"holderIdentity": "a"}}
    lease = json.loads(await fake_client.create(LEASES, body, "kube-system"))
    with pytest.raises(AlreadyExists):
        await fake_client.create(LEASES, body, "kube-system")
    lease["spec"]["holderIdentity"] = "b"
    await fake_client.replace(LEASES, "op", lease, "kube-system")
    with pytest.raises(Conflict):
        await fake_client.replace(LEASES, "op", lease, "kube-system")
    assert json.loads(await fake_client.get(LEASES, "op", "kube-system"))["spec"]["holderIdentity"] == "b"
    await fake_client.delete(LEASES, "op", "kube-system")
    with pytest.raises(NotFound):
        await fake_client.delete(LEASES, "op", "kube-system")


async def test_a_merge_patch_is_sent_as_one(fake_api, fake_client):
    fake_api.put(make_node("n1", labels={"a": "1"}))
    await fake_client.merge_patch(NODES, "n1", {"metadata": {"labels": {"a": None, "b": "2"}}}, field_manager="op")
    assert fake_api.requests[-1].content_type == "application/merge-patch+json"
    assert fake_api.requests[-1].query["fieldManager"] == "op"
    labels = fake_api.get("Node", "n1")["metadata"]["labels"]
    assert "a" not in labels
    assert labels["b"] == "2"


async def test_an_apply_is_sent_as_one_and_owns_its_fields(fake_api, fake_client):
    await fake_client.apply(NODE_POWER_PROFILES, "n1", profile(), field_manager="joulie-operator")
    request = fake_api.requests[-1]
    assert request.content_type == "application/apply-patch+yaml"
    assert (request.query["fieldManager"], request.query["force"]) == ("joulie-operator", "true")
    await fake_client.apply(
        NODE_POWER_PROFILES,
        "n1",
        {**profile(), "status": {"conditions": []}},
        field_manager="joulie-agent",
        subresource="status",
    )
    with pytest.raises(Conflict, match="joulie-operator"):
        await fake_client.apply(
            NODE_POWER_PROFILES, "n1", profile(profile="performance"), field_manager="other", force=False
        )


async def test_all_pages_of_a_list_are_fetched(fake_api, fake_client):
    fake_api.put_all(make_node(f"n{i}") for i in range(5))
    pages = [json.loads(page) async for page in fake_client.list_pages(NODES, limit=2)]
    assert [len(page["items"]) for page in pages] == [2, 2, 1]
    assert len(await fake_client.list(NODES)) == 5
    assert [node["metadata"]["name"] for node in await fake_client.list(NODES, field_selector="metadata.name=n3")] == [
        "n3"
    ]


async def test_selectors_are_encoded_in_the_url(fake_api, fake_client):
    fake_api.put(make_node("n1", labels={"joulie.io/rack": "r1"}))
    fake_api.put(make_node("n2"))
    found = await fake_client.list(NODES, label_selector="joulie.io/managed=true,joulie.io/rack in (r1, r2)")
    assert [node["metadata"]["name"] for node in found] == ["n1"]


async def test_the_user_agent_is_the_services(fake_api, fake_client):
    await fake_client.list(NODES)
    assert fake_api.requests[-1].user_agent == "joulie-test/0"


async def test_refusals_are_exceptions_with_the_servers_message(fake_api, fake_client):
    fake_api.faults.add(Respond(403, reason="Forbidden", message="cannot get nodes"))
    with pytest.raises(Forbidden, match="403 Forbidden: cannot get nodes"):
        await fake_client.get(NODES, "n1")
    fake_api.faults.add(Respond(429, retry_after_s=4))
    with pytest.raises(TooManyRequests) as refused:
        await fake_client.get(NODES, "n1")
    assert refused.value.retry_after_s == 4


@pytest.mark.parametrize("fault", [Disconnect(), CutMidLine()])
async def test_a_broken_connection_is_a_transport_error(fake_api, fake_client, fault):
    fake_api.put(make_node("n1"))
    fake_api.faults.add(fault, times=2)  # aiohttp itself repeats a GET once that met a closed connection
    with pytest.raises(TransportError, match="GET /api/v1/nodes/n1") as broken:
        await fake_client.get(NODES, "n1")
    assert broken.value.__cause__ is not None


async def test_every_request_has_a_time_limit(fake_api, fake_client):
    fake_api.put(make_node("n1"))
    fake_api.faults.add(Delay(60))
    with pytest.raises(TransportError, match="TimeoutError"):
        await fake_client.get(NODES, "n1", timeout_s=0.1)


async def test_a_request_waits_for_no_thread(fake_api, fake_client, monkeypatch):
    fake_api.put(make_node("n1"))
    threads = []
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "run_in_executor", lambda *call: threads.append(call))
    await fake_client.get(NODES, "n1")
    await fake_client.merge_patch(NODES, "n1", {"metadata": {"labels": {"a": "1"}}})
    assert threads == []


async def test_an_unreachable_server_is_a_transport_error(fake_api, fake_client):
    await fake_api.stop()
    with pytest.raises(TransportError, match="ClientConnectorError"):
        await fake_client.get(NODES, "n1")


async def test_a_watch_that_breaks_off_in_a_line_yields_only_whole_lines(fake_api, fake_client):
    fake_api.put(make_node("n0"))
    version = str(fake_api.resource_version)
    fake_api.put(make_node("n1"))
    fake_api.faults.add(CutMidLine(after_lines=1), verb="watch")
    async with fake_client.watch(NODES, resource_version=version, timeout_s=30) as stream:
        assert json.loads(await anext(stream))["object"]["metadata"]["name"] == "n1"
        with pytest.raises(StreamBrokenError):
            await anext(stream)


async def test_a_line_larger_than_any_buffer_arrives_whole(fake_api, fake_client):
    fake_api.put(make_node("n0"))
    version = str(fake_api.resource_version)
    fake_api.put(make_node("big", annotations={"a": "x" * 6_000_000}))
    async with fake_client.watch(NODES, resource_version=version, timeout_s=30) as stream:
        assert len(json.loads(await anext(stream))["object"]["metadata"]["annotations"]["a"]) == 6_000_000


async def test_a_401_reads_the_credentials_again_and_tries_once_more(fake_api, fake_client):
    fake_api.put(make_node("n1"))
    fake_api.faults.add(Respond(401, body=b"Unauthorized"), times=1)
    await fake_client.get(NODES, "n1")
    assert fake_client.reload_count == 1
    fake_api.faults.add(Respond(401, body=b"Unauthorized"), times=None)
    with pytest.raises(Unauthorized):
        await fake_client.get(NODES, "n1")
    assert fake_client.reload_count == 1, "read again only a moment ago"


class Secured:
    """Yield an API server that requires a bearer token."""

    def __init__(self):
        self.token = "first"
        self.seen = []
        self.seen_as_proxy = []

    async def handle(self, request):
        self.seen.append(request.headers.get("Authorization"))
        self.seen_as_proxy.append(request.headers.get("Proxy-Authorization"))
        if self.seen[-1] != f"Bearer {self.token}":
            return web.json_response({"kind": "Status", "code": 401, "reason": "Unauthorized"}, status=401)
        return web.json_response({"metadata": {"name": "n1"}})


@pytest.fixture
async def secured():
    server = Secured()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.port = runner.addresses[0][1]
    yield server
    await runner.cleanup()


def write_kubeconfig(path, port, *, host="127.0.0.1", **user):
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": f"http://{host}:{port}"}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(content))
    return str(path)


async def test_a_token_in_the_kubeconfig_is_sent_and_read_again_when_it_changed(secured, tmp_path):
    kubeconfig = write_kubeconfig(tmp_path / "config", secured.port, token="first")
    async with await KubeClient.connect(kubeconfig=kubeconfig, user_agent="test") as client:
        await client.get(NODES, "n1")
        secured.token = "second"
        write_kubeconfig(tmp_path / "config", secured.port, token="second")
        await client.get(NODES, "n1")
    assert secured.seen == ["Bearer first", "Bearer first", "Bearer second"]


async def test_the_proxy_of_the_environment_is_used_with_its_credentials(secured, tmp_path, monkeypatch):
    monkeypatch.setenv("http_proxy", f"http://user:p%40ss@127.0.0.1:{secured.port}")
    kubeconfig = write_kubeconfig(tmp_path / "config", 80, host="cluster.invalid", token="first")
    async with await KubeClient.connect(kubeconfig=kubeconfig, user_agent="test") as client:
        await client.get(NODES, "n1")
    assert secured.seen == ["Bearer first"]
    assert secured.seen_as_proxy == [aiohttp.encode_basic_auth("user", "p@ss")]


async def test_a_host_that_the_environment_excepts_is_not_reached_through_the_proxy(secured, tmp_path, monkeypatch):
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{secured.port}")
    monkeypatch.setenv("no_proxy", "cluster.invalid")
    kubeconfig = write_kubeconfig(tmp_path / "config", 80, host="cluster.invalid", token="first")
    async with await KubeClient.connect(kubeconfig=kubeconfig, user_agent="test") as client:
        with pytest.raises(TransportError):
            await client.get(NODES, "n1")
    assert secured.seen == []


async def test_the_token_of_an_exec_plugin_is_used(secured, tmp_path):
    plugin = tmp_path / "plugin"
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "kind": "ExecCredential",
        "status": {"token": "first"},
    }
    plugin.write_text(f"#!/bin/sh\ncat <<'X'\n{json.dumps(credential)}\nX\n")
    plugin.chmod(0o755)
    command = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": str(plugin), "args": []}
    kubeconfig = write_kubeconfig(tmp_path / "config", secured.port, exec=command)
    async with await KubeClient.connect(kubeconfig=kubeconfig, user_agent="test") as client:
        await client.get(NODES, "n1")
    assert secured.seen == ["Bearer first"]


@pytest.fixture
def service_account(tmp_path, monkeypatch, secured):
    """Create the files and variables of a pod; the certificates are valid, but of other names."""
    token, authority = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("first")
    authority.write_text(Path(certifi.where()).read_text())
    library = load_library()
    loader = library.config.load_incluster_config.__globals__
    monkeypatch.setitem(loader, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setitem(loader, "SERVICE_CERT_FILENAME", str(authority))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(secured.port))
    return Session(library, kubeconfig=None, context=None), token


async def test_in_a_pod_the_service_account_is_used_and_its_token_read_again(secured, service_account):
    session, token = service_account
    await session.open("test")
    assert session.server == f"https://127.0.0.1:{secured.port}"
    async with KubeClient(session) as client:
        http = f"http://127.0.0.1:{secured.port}"  # the test's server speaks no TLS
        session._configuration.host = http
        await client.get(NODES, "n1")
        assert session._configuration.refresh_api_key_hook is not None
        secured.token = "second"
        token.write_text("second")
        session.reload_credentials = reload_over(session, http)
        await client.get(NODES, "n1")
    assert secured.seen == ["Bearer first", "Bearer first", "Bearer second"]


def reload_over(session, url):
    reload_credentials = session.reload_credentials

    async def reload():
        await reload_credentials()
        session._configuration.host = url

    return reload


async def test_a_token_file_that_vanishes_fails_requests_and_not_the_process(secured, service_account, monkeypatch):
    session, token = service_account
    loader = load_library().config.load_incluster_config.__globals__
    monkeypatch.setitem(loader, "TOKEN_REFRESH_PERIOD", timedelta(0))
    async with KubeClient(session) as client:
        await session.open("test")
        token.unlink()
        with pytest.raises(TransportError, match="token"):
            await client.get(NODES, "n1")


@pytest.mark.parametrize(
    ("content", "context"),
    [(None, None), ("", None), ("{", None), ("[]", None), ('{"kind":"Config"}', None), ("valid", "absent")],
)
async def test_an_unusable_kubeconfig_is_named(tmp_path, content, context):
    path = tmp_path / "config"
    if content == "valid":
        write_kubeconfig(path, 1)
    elif content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match=str(path)):
        await KubeClient.connect(kubeconfig=str(path), context=context, user_agent="test")


async def test_certificates_that_do_not_parse_are_a_configuration_error(tmp_path):
    path = tmp_path / "config"
    write_kubeconfig(path, 1)
    config = json.loads(path.read_text())
    nonsense = base64.b64encode(b"nonsense").decode()
    config["clusters"][0]["cluster"] = {"server": "https://127.0.0.1:1", "certificate-authority-data": nonsense}
    path.write_text(json.dumps(config))
    with pytest.raises(ConfigError, match="certificates"):
        await KubeClient.connect(kubeconfig=str(path), user_agent="test")


async def test_outside_a_cluster_a_kubeconfig_is_required(monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigError, match="in-cluster"):
        await KubeClient.connect(kubeconfig="", user_agent="test")


async def test_a_list_of_metadata_has_neither_spec_nor_status(fake_api, fake_client):
    fake_api.put(make_node("n1", labels={"a": "1"}))
    pages = [json.loads(raw) async for raw in fake_client.list_pages(NODES, metadata_only=True)]
    (item,) = pages[0]["items"]
    assert set(item) == {"metadata"}
    assert item["metadata"]["labels"]["a"] == "1"


@pytest.mark.parametrize(("named", "expected"), [("team", "team"), (None, "default")])
async def test_the_namespace_is_that_of_the_chosen_context(fake_api, tmp_path, named, expected):
    path = fake_api.kubeconfig(tmp_path)
    content = json.loads(path.read_text())
    context = {"cluster": "fake", "user": "fake", **({"namespace": named} if named else {})}
    content["contexts"].append({"name": "other", "context": context})
    path.write_text(json.dumps(content))
    async with await KubeClient.connect(kubeconfig=str(path), context="other", user_agent="t") as client:
        assert client.namespace == expected
