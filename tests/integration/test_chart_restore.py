"""The program of the chart's uninstall hooks, against an API server that says what the test wants."""

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

APPS = f"/apis/apps/v1/namespaces/{NAMESPACE}"
OPERATOR, AGENT, GIVE_BACK = f"{APPS}/deployments/op", f"{APPS}/daemonsets/agent", f"{APPS}/daemonsets/give-back"
TARGETS, REPORTS = "/apis/joulie.io/v1alpha1/nodepowerprofiles", "/apis/joulie.io/v1alpha1/telemetryprofiles"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


class Cluster:
    """Objects and collections by path; deletions are noted, and `on_delete` plays whoever answers to them."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {OPERATOR: {}, AGENT: {}}
        self.lists: dict[str, list[dict[str, Any]]] = {TARGETS: [{}], REPORTS: [], PODS: []}
        self.deleted: list[str] = []
        self.failures: list[int] = []
        self.on_delete: Callable[[str], None] = lambda _path: None
        self.page = 500

    def answer(self, method: str, path: str, query: dict[str, str]) -> tuple[int, Any]:
        if self.failures:
            return self.failures.pop(0), {"message": "as the test wants"}
        if method == "DELETE":
            self.deleted.append(path)
            known = self.objects.pop(path, None) is not None or bool(self.lists.get(path))
            if path in self.lists:
                self.lists[path] = []
            self.on_delete(path)
            return (200, {}) if known else (404, {})
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
            status, body = state.answer(self.command, url.path, dict(urllib.parse.parse_qsl(url.query)))
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_DELETE = handle_any  # noqa: N815 - the names that the server looks for

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
            "GIVE_BACK_DAEMONSET": "give-back",
            "GIVE_BACK_SELECTOR": "a=b",
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


def test_whoever_sets_limits_ends_in_order_and_targets_go_before_agents(cluster, run):
    status, said = run("let-go")
    assert (status, cluster.deleted) == (0, [OPERATOR, TARGETS, AGENT]), said


def test_targets_that_an_ending_operator_still_writes_are_withdrawn_again(cluster, run):
    late = [{"late": True}]
    cluster.on_delete = lambda path: cluster.lists[TARGETS].extend(late) or late.clear() if path == TARGETS else None
    assert run("let-go")[0] == 0
    assert cluster.deleted == [OPERATOR, TARGETS, TARGETS, AGENT]


def test_agents_are_not_ended_before_they_have_let_go_of_what_is_behind_http(cluster, run):
    cluster.lists[REPORTS] = [report("n1", "http-rapl"), report("n2", "http-rapl", "Restored")]
    seen = []

    def give_back(path: str) -> None:
        if path == TARGETS:
            threading.Timer(1, lambda: cluster.lists[REPORTS].__setitem__(0, report("n1", "", "NoProfile"))).start()
        seen.append((path, bool(cluster.lists[REPORTS][0]["status"]["control"]["cpu"]["backend"])))

    cluster.on_delete = give_back
    status, said = run("let-go")
    assert status == 0, said
    assert seen[-1] == (AGENT, False)


def test_an_http_backend_that_keeps_its_limit_fails_the_uninstall_by_name(cluster, run):
    cluster.lists[REPORTS] = [report(f"n{number:02}", "http-nvml") for number in range(25)]
    cluster.page = 10
    status, said = run("let-go", timeout_s=3)
    assert status == 1
    assert "n00, n01" in said
    assert "and 5 more" in said
    assert AGENT not in cluster.deleted


def test_a_dead_agent_of_a_node_costs_half_of_the_time_and_is_left_to_the_proof(cluster, run):
    cluster.lists[REPORTS] = [report("dead", "rapl")]
    before = time.monotonic()
    status, said = run("let-go", timeout_s=6)
    assert status == 0
    assert 3 <= time.monotonic() - before < 6
    assert "dead" in said
    assert cluster.deleted[-1] == AGENT


def test_a_pool_has_no_agents_to_end_and_no_nodes_to_look_at(cluster, run):
    cluster.lists[REPORTS] = [report("blocked-host", "rapl")]
    assert run("let-go", AGENT_DAEMONSET="")[0] == 0
    assert cluster.deleted == [OPERATOR, TARGETS]


def test_it_may_be_repeated(cluster, run):
    assert run("let-go")[0] == 0
    assert run("let-go")[0] == 0


def test_an_api_server_that_is_restarted_is_asked_again(cluster, run):
    cluster.failures = [503, 429]
    assert run("let-go")[0] == 0


def test_an_api_server_that_does_not_answer_is_given_up_in_time(cluster, run):
    before = time.monotonic()
    status, said = run("let-go", timeout_s=2, API_URL="http://127.0.0.1:1")
    assert status == 1
    assert "does not answer" in said
    assert time.monotonic() - before < 10


def test_a_missing_right_is_told_at_once(cluster, run):
    cluster.failures = [403]
    status, said = run("let-go")
    assert status == 1
    assert f"DELETE {OPERATOR}: 403" in said


def daemonset(wanted: int, ready: int, seen: int = 1) -> dict[str, Any]:
    status = {"observedGeneration": seen, "desiredNumberScheduled": wanted, "numberReady": ready}
    return {"metadata": {"generation": 1}, "status": status}


def test_a_node_has_given_back_when_its_pod_is_ready(cluster, run):
    cluster.objects[GIVE_BACK] = daemonset(2, 1)
    threading.Timer(1, lambda: cluster.objects.__setitem__(GIVE_BACK, daemonset(2, 2))).start()
    status, said = run("prove")
    assert (status, said) == (0, "2 of 2 nodes hold nothing of ours\n")


def test_a_daemonset_that_nobody_has_looked_at_yet_proves_nothing(cluster, run):
    cluster.objects[GIVE_BACK] = daemonset(0, 0, seen=0)
    assert run("prove", timeout_s=2)[0] == 1


def test_nodes_that_have_not_given_back_are_named_with_what_their_pod_does(cluster, run):
    cluster.objects[GIVE_BACK] = daemonset(3, 1)
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "phase": "Running"}
    waiting = {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull"}}}]}
    cluster.lists[PODS] = [
        {"metadata": {"name": f"p{number}"}, "spec": {"nodeName": f"n{number}"}, "status": status}
        for number, status in enumerate((ready, waiting, {"phase": "Running"}))
    ]
    status, said = run("prove", timeout_s=2)
    assert status == 1
    assert "1 of 3 nodes have given back, not: n1 (p1: ErrImagePull), n2 (p2: Running)" in said


def unready(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "spec": {"nodeName": "n"}, "status": {"phase": "Pending", **status}}


def test_an_actuator_that_ends_with_an_error_is_told_with_what_it_said_last(cluster, run):
    cluster.objects[GIVE_BACK] = daemonset(1, 0)
    log = '{"event": "listening"}\n{"event": "journal cannot be read", "path": "/var/lib/joulie/cpu"}\n'
    crashed = {
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 1, "message": log}},
    }
    cluster.lists[PODS] = [unready(containerStatuses=[crashed])]
    status, said = run("prove", timeout_s=2)
    assert status == 1
    assert 'n (p: CrashLoopBackOff, exit code 1: {"event": "journal cannot be read", "path"' in said
    assert "listening" not in said


def test_an_init_container_that_fails_is_told_as_well(cluster, run):
    cluster.objects[GIVE_BACK] = daemonset(1, 0)
    failed = {"state": {"terminated": {"exitCode": 1, "reason": "Error", "message": "cannot remove the watchdog: x\n"}}}
    waiting = {"state": {"waiting": {"reason": "PodInitializing"}}}
    cluster.lists[PODS] = [unready(initContainerStatuses=[failed], containerStatuses=[waiting])]
    status, said = run("prove", timeout_s=2)
    assert status == 1
    assert "n (p: Error, exit code 1: cannot remove the watchdog: x)" in said


def test_a_daemonset_that_is_gone_is_no_proof(cluster, run):
    status, said = run("prove")
    assert status == 1
    assert "give-back does not exist" in said
