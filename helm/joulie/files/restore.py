# ruff: noqa: INP001 - a file of the chart, not of a package
"""Program of the chart's `pre-delete` hooks: wakes nodes and restores original limits before the release is deleted.

`wake` requests nodes that sleep, or may be put to sleep, to be awake for an hour, and waits until the operator has
woken them, and until every server that Joulie switched off is on; nodes in quarantine and in maintenance do not wake,
and are named. `withdraw` deletes the operator and the NodePowerProfiles,
which makes agents restore; waits until no TelemetryProfile reports a limit in force; and deletes the agents, whose
actuators restore when they stop. `verify` waits until the restore DaemonSet is ready on every node: its pods are
actuators without a controller, ready when no limit of Joulie's is left in the node's hardware.

Exits with 0 only on success, within the given time; a failure names the nodes. All commands can be repeated: an object
that is gone counts as deleted. Standard library only, so that it runs in any agent image. Uses the rights of the hook's
service account.
"""

import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

_JOULIE: Final = "/apis/joulie.io/v1alpha1"
_REQUEST_TIMEOUT_S: Final = 10.0
#: One check of 5,000 nodes reads ten pages.
_POLL_S: Final = 2.0
_PAGE: Final = 500
#: Consecutive checks without a reported limit: an agent may have been about to report one.
_CLEAN_CHECKS: Final = 2
#: How long nodes are requested to be awake: an uninstall that fails lets them sleep again afterwards.
_AWAKE: Final = timedelta(hours=1)
_AWAKE_UNTIL: Final = "joulie.io/awake-until"
_SLEEP_STATE: Final = "joulie.io/sleep-state"
_QUARANTINED: Final = "quarantined"
_MAINTENANCE: Final = "joulie.io/maintenance"
#: Of a NodeBMC: Joulie switched the server off, and On was not confirmed since.
_SWITCHED_OFF: Final = "joulie.io/switched-off"
#: Names in a message.
_SHOWN: Final = 20
_SHOWN_CHARACTERS: Final = 300


class IncompleteError(Exception):
    """Nodes sleep, or limits are or may be still in force; the message names what is missing."""


class RefusedError(Exception):
    """The API server refused a request; retrying does not help."""


@dataclass(frozen=True, slots=True)
class Api:
    """Client of the API server with the pod's service account.

    Retries until `deadline` while the server does not answer.
    """

    base: str
    account: Path
    deadline: float
    poll_s: float = _POLL_S

    def get(self, path: str, **query: str) -> dict[str, Any] | None:
        """Return an object or a page; None if it does not exist."""
        return self._request("GET", path, query)

    def annotate(self, path: str, name: str, value: str) -> None:
        """Set an annotation of an object, where it exists."""
        self._request("PATCH", path, {}, {"metadata": {"annotations": {name: value}}})

    def delete(self, path: str, *, foreground: bool = False) -> None:
        """Delete an object or a collection. `foreground`: it stays visible until what it owns is gone."""
        self._request("DELETE", path, {"propagationPolicy": "Foreground" if foreground else "Background"})

    def items(self, path: str, **query: str) -> Iterator[dict[str, Any]]:
        """Yield the items of a collection, read in pages; none if the kind does not exist."""
        page: dict[str, Any] | None = {"metadata": {"continue": ""}}
        while page is not None:
            page = self.get(path, limit=str(_PAGE), **{"continue": page["metadata"]["continue"]}, **query)
            yield from (page or {}).get("items", ())
            if page is not None and not page["metadata"].get("continue"):
                return

    def _request(
        self, method: str, path: str, query: dict[str, str], patch: dict[str, Any] | None = None
    ) -> dict[str, Any] | None:
        url = f"{self.base}{path}?{urllib.parse.urlencode({key: value for key, value in query.items() if value})}"
        while True:
            # Read for each request: the kubelet rotates it.
            token = (self.account / "token").read_text().strip()
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/merge-patch+json"}
            body = json.dumps(patch).encode() if patch is not None else None
            request = urllib.request.Request(url, body, headers, method=method)  # noqa: S310 - the cluster's own address
            try:
                with urllib.request.urlopen(request, timeout=_REQUEST_TIMEOUT_S, context=self._tls()) as reply:  # noqa: S310
                    answer: dict[str, Any] = json.load(reply)
                    return answer
            except urllib.error.HTTPError as error:
                if error.code == HTTPStatus.NOT_FOUND:
                    return None
                why = f"{error.code} {error.read().decode(errors='replace')[:500]}"
                if error.code < HTTPStatus.INTERNAL_SERVER_ERROR and error.code != HTTPStatus.TOO_MANY_REQUESTS:
                    raise RefusedError(f"{method} {path}: {why}") from error
            except (OSError, json.JSONDecodeError) as error:
                why = f"{type(error).__name__}: {error}"
            if time.monotonic() >= self.deadline:
                raise IncompleteError(f"{method} {path}: no answer from the API server: {why}")
            time.sleep(self.poll_s)

    def _tls(self) -> ssl.SSLContext | None:
        if not self.base.startswith("https:"):
            return None
        return ssl.create_default_context(cafile=str(self.account / "ca.crt"))


@dataclass(frozen=True, slots=True)
class Release:
    """The release, as the chart describes it in the environment of its hooks."""

    namespace: str
    #: Empty: the release has no operator.
    operator: str
    #: Empty: no agent of this release controls the hardware of its own node.
    agent: str
    restore: str
    timeout_s: float

    @property
    def apps(self) -> str:
        """Path of the release's workloads."""
        return f"/apis/apps/v1/namespaces/{self.namespace}"


def wake(api: Api, _release: Release) -> None:
    """Have the operator wake every node that sleeps and every server that it switched off, and keep the others awake.

    Raises:
        IncompleteError: some nodes are not awake yet. They go on waking while the release exists.
    """
    until = datetime.now(UTC) + _AWAKE
    clean = 0
    while clean < _CLEAN_CHECKS:
        sleeping, broken, kept = _request_awake(api, until)
        clean = 0 if sleeping else clean + 1
        if sleeping and time.monotonic() >= api.deadline:
            raise IncompleteError(
                f"not awake yet: {_shown(sleeping)}. They go on waking: run the uninstall again,"
                " or give it more time (uninstall.timeoutSeconds, and a longer --timeout of helm)"
            )
        time.sleep(api.poll_s)
    parts = ["no node sleeps"]
    if broken:
        parts.append(f"in quarantine: {_shown(broken)}")
    if kept:
        parts.append(f"left off for maintenance: {_shown(kept)}")
    _print(", ".join(parts))


def _request_awake(api: Api, until: datetime) -> tuple[list[str], list[str], list[str]]:
    """Request all nodes to be awake; return those that are not, those in quarantine, and those left to people."""
    sleeping, broken, kept = [], [], []
    # Also nodes that are awake: one could be put to sleep between the last check and the end of the operator.
    may_sleep, off = _servers(api)
    for node in api.items("/api/v1/nodes"):
        meta = node["metadata"]
        name, state = meta["name"], (meta.get("labels") or {}).get(_SLEEP_STATE)
        was_off = name in off
        off.discard(name)
        if _MAINTENANCE in (meta.get("annotations") or {}):
            kept += [name] if state or was_off else []
        elif state == _QUARANTINED:
            broken.append(name)
        else:
            if (state or name in may_sleep) and not _is_awake_until(meta, until):
                api.annotate(f"/api/v1/nodes/{name}", _AWAKE_UNTIL, until.strftime("%Y-%m-%dT%H:%M:%SZ"))
            if state or was_off:
                sleeping.append(f"{name} ({state or 'off'})")
    # Whatever has become of their Nodes.
    return [*sleeping, *(f"{name} (off)" for name in sorted(off))], broken, kept


def _servers(api: Api) -> tuple[set[str], set[str]]:
    """Return the nodes that may be powered off, and those whose server Joulie switched off and is not on."""
    may_sleep, off = set(), set()
    for bmc in api.items(f"{_JOULIE}/nodebmcs"):
        name = bmc["spec"].get("nodeName", "")
        if bmc["spec"].get("powerOff") == "Allowed":
            may_sleep.add(name)
        marked = _SWITCHED_OFF in (bmc["metadata"].get("annotations") or {})
        if marked and bmc.get("status", {}).get("powerState") != "On":
            off.add(name)
    return may_sleep, off


def _is_awake_until(meta: dict[str, Any], until: datetime) -> bool:
    try:
        # No package of Joulie is there. A time without a zone is unknown, as in joulie_core.timestamps.
        requested = datetime.fromisoformat((meta.get("annotations") or {}).get(_AWAKE_UNTIL, ""))  # noqa: TID251
    except ValueError:
        return False
    # The value that was written here has whole seconds.
    return requested.tzinfo is not None and requested >= until.replace(microsecond=0)


def withdraw(api: Api, release: Release) -> None:
    """Delete the targets, the operator and the agents; agents restore the limits that they set.

    Raises:
        IncompleteError: an HTTP backend may still hold a limit.
    """
    if release.operator:
        api.delete(f"{release.apps}/deployments/{release.operator}")
        _print(f"deleted operator {release.operator}")
    _print("deleting NodePowerProfiles, waiting for agents to restore")
    # Half of the time is for agents that answer. Limits that a dead one has left are restored by the DaemonSet.
    agents_deadline = api.deadline - release.timeout_s / 2
    clean = 0
    while clean < _CLEAN_CHECKS:
        if next(api.items(f"{_JOULIE}/nodepowerprofiles"), None) is not None:
            api.delete(f"{_JOULIE}/nodepowerprofiles")
        on_nodes, behind_http = _reported(api)
        if not release.agent:
            on_nodes = []
        clean = 0 if on_nodes or behind_http else clean + 1
        now = time.monotonic()
        if behind_http and now >= api.deadline:
            raise IncompleteError(f"limits reported behind HTTP backends, by TelemetryProfile: {_shown(behind_http)}")
        if on_nodes and not behind_http and now >= agents_deadline:
            _print(f"no restore reported, verifying on the nodes: {_shown(on_nodes)}")
            break
        time.sleep(api.poll_s)
    if release.agent:
        _delete_agents(api, release)


def _delete_agents(api: Api, release: Release) -> None:
    path = f"{release.apps}/daemonsets/{release.agent}"
    api.delete(path, foreground=True)
    _print(f"deleting agents {release.agent}")
    while api.get(path) is not None:
        if time.monotonic() >= api.deadline:
            # The pod of an unreachable node is never deleted. Any other reason makes `verify` fail for its node.
            _print("some agent pods are not deleted yet, continuing")
            return
        time.sleep(api.poll_s)


def verify(api: Api, release: Release) -> None:
    """Wait until the DaemonSet is ready on every node.

    Raises:
        IncompleteError: it is not ready on some nodes.
    """
    path = f"{release.apps}/daemonsets/{release.restore}"
    while True:
        found = api.get(path)
        if found is None:
            raise IncompleteError(f"DaemonSet {release.restore} does not exist: nodes cannot be verified")
        status = found.get("status", {})
        wanted, ready = status.get("desiredNumberScheduled", 0), status.get("numberReady", 0)
        if status.get("observedGeneration", 0) >= found["metadata"]["generation"] and ready >= wanted:
            _print(f"{release.restore}: done on {ready} of {wanted} nodes")
            return
        if time.monotonic() >= api.deadline:
            raise IncompleteError(
                f"{release.restore}: done on {ready} of {wanted} nodes, not on: {_shown(_unready(api, release))}"
            )
        time.sleep(api.poll_s)


def _reported(api: Api) -> tuple[list[str], list[str]]:
    """Return names of TelemetryProfiles that report a limit in force: on node hardware, and behind HTTP backends."""
    on_nodes, behind_http = [], []
    for profile in api.items(f"{_JOULIE}/telemetryprofiles"):
        reports = (profile.get("status", {}).get("control") or {}).values()
        # The same rule as the agent's, by which it continues after a restart.
        backends = [
            report["backend"] for report in reports if report.get("backend") and report.get("reason") != "Restored"
        ]
        if any(backend.startswith("http-") for backend in backends):
            behind_http.append(profile["metadata"]["name"])
        elif backends:
            on_nodes.append(profile["metadata"]["name"])
    return on_nodes, behind_http


def _unready(api: Api, release: Release) -> list[str]:
    """Return one line per pod that is not ready, with its node and the reason."""
    query = {"labelSelector": os.environ["RESTORE_SELECTOR"]}
    lines = []
    for pod in api.items(f"/api/v1/namespaces/{release.namespace}/pods", **query):
        status = pod.get("status", {})
        if any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions", ())):
            continue
        containers = (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ()))
        why = next(filter(None, map(_obstacle, containers)), status.get("phase", "unknown"))
        lines.append(f"{pod.get('spec', {}).get('nodeName', 'no node')} ({pod['metadata']['name']}: {why})")
    return lines


def _obstacle(container: dict[str, Any]) -> str:
    """Return why a container does not run, with the last line of its log if it failed; empty if it runs."""
    state = container.get("state", {})
    reason: str = state.get("waiting", {}).get("reason", "")
    ended = state.get("terminated") or container.get("lastState", {}).get("terminated") or {}
    if "running" in state or not ended.get("exitCode"):
        return reason
    last = (ended.get("message", "").strip().splitlines() or [""])[-1][:_SHOWN_CHARACTERS]
    return f"{reason or ended.get('reason', 'ended')}, exit code {ended['exitCode']}{f': {last}' if last else ''}"


def _shown(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more if names else "no pods yet"


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


_COMMANDS: Final[dict[str, Callable[[Api, Release], None]]] = {"wake": wake, "withdraw": withdraw, "verify": verify}


def main() -> int:
    """Run one command; return 1 if nodes sleep or limits are still in force, or if that cannot be known."""
    env = os.environ
    release = Release(
        namespace=env["POD_NAMESPACE"],
        operator=env["OPERATOR_DEPLOYMENT"],
        agent=env["AGENT_DAEMONSET"],
        restore=env["RESTORE_DAEMONSET"],
        timeout_s=float(env["TIMEOUT_SECONDS"]),
    )
    host, port = env["KUBERNETES_SERVICE_HOST"], env["KUBERNETES_SERVICE_PORT"]
    api = Api(
        base=env.get("API_URL") or f"https://{f'[{host}]' if ':' in host else host}:{port}",
        account=Path(env.get("ACCOUNT_DIR") or "/var/run/secrets/kubernetes.io/serviceaccount"),
        deadline=time.monotonic() + release.timeout_s,
        poll_s=float(env.get("POLL_SECONDS") or _POLL_S),
    )
    command = sys.argv[1]
    try:
        _COMMANDS[command](api, release)
    except (IncompleteError, RefusedError) as error:
        _print(f"{'wake' if command == 'wake' else 'restore'} incomplete: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
