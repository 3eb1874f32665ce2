"""The node's directories as the actuator of a rendered chart sees them, in a mount namespace and without a cluster."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.chart import Manifest, containers, env_of, pod_spec


def below(root: Path, manifest: Manifest) -> list[str]:
    """The command that runs another one with the actuator's host mounts, each below `root` instead of `/`.

    It makes them as a container runtime does: bind mounts, parents first, and read-only for the mount itself only.
    Takes root with CAP_SYS_ADMIN. The mounts go with the last process that runs there.
    """
    sources = {each["name"]: each["hostPath"]["path"] for each in pod_spec(manifest)["volumes"] if "hostPath" in each}
    lines = ["set -e", "mount --make-rprivate /"]
    for mount in sorted(_mounts(manifest), key=lambda each: each["mountPath"].count("/")):
        if source := sources.get(mount["name"]):
            target = shlex.quote(f"{root}{mount['mountPath']}")
            # In sysfs no directory can be created: there the target is in the mount of its parent already.
            lines += [f"[ -d {target} ] || mkdir -p {target}", f"mount --rbind {shlex.quote(source)} {target}"]
            if mount.get("readOnly"):
                lines.append(f"mount -o remount,bind,ro {target}")
    return ["unshare", "--mount", "sh", "-c", "\n".join([*lines, 'exec "$@"']), "sh"]


def environment(root: Path, manifest: Manifest) -> dict[str, str]:
    """The actuator's environment, with paths that are mounted below `root`."""
    paths = {mount["mountPath"] for mount in _mounts(manifest)}
    env = {key: value or "" for key, value in env_of(containers(manifest)["actuator"]).items()}
    moved = {key: f"{root}{value}" for key, value in env.items() if value == "/host-sys" or value in paths}
    return {
        **env,
        **moved,
        "STATE_DIR": f"{root}/var/lib/joulie",
        "ACTUATOR_SOCKET": f"{root}/run/joulie/actuator.sock",
    }


def _mounts(manifest: Manifest) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = containers(manifest)["actuator"]["volumeMounts"]
    return found
