"""The images in a node's containerd, put there by a containerd of this machine: contents and names, not unpacked."""

import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from joulie_devcluster.binaries.modules import Binary
from joulie_devcluster.errors import EngineError
from joulie_devcluster.host import die_with_parent
from joulie_devcluster.host.command import run

_CONFIG: Final = """\
version = 3
root = "{root}/var/lib/containerd"
state = "{work}/state"
disabled_plugins = ["io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri", \
"io.containerd.nri.v1.nri"]

[grpc]
address = "{work}/containerd.sock"

[plugins."io.containerd.internal.v1.opt"]
path = "{work}/opt"
"""
_START_TIMEOUT_S: Final = 30.0
_POLL_S: Final = 0.1


def fill(root: Path, archives: Sequence[Path], paths: Mapping[Binary, Path]) -> None:
    """Import image archives into the containerd of the node whose file system is in `root`.

    Raises:
        EngineError: containerd did not start, or refused an archive.
    """
    # A short path: that of a UNIX socket is limited to 107 bytes.
    with tempfile.TemporaryDirectory(prefix="joulie-ctd-", dir="/run") as directory:
        work = Path(directory)
        (work / "config.toml").write_text(_CONFIG.format(root=root, work=work))
        command = [str(paths[Binary.CONTAINERD]), "--config", str(work / "config.toml")]
        ctr = [str(paths[Binary.CTR]), "--address", str(work / "containerd.sock"), "--namespace", "k8s.io"]
        with (work / "log").open("wb") as log:
            process = subprocess.Popen(  # noqa: S603 - a built binary
                die_with_parent.wrap(command), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            _wait(process, ctr, work / "log")
            for archive in archives:
                options = ("--local", "--no-unpack", "--all-platforms", "--digests")
                run(*ctr, "images", "import", *options, "--label=io.cri-containerd.pinned=pinned", str(archive))
        finally:
            process.terminate()
            process.wait()


def _wait(process: subprocess.Popen[bytes], ctr: Sequence[str], log: Path) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while subprocess.run([*ctr, "version"], capture_output=True, check=False).returncode != 0:  # noqa: S603 - fixed
        if process.poll() is not None or time.monotonic() >= deadline:
            raise EngineError(f"containerd did not start:\n{log.read_text(errors='replace')[-4000:]}")
        time.sleep(_POLL_S)
