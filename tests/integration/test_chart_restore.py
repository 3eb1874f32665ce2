"""The program of the chart's uninstall hooks, against an API server with scripted answers."""

import json
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from tests.chart import CHART, NAMESPACE

from joulie_core.timestamps import epoch_seconds

APPS = f"/apis/apps/v1/namespaces/{NAMESPACE}"
OPERATOR, AGENT, RESTORE = f"{APPS}/deployments/op", f"{APPS}/daemonsets/agent", f"{APPS}/daemonsets/restore"
TARGETS, REPORTS = "/apis/joulie.io/v1alpha1/nodepowerprofiles", "/apis/joulie.io/v1alpha1/telemetryprofiles"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
NODES, BMCS = "/api/v1/nodes", "/apis/joulie.io/v1alpha1/nodebmcs"


class Cluster:
    """Objects and collections by path; records writes, and calls `on_delete` and `on_patch` for what controllers do."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {OPERATOR: {}, AGENT: {}}
        self.lists: dict[str, list[dict[str, Any]]] = {TARGETS: [{}], REPORTS: [], PODS: []}
        self.deleted: list[str] = []
        self.failures: list[int] = []
        self.on_delete: Callable[[str], None] = lambda _path: None
        self.patched: list[str] = []
        self.on_patch: Callable[[dict[str, Any]], None] = lambda _node: None
        self.page = 500

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        if self.failures:
            return self.failures.pop(0), {"message": "as the test wants"}
        if method == "DELETE":
            self.deleted.append(path)
            known = self.objects.pop(path, None) is not None or bool(self.lists.get(path))
            if path in self.lists:
                self.lists[path] = []
            self.on_delete(path)
            return (200, {}) if known else (404, {})
        if method == "PATCH":
            collection, _, name = path.rpartition("/")
            node = next((each for each in self.lists[collection] if each["metadata"]["name"] == name), None)
            if node is None:
                return 404, {}
            self.patched.append(name)
            node["metadata"].setdefault("annotations", {}).update(body["metadata"]["annotations"])
            self.on_patch(node)
            return 200, node
        if path in self.lists:
            start = int(query.get("continue", 0))
            end = start + min(self.page, int(query["limit"]))
            more = str(end) if end < len(self.lists[path]) else ""
            return 200, {"metadata": {"continue": more}, "items": self.lists[path][start:end]}
        return (200, self.objects[path]) if path in self.objects else (404, {})


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    state = Cluster()

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            assert self.headers["Authorization"] == "Bearer secret"
            url = urllib.parse.urlsplit(self.path)
            sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            query, patch = dict(urllib.parse.parse_qsl(url.query)), json.loads(sent) if sent else None
            status, body = state.answer(self.command, url.path, query, patch)
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_DELETE = do_PATCH = handle_any  # noqa: N815 - the names that the server looks for

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    state.url = f"http://127.0.0.1:{server.server_port}"
    yield state
    server.shutdown()
    server.server_close()


@pytest.fixture
def run(cluster: Cluster, tmp_path):
    (tmp_path / "token").write_text("secret\n")

    def run(command: str, *, timeout_s: float = 20, **env: str) -> tuple[int, str]:
        settings = {
            "POD_NAMESPACE": NAMESPACE,
            "OPERATOR_DEPLOYMENT": "op",
            "AGENT_DAEMONSET": "agent",
            "RESTORE_DAEMONSET": "restore",
            "RESTORE_SELECTOR": "a=b",
            "TIMEOUT_SECONDS": str(timeout_s),
            "POLL_SECONDS": "0.1",
            "KUBERNETES_SERVICE_HOST": "unused",
            "KUBERNETES_SERVICE_PORT": "1",
            "API_URL": cluster.url,
            "ACCOUNT_DIR": str(tmp_path),
        }
        program = [sys.executable, "-I", str(CHART / "files" / "restore.py"), command]
        done = subprocess.run(program, env=settings | env, capture_output=True, text=True, timeout=60, check=False)
        assert done.stderr == ""
        return done.returncode, done.stdout

    return run


def report(node: str, backend: str, reason: str = "Capped") -> dict[str, Any]:
    return {"metadata": {"name": node}, "status": {"control": {"cpu": {"backend": backend, "reason": reason}}}}


def test_operator_targets_and_agents_are_deleted_in_this_order(cluster, run):
    status, output = run("withdraw")
    assert (status, cluster.deleted) == (0, [OPERATOR, TARGETS, AGENT]), output


def test_targets_that_a_stopping_operator_still_writes_are_deleted_again(cluster, run):
    late = [{"late": True}]
    cluster.on_delete = lambda path: cluster.lists[TARGETS].extend(late) or late.clear() if path == TARGETS else None
    assert run("withdraw")[0] == 0
    assert cluster.deleted == [OPERATOR, TARGETS, TARGETS, AGENT]


def test_agents_are_not_deleted_before_http_backends_are_restored(cluster, run):
    cluster.lists[REPORTS] = [report("n1", "http-rapl"), report("n2", "http-rapl", "Restored")]
    seen = []

    def restore(path: str) -> None:
        if path == TARGETS:
            threading.Timer(1, lambda: cluster.lists[REPORTS].__setitem__(0, report("n1", "", "NoProfile"))).start()
        seen.append((path, bool(cluster.lists[REPORTS][0]["status"]["control"]["cpu"]["backend"])))

    cluster.on_delete = restore
    status, output = run("withdraw")
    assert status == 0, output
    assert seen[-1] == (AGENT, False)


def test_an_http_backend_that_keeps_its_limit_fails_the_uninstall_and_is_named(cluster, run):
    cluster.lists[REPORTS] = [report(f"n{number:02}", "http-nvml") for number in range(25)]
    cluster.page = 10
    status, output = run("withdraw", timeout_s=3)
    assert status == 1
    assert "n00, n01" in output
    assert "and 5 more" in output
    assert AGENT not in cluster.deleted


def test_a_dead_agent_is_waited_for_half_of_the_time_and_left_to_verify(cluster, run):
    cluster.lists[REPORTS] = [report("dead", "rapl")]
    before = time.monotonic()
    status, output = run("withdraw", timeout_s=6)
    assert status == 0
    assert 3 <= time.monotonic() - before < 6
    assert "no restore reported, verifying on the nodes: dead" in output
    assert cluster.deleted[-1] == AGENT


def test_a_pool_has_no_agents_to_delete_and_no_nodes_to_verify(cluster, run):
    cluster.lists[REPORTS] = [report("blocked-host", "rapl")]
    assert run("withdraw", AGENT_DAEMONSET="")[0] == 0
    assert cluster.deleted == [OPERATOR, TARGETS]


def test_it_can_be_repeated(cluster, run):
    assert run("withdraw")[0] == 0
    assert run("withdraw")[0] == 0


def test_requests_are_retried_while_the_api_server_restarts(cluster, run):
    cluster.failures = [503, 429]
    assert run("withdraw")[0] == 0


def test_an_api_server_that_does_not_answer_fails_the_uninstall_in_time(cluster, run):
    before = time.monotonic()
    status, output = run("withdraw", timeout_s=2, API_URL="http://127.0.0.1:1")
    assert status == 1
    assert "no answer from the API server" in output
    assert time.monotonic() - before < 10


def test_a_missing_permission_is_reported_at_once(cluster, run):
    cluster.failures = [403]
    status, output = run("withdraw")
    assert status == 1
    assert f"DELETE {OPERATOR}: 403" in output


def daemonset(wanted: int, ready: int, seen: int = 1) -> dict[str, Any]:
    status = {"observedGeneration": seen, "desiredNumberScheduled": wanted, "numberReady": ready}
    return {"metadata": {"generation": 1}, "status": status}


def test_a_node_is_verified_when_its_pod_is_ready(cluster, run):
    cluster.objects[RESTORE] = daemonset(2, 1)
    threading.Timer(1, lambda: cluster.objects.__setitem__(RESTORE, daemonset(2, 2))).start()
    status, output = run("verify")
    assert (status, output) == (0, "restore: done on 2 of 2 nodes\n")


def test_a_daemonset_that_was_not_yet_reconciled_is_not_verified(cluster, run):
    cluster.objects[RESTORE] = daemonset(0, 0, seen=0)
    assert run("verify", timeout_s=2)[0] == 1


def test_nodes_that_are_not_verified_are_named_with_the_state_of_their_pod(cluster, run):
    cluster.objects[RESTORE] = daemonset(3, 1)
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "phase": "Running"}
    waiting = {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull"}}}]}
    cluster.lists[PODS] = [
        {"metadata": {"name": f"p{number}"}, "spec": {"nodeName": f"n{number}"}, "status": status}
        for number, status in enumerate((ready, waiting, {"phase": "Running"}))
    ]
    status, output = run("verify", timeout_s=2)
    assert status == 1
    assert (
        "restore incomplete: restore: done on 1 of 3 nodes, not on: n1 (p1: ErrImagePull), n2 (p2: Running)" in output
    )


def unready(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "spec": {"nodeName": "n"}, "status": {"phase": "Pending", **status}}


def test_an_actuator_that_fails_is_reported_with_its_last_log_line(cluster, run):
    cluster.objects[RESTORE] = daemonset(1, 0)
    log = '{"event": "listening"}\n{"event": "journal cannot be read", "path": "/var/lib/joulie/cpu"}\n'
    crashed = {
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 1, "message": log}},
    }
    cluster.lists[PODS] = [unready(containerStatuses=[crashed])]
    status, output = run("verify", timeout_s=2)
    assert status == 1
    assert 'n (p: CrashLoopBackOff, exit code 1: {"event": "journal cannot be read", "path"' in output
    assert "listening" not in output


def test_an_init_container_that_fails_is_reported(cluster, run):
    cluster.objects[RESTORE] = daemonset(1, 0)
    failed = {"state": {"terminated": {"exitCode": 1, "reason": "Error", "message": "cannot remove the watchdog: x\n"}}}
    waiting = {"state": {"waiting": {"reason": "PodInitializing"}}}
    cluster.lists[PODS] = [unready(initContainerStatuses=[failed], containerStatuses=[waiting])]
    status, output = run("verify", timeout_s=2)
    assert status == 1
    assert "n (p: Error, exit code 1: cannot remove the watchdog: x)" in output


def test_a_missing_daemonset_fails_the_verification(cluster, run):
    status, output = run("verify")
    assert status == 1
    assert "restore does not exist" in output


def sleeper(name: str, state: str | None = None, awake_until: str | None = None) -> dict[str, Any]:
    labels = {"joulie.io/sleep-state": state} if state else {}
    annotations = {"joulie.io/awake-until": awake_until} if awake_until else {}
    return {"metadata": {"name": name, "labels": labels, "annotations": annotations}}


def bmc(node: str, power_off: str = "Allowed") -> dict[str, Any]:
    return {"metadata": {"name": f"bmc-of-{node}"}, "spec": {"nodeName": node, "powerOff": power_off}}


def test_nodes_that_sleep_are_woken_and_those_that_could_are_kept_awake(cluster, run):
    far = "2999-01-01T00:00:00Z"
    cluster.page = 2
    cluster.lists[NODES] = [
        sleeper("plain"),
        sleeper("never"),
        sleeper("could"),
        sleeper("requested", awake_until=far),
        sleeper("unreadable", awake_until="tomorrow"),
        sleeper("off", "asleep"),
        sleeper("leaving", "draining", "2001-01-01T00:00:00Z"),
    ]
    cluster.lists[BMCS] = [bmc("never", "Never"), *map(bmc, ("could", "requested", "unreadable", "off", "leaving"))]
    timers = []

    def boot(node: dict[str, Any]) -> None:
        if node["metadata"]["labels"]:
            timers.append(threading.Timer(0.5, node["metadata"]["labels"].clear))
            timers[-1].start()

    cluster.on_patch = boot
    status, output = run("wake")
    assert (status, output) == (0, "no node sleeps\n")
    assert sorted(cluster.patched) == ["could", "leaving", "off", "unreadable"]
    values = {each["metadata"]["name"]: each["metadata"]["annotations"] for each in cluster.lists[NODES]}
    assert values["requested"] == {"joulie.io/awake-until": far}
    left_s = epoch_seconds(values["off"]["joulie.io/awake-until"]) - time.time()
    assert 3000 < left_s <= 3600
    assert cluster.deleted == []


def test_a_node_that_is_put_to_sleep_meanwhile_is_waited_for(cluster, run):
    cluster.lists[NODES] = [sleeper("late")]
    cluster.lists[BMCS] = [bmc("late")]
    labels = cluster.lists[NODES][0]["metadata"]["labels"]

    def sleep_and_wake(_node: dict[str, Any]) -> None:
        labels["joulie.io/sleep-state"] = "cordoned"
        threading.Timer(1, labels.clear).start()

    cluster.on_patch = sleep_and_wake
    started = time.monotonic()
    assert run("wake") == (0, "no node sleeps\n")
    assert time.monotonic() - started > 1


def test_nodes_that_do_not_wake_in_time_are_named_and_those_in_quarantine_are_not_waited_for(cluster, run):
    cluster.lists[NODES] = [sleeper("slow", "waking"), sleeper("broken", "quarantined")]
    status, output = run("wake", timeout_s=1)
    assert status == 1
    assert output.startswith(
        "wake incomplete: not awake yet: slow (waking). They go on waking: run the uninstall again"
    )
    cluster.lists[NODES][0]["metadata"]["labels"].clear()
    assert run("wake") == (0, "no node sleeps, in quarantine: broken\n")
    assert cluster.patched == ["slow"]


def left_off(node: str, power: str = "Off") -> dict[str, Any]:
    found = bmc(node, "Never")
    found["metadata"]["annotations"] = {"joulie.io/switched-off": "{}"}
    return found | {"status": {"powerState": power}}


def test_servers_that_joulie_switched_off_are_waited_for_whatever_became_of_their_nodes(cluster, run):
    cluster.lists[NODES] = [sleeper("taken-back"), sleeper("by-hand"), sleeper("on")]
    by_hand = bmc("by-hand") | {"status": {"powerState": "Off"}}
    cluster.lists[BMCS] = [left_off("gone"), left_off("taken-back", "Unknown"), left_off("on", "On"), by_hand]
    status, output = run("wake", timeout_s=1)
    assert status == 1
    assert output.startswith("wake incomplete: not awake yet: taken-back (off), gone (off). They go on waking")
    threading.Timer(0.5, lambda: [each["status"].update(powerState="On") for each in cluster.lists[BMCS][:2]]).start()
    assert run("wake") == (0, "no node sleeps\n")


def test_nodes_in_maintenance_are_named_and_neither_woken_nor_waited_for(cluster, run):
    cluster.lists[NODES] = [sleeper("worked-on", "asleep"), sleeper("taken-back"), sleeper("on"), sleeper("broken")]
    for node in cluster.lists[NODES][:3]:
        node["metadata"]["annotations"]["joulie.io/maintenance"] = "ada: new fan"
    cluster.lists[NODES][3]["metadata"]["labels"]["joulie.io/sleep-state"] = "quarantined"
    cluster.lists[BMCS] = [*map(left_off, ("worked-on", "taken-back", "broken")), left_off("on", "On")]
    expected = "no node sleeps, in quarantine: broken, left off for maintenance: worked-on, taken-back\n"
    assert run("wake") == (0, expected)
    assert cluster.patched == []


def test_a_cluster_without_the_kind_of_bmcs_has_nothing_to_wake(cluster, run):
    cluster.lists[NODES] = [sleeper("plain")]
    assert run("wake") == (0, "no node sleeps\n")
