"""The chart in a cluster of kind, installed or upgraded with Helm for a demo."""

import asyncio
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from joulie_api.client import KubeClient
from joulie_api.resources import PODS
from joulie_devcluster.containers.images import image_digest, repository_root
from joulie_devcluster.containers.kind import CLUSTER
from joulie_devcluster.host.process import base_environment
from joulie_sim.demo.errors import DemoError
from joulie_sim.demo.options import Options
from joulie_sim.demo.settings import operator_env
from joulie_sim.stack.stack import NAMESPACE

#: Services of the chart's defaults.
SERVICES: Final = ("operator", "agent", "extender")
OPERATOR: Final = "deployment/joulie-operator"
UI_PORT: Final = 8083

_TIMEOUT: Final = "180s"
#: Changes with the image, whose name does not: pods are then replaced.
_IMAGE: Final = "joulie.io/image"


def release_values(options: Options) -> dict[str, Any]:
    """Return the chart's values of a demo, besides those of `kind/values.yaml`."""
    values: dict[str, Any] = {each: {"podAnnotations": {_IMAGE: image_digest(each)}} for each in SERVICES}
    values["operator"] |= {"env": operator_env(options), "ui": {"enabled": True, "port": UI_PORT}}
    values["preset"] = str(options.preset)
    return values


async def install_release(helm: Path, kubeconfig: Path, client: KubeClient, values: Mapping[str, Any]) -> None:
    """Install the chart, or upgrade it and keep the values that it has, and wait until its pods are ready.

    Raises:
        DemoError: Helm failed; the message has the reasons of the pods that wait.
    """
    root = repository_root()
    command = ["upgrade", "--install", CLUSTER, str(root / "helm" / "joulie"), "--namespace", NAMESPACE]
    command += ["--create-namespace", "--reset-then-reuse-values", "--wait", "--timeout", _TIMEOUT]
    command += ["--values", str(root / "kind" / "values.yaml"), "--values", "-"]
    process = await asyncio.create_subprocess_exec(
        helm,
        *command,
        env={**base_environment(), "KUBECONFIG": str(kubeconfig)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await process.communicate(json.dumps(values).encode())
    except asyncio.CancelledError:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        raise
    if process.returncode != 0:
        waiting = waiting_reasons(await client.list(PODS, NAMESPACE))
        text = output.decode(errors="replace").strip()
        raise DemoError("\n".join([f"helm upgrade --install {CLUSTER} failed: {text}", *waiting]))


def waiting_reasons(pods: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return one line for each container that waits, and for each pod without a node."""
    found = []
    for pod in pods:
        name, status = pod["metadata"]["name"], pod.get("status", {})
        for each in status.get("containerStatuses", ()):
            waiting = each.get("state", {}).get("waiting")
            if waiting is not None:
                text = f"{waiting.get('reason', '')}: {waiting.get('message', '')}".rstrip(": ")
                found.append(f"pod {name}, container {each['name']}: {text}")
        found += [
            f"pod {name} has no node: {each.get('message', '')}"
            for each in status.get("conditions", ())
            if each["type"] == "PodScheduled" and each["status"] != "True"
        ]
    return found
