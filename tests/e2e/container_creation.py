"""Observers of the creation of a container on a real node: containerd's log, and a runc that keeps a copy of a file."""

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from joulie_devcluster.binaries.modules import Binary
from joulie_devcluster.real_node.node import RealNode

#: Of containerd's log, more than it writes while a pod starts.
_TAIL_BYTES = 1 << 20
_MS_PER_S = 1_000


@dataclass(frozen=True, slots=True)
class Creation:
    """CreateContainer for the first container of a pod.

    Attributes:
        sandbox: id of the sandbox of the pod.
        container: id of the container.
        took_ms: time from containerd's request to its answer.
    """

    sandbox: str
    container: str
    took_ms: float

    @classmethod
    def of(cls, node: RealNode, pod: str) -> "Creation":
        """Find it near the end of containerd's log.

        Raises:
            AssertionError: it is not there.
        """
        with node.processes[Binary.CONTAINERD].log_path.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - _TAIL_BYTES))
            log = stream.read().decode(errors="replace").replace('\\"', "'")
        sandboxes = re.findall(rf"RunPodSandbox for name:'{pod}' .* returns sandbox id '(\w+)'", log)
        assert sandboxes, f"no sandbox of pod {pod}"
        lines = [line for line in log.splitlines() if f"CreateContainer within sandbox '{sandboxes[-1]}'" in line]
        assert len(lines) > 1, f"no container of pod {pod}"
        begun_s, ended_s = map(_seconds, lines[:2])
        return cls(sandboxes[-1], lines[1].rpartition(" id '")[2].partition("'")[0], (ended_s - begun_s) * _MS_PER_S)


def _seconds(line: str) -> float:
    """Return the time of day of a line of the log, in seconds."""
    hours, minutes, seconds = line.split('"')[1].partition("T")[2].removesuffix("Z").split(":")
    return 3_600 * int(hours) + 60 * int(minutes) + float(seconds)


def write_runc(directory: Path, *, file: Path, copies: Path) -> None:
    """Write a runc that copies a file before it creates a container, to one that is named by the container's id.

    Args:
        directory: in which it is, to be the first of PATH.
        file: which file.
        copies: directory of the copies.
    """
    runc = directory / "runc"
    runc.write_text(f"""#!/bin/sh
for last; do :; done
case " $* " in *" create "*) cp {file} {copies}/$last ;; esac
exec {shutil.which("runc")} "$@"
""")
    runc.chmod(0o755)
