# ruff: noqa: INP001 - a file of the chart, not of a package
"""What the chart's `pre-delete` hooks run: have every limit given back, and prove it.

`let-go` ends whoever sets limits: it deletes the operator, then the NodePowerProfiles, to which agents answer by giving
back, waits for their reports, and deletes the agents of this release's nodes, whose actuators give back as they end.
`prove` waits until the give-back DaemonSet is ready on every node: its pods are actuators without a controller, and
ready where nothing of ours is in the hardware.

Promises exit code 0 only where that is so, an end within the time given, and the names of whatever is in the way. May
be repeated: what is gone already counts as done. Standard library only, since it runs in the agent's image whatever its
release. The rights are those of the hook's own account.
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
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

_JOULIE: Final = "/apis/joulie.io/v1alpha1"
_REQUEST_TIMEOUT_S: Final = 10.0
#: At 5,000 nodes a look is ten pages.
_POLL_S: Final = 2.0
_PAGE: Final = 500
#: Looks in a row that find no limit reported: an agent may have been about to report one.
_CLEAN_LOOKS: Final = 2
#: Names in a message.
_SHOWN: Final = 20
_SHOWN_CHARACTERS: Final = 300


class GaveUpError(Exception):
    """Something is left; the message says what."""


class RefusedError(Exception):
    """The API server does not allow a request, or does not understand it; asking again does not help."""


@dataclass(frozen=True, slots=True)
class Api:
    """The API server, as the pod's service account sees it. Asks again until `deadline` while nobody answers."""

    base: str
    account: Path
    deadline: float
    poll_s: float = _POLL_S

    def get(self, path: str, **query: str) -> dict[str, Any] | None:
        """Return an object or a page; None where there is none."""
        return self._ask("GET", path, query)

    def delete(self, path: str, *, foreground: bool = False) -> None:
        """Delete an object or a collection. `foreground`: it stays visible until what it owns is gone."""
        self._ask("DELETE", path, {"propagationPolicy": "Foreground" if foreground else "Background"})

    def items(self, path: str, **query: str) -> Iterator[dict[str, Any]]:
        """Return a collection, in pages; nothing where the kind is not known."""
        page: dict[str, Any] | None = {"metadata": {"continue": ""}}
        while page is not None:
            page = self.get(path, limit=str(_PAGE), **{"continue": page["metadata"]["continue"]}, **query)
            yield from (page or {}).get("items", ())
            if page is not None and not page["metadata"].get("continue"):
                return

    def _ask(self, method: str, path: str, query: dict[str, str]) -> dict[str, Any] | None:
        url = f"{self.base}{path}?{urllib.parse.urlencode({key: value for key, value in query.items() if value})}"
        while True:
            # Read each time: the kubelet renews it.
            token = (self.account / "token").read_text().strip()
            request = urllib.request.Request(url, method=method, headers={"Authorization": f"Bearer {token}"})  # noqa: S310 - the cluster's own address
            try:
                with urllib.request.urlopen(request, timeout=_REQUEST_TIMEOUT_S, context=self._trust()) as reply:  # noqa: S310
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
                raise GaveUpError(f"{method} {path}: the API server does not answer: {why}")
            time.sleep(self.poll_s)

    def _trust(self) -> ssl.SSLContext | None:
        if not self.base.startswith("https:"):
            return None
        return ssl.create_default_context(cafile=str(self.account / "ca.crt"))


@dataclass(frozen=True, slots=True)
class Release:
    """What the chart says of itself, in the environment of its hooks."""

    namespace: str
    #: Empty: the release has none.
    operator: str
    #: Empty: no agent of this release has its hands on a machine.
    agent: str
    give_back: str
    timeout_s: float

    @property
    def apps(self) -> str:
        """Where its workloads are."""
        return f"/apis/apps/v1/namespaces/{self.namespace}"


def let_go(api: Api, release: Release) -> None:
    """End whoever sets limits; what they set is given back by them, or due on their nodes.

    Raises:
        GaveUpError: an HTTP backend may still hold a limit.
    """
    if release.operator:
        api.delete(f"{release.apps}/deployments/{release.operator}")
        _say(f"operator {release.operator} is deleted")
    _say("withdrawing the targets")
    # Half of the time is for agents that answer. What a dead one holds on its node is the other command's matter.
    patience = api.deadline - release.timeout_s / 2
    clean = 0
    while clean < _CLEAN_LOOKS:
        if next(api.items(f"{_JOULIE}/nodepowerprofiles"), None) is not None:
            api.delete(f"{_JOULIE}/nodepowerprofiles")
        on_nodes, behind_http = _reported(api)
        if not release.agent:
            on_nodes = []
        clean = 0 if on_nodes or behind_http else clean + 1
        now = time.monotonic()
        if behind_http and now >= api.deadline:
            raise GaveUpError(f"reported in force behind an HTTP backend, by TelemetryProfile: {_shown(behind_http)}")
        if on_nodes and not behind_http and now >= patience:
            _say(f"no word that these let go, their nodes will be looked at: {_shown(on_nodes)}")
            break
        time.sleep(api.poll_s)
    if release.agent:
        _delete_agents(api, release)


def _delete_agents(api: Api, release: Release) -> None:
    path = f"{release.apps}/daemonsets/{release.agent}"
    api.delete(path, foreground=True)
    _say(f"agents {release.agent} are ending")
    while api.get(path) is not None:
        if time.monotonic() >= api.deadline:
            # A pod of a node that does not answer stays for ever. If it is more than that, `prove` fails on its node.
            _say("some agents are not gone yet")
            return
        time.sleep(api.poll_s)


def prove(api: Api, release: Release) -> None:
    """Wait until no node has a limit of ours.

    Raises:
        GaveUpError: some node may have.
    """
    path = f"{release.apps}/daemonsets/{release.give_back}"
    while True:
        found = api.get(path)
        if found is None:
            raise GaveUpError(f"DaemonSet {release.give_back} does not exist: nobody looks at the nodes")
        status = found.get("status", {})
        wanted, ready = status.get("desiredNumberScheduled", 0), status.get("numberReady", 0)
        if status.get("observedGeneration", 0) >= found["metadata"]["generation"] and ready >= wanted:
            _say(f"{ready} of {wanted} nodes hold nothing of ours")
            return
        if time.monotonic() >= api.deadline:
            raise GaveUpError(f"{ready} of {wanted} nodes have given back, not: {_shown(_unready(api, release))}")
        time.sleep(api.poll_s)


def _reported(api: Api) -> tuple[list[str], list[str]]:
    """Return the TelemetryProfiles that report a limit in force: of hardware on nodes, and of HTTP backends."""
    on_nodes, behind_http = [], []
    for profile in api.items(f"{_JOULIE}/telemetryprofiles"):
        reports = (profile.get("status", {}).get("control") or {}).values()
        # The agent's own rule for what it continues from after a restart.
        backends = [
            report["backend"] for report in reports if report.get("backend") and report.get("reason") != "Restored"
        ]
        if any(backend.startswith("http-") for backend in backends):
            behind_http.append(profile["metadata"]["name"])
        elif backends:
            on_nodes.append(profile["metadata"]["name"])
    return on_nodes, behind_http


def _unready(api: Api, release: Release) -> list[str]:
    """Return a line for each node whose pod is not ready, as far as there are pods."""
    query = {"labelSelector": os.environ["GIVE_BACK_SELECTOR"]}
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
    """Return why a container does not run, with the last line of its log if it ended badly; empty where it runs."""
    state = container.get("state", {})
    reason: str = state.get("waiting", {}).get("reason", "")
    ended = state.get("terminated") or container.get("lastState", {}).get("terminated") or {}
    if "running" in state or not ended.get("exitCode"):
        return reason
    last = (ended.get("message", "").strip().splitlines() or [""])[-1][:_SHOWN_CHARACTERS]
    return f"{reason or ended.get('reason', 'ended')}, exit code {ended['exitCode']}{f': {last}' if last else ''}"


def _shown(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more if names else "no pod there yet"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


_COMMANDS: Final[dict[str, Callable[[Api, Release], None]]] = {"let-go": let_go, "prove": prove}


def main() -> int:
    """Run one command; 1 where something is left, or where that cannot be known."""
    env = os.environ
    release = Release(
        namespace=env["POD_NAMESPACE"],
        operator=env["OPERATOR_DEPLOYMENT"],
        agent=env["AGENT_DAEMONSET"],
        give_back=env["GIVE_BACK_DAEMONSET"],
        timeout_s=float(env["TIMEOUT_SECONDS"]),
    )
    host, port = env["KUBERNETES_SERVICE_HOST"], env["KUBERNETES_SERVICE_PORT"]
    api = Api(
        base=env.get("API_URL") or f"https://{f'[{host}]' if ':' in host else host}:{port}",
        account=Path(env.get("ACCOUNT_DIR") or "/var/run/secrets/kubernetes.io/serviceaccount"),
        deadline=time.monotonic() + release.timeout_s,
        poll_s=float(env.get("POLL_SECONDS") or _POLL_S),
    )
    try:
        _COMMANDS[sys.argv[1]](api, release)
    except (GaveUpError, RefusedError) as error:
        _say(f"not everything is given back: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
