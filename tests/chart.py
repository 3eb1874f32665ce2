"""The chart as tests handle it: the real Helm, what it renders, and what it says."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
CHART = ROOT / "helm" / "joulie"
NAMESPACE = "joulie-system"

Manifest = dict[str, Any]


class HelmError(AssertionError):
    """Helm refused; the text is what it wrote on standard error."""


@dataclass(frozen=True, slots=True)
class Helm:
    """The Helm client. `kubeconfig` is needed by what talks to a cluster only; `home` keeps its files to itself."""

    path: Path
    home: Path
    kubeconfig: Path | None = None

    def run(self, *arguments: str, timeout_s: float = 60, stdin: str = "") -> str:
        """Standard output of a command; HelmError where it fails."""
        env = {
            "PATH": os.environ["PATH"],
            **{f"HELM_{kind}_HOME": str(self.home / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")},
            "KUBECONFIG": str(self.kubeconfig or self.home / "no-kubeconfig"),
        }
        done = subprocess.run(
            [self.path, *arguments],
            env=env,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if done.returncode != 0:
            raise HelmError(done.stderr + done.stdout)
        return done.stdout

    def lint(self, values: Mapping[str, Any]) -> None:
        """Lint the chart with values laid over its own; HelmError where Helm finds fault."""
        self.run("lint", "--strict", str(CHART), "--values", "-", stdin=json.dumps(values))

    def render(
        self, values: Mapping[str, Any], *, release: str = "joulie", namespace: str = NAMESPACE
    ) -> list[Manifest]:
        """Every object of the release, hooks included and CRDs not."""
        command = ("template", release, str(CHART), "--namespace", namespace, "--values", "-")
        return [each for each in yaml.safe_load_all(self.run(*command, stdin=json.dumps(values))) if each]

    def notes(self, values: Mapping[str, Any]) -> str:
        """What Helm prints after an installation."""
        command = ("install", "joulie", str(CHART), "--namespace", NAMESPACE, "--dry-run=client", "--values", "-")
        return self.run(*command, stdin=json.dumps(values)).partition("\nNOTES:\n")[2]


def find(manifests: Sequence[Manifest], kind: str, name: str) -> Manifest:
    """The object of a kind and name; AssertionError where there is none."""
    for each in manifests:
        if each["kind"] == kind and each["metadata"]["name"] == name:
            return each
    raise AssertionError(f"no {kind} {name} among {[(each['kind'], each['metadata']['name']) for each in manifests]}")


def pod_spec(manifest: Manifest) -> dict[str, Any]:
    """The pod's spec in a workload."""
    return manifest["spec"]["template"]["spec"]


def containers(manifest: Manifest) -> dict[str, dict[str, Any]]:
    """The containers of a workload by name."""
    return {each["name"]: each for each in pod_spec(manifest)["containers"]}


def env_of(container: Mapping[str, Any]) -> dict[str, str | None]:
    """Variables of a container; None where the value comes from elsewhere."""
    return {each["name"]: each.get("value") for each in container["env"]}
