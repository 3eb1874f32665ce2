"""A private container engine whose containers have a network of their own, for the nodes of kind.

Guarantees: the engine has its bridge and its firewall rules in a network namespace, so that the machine's network is
not touched; process and mount namespaces, so that nothing of it, nodes included, outlives the process that started it;
and a control group, which is removed. Data are kept, for images. See `containers.engine` for the rest.

Limits: requires root. The namespace has no way out: nodes cannot pull images.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Final

from joulie_devcluster.containers.engine import Engine, private_engine, private_engine_obstacle
from joulie_devcluster.errors import EngineError
from joulie_devcluster.host.progress import Reporter
from joulie_devcluster.real_node import cgroups
from joulie_devcluster.real_node.requirements import find_busybox, find_runc

INSTALL: Final = "apt-get install --no-install-recommends docker.io debootstrap runc busybox-static iptables iproute2"

_SYSTEM_PATH: Final = f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin{os.pathsep}/sbin"
_PROGRAMS: Final = ("dockerd", "debootstrap", "iptables", "ip", "unshare")
#: No name server answers there. Without an address docker would use public ones.
_BRIDGE: Final = "172.31.255.1"
#: dockerd creates it where it is missing, since nodes mount it.
_KERNEL_MODULES: Final = Path("/lib/modules")


def kind_obstacle() -> str | None:
    """Return why this user cannot run nodes of kind whatever is installed, or None."""
    return private_engine_obstacle()


def missing_packages() -> str | None:
    """Return which programs are missing, with the remedy, or None."""
    missing = [name for name in _PROGRAMS if shutil.which(name, path=_SYSTEM_PATH) is None]
    missing += [name for name, path in (("runc", find_runc()), ("static busybox", find_busybox())) if path is None]
    return f"{', '.join(missing)} not found: {INSTALL}" if missing else None


@contextmanager
def bridged_engine(data: Path, reporter: Reporter) -> Iterator[Engine]:
    """Run an engine on a data directory, without containers; wait while another process uses the directory.

    Raises:
        EngineError: the user is not root, packages are missing, or the engine did not start.
    """
    missing = kind_obstacle() or missing_packages()
    if missing is not None:
        raise EngineError(missing)
    data.mkdir(parents=True, exist_ok=True)
    group = cgroups.group_name(data)
    had_modules = _KERNEL_MODULES.exists()
    try:
        with private_engine(
            data, reporter, config=_config(group, _write_runtime(data)), launcher=_isolated()
        ) as engine:
            remove_containers(engine)
            try:
                yield engine
            finally:
                remove_containers(engine)
    finally:
        cgroups.remove(group)
        if not had_modules and _KERNEL_MODULES.exists():
            _KERNEL_MODULES.rmdir()


def remove_containers(engine: Engine) -> None:
    """Remove all containers and their volumes: those of killed sessions come back with their engine."""
    names = engine.run("ps", "--all", "--quiet").split()
    if names:
        engine.run("rm", "--force", "--volumes", *names)


def data_file(name: str) -> str:
    """Return the text of a file of this package."""
    return (resources.files("joulie_devcluster.kind_node") / "data" / name).read_text(encoding="utf-8")


def _write_runtime(data: Path) -> Path:
    runc = find_runc()
    assert runc is not None
    runtime = data / "runc-here"
    runtime.write_text(data_file("runc-here.sh").replace("exec RUNC", f"exec {runc}"), encoding="utf-8")
    runtime.chmod(0o755)
    return runtime


def _isolated() -> list[str]:
    unshare, ip = (shutil.which(name, path=_SYSTEM_PATH) for name in ("unshare", "ip"))
    assert unshare is not None
    namespaces = ["--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
    return [unshare, *namespaces, "/bin/sh", "-c", f'{ip} link set lo up && exec "$@"', "sh"]


def _config(group: str, runtime: Path) -> dict[str, object]:
    return {
        "bip": f"{_BRIDGE}/24",
        "dns": [_BRIDGE],
        "iptables": True,
        "ip6tables": False,
        "ip-forward": True,
        "cgroup-parent": f"/{group}",
        # In a process namespace there is no systemd to ask.
        "exec-opts": ["native.cgroupdriver=cgroupfs"],
        "runtimes": {"here": {"path": str(runtime)}},
        "default-runtime": "here",
    }
