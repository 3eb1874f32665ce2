"""A real systemd in namespaces of its own, with a root file system for the test only.

Guarantees that it changes nothing on the machine: its root is a new tmpfs, `/usr` and `/proc/sys` are read-only,
`/tmp`, `/etc`, `/var`, `/run` and `/dev` are its own, it reads only the units of the test (the distribution's would
clean up and configure a whole machine), it has control groups and a network of its own, and all its processes end with
this one. Requires root with CAP_SYS_ADMIN and Debian's `systemd`.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.chart import ROOT

from joulie_devcluster.real_node import cgroups
from joulie_devcluster.real_node.requirements import missing_privileges

SYSTEMD: Final = Path("/usr/lib/systemd/systemd")
PYTHON: Final = Path("/usr/bin/python3")
_PACKAGES: Final = ("msgspec", "pynvml.py", "amdsmi")
_SOURCES: Final = (
    "services/agent/src/joulie_agent",
    "libs/joulie-actuator/src/joulie_actuator",
    "libs/joulie-core/src/joulie_core",
)
#: Units that every other one refers to; none of them does anything.
_TARGETS: Final = ("node", "sysinit", "basic", "shutdown", "timers", "local-fs", "umount")
_POLL_S: Final = 0.05
_COMMAND: Final = "from joulie_agent.__main__ import main; main()"

_BOOT: Final = """
set -e
mount --make-rprivate /
root="$1/root"
mkdir -p "$root"
mount -t tmpfs tmpfs "$root"
cd "$root"
mkdir -p usr etc/systemd/system dev proc sys run tmp var/lib opt/joulie node old
for name in bin lib lib64 sbin; do ln -s "usr/$name" "$name"; done
mount --bind /usr usr && mount -o remount,bind,ro usr
mount --bind "$1/node" node
mount --bind "$1/units" etc/systemd/system
mount --bind "$1/joulie" opt/joulie && mount -o remount,bind,ro opt/joulie
cp /etc/passwd /etc/group etc
mount -t tmpfs tmpfs dev && mkdir dev/pts dev/shm
: > etc/machine-id
for name in null zero full random urandom tty; do : > "dev/$name"; mount --bind "/dev/$name" "dev/$name"; done
mount -t proc proc proc
mount --bind proc/sys proc/sys && mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
  mount -t cgroup2 cgroup2 sys/fs/cgroup
else
  mount -t tmpfs tmpfs sys/fs/cgroup
  mkdir sys/fs/cgroup/systemd
  mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
fi
pivot_root . old
umount -l old
rmdir old
exec env -i container=test SYSTEMD_UNIT_PATH=/etc/systemd/system PATH=/usr/sbin:/usr/bin \\
  /usr/lib/systemd/systemd --system --unit=node.target --show-status=0 --log-target=null
"""


def obstacle() -> str | None:
    """Why this machine cannot have one; None where it can."""
    if missing_privileges() is not None:
        return "a systemd of the test's own takes root with CAP_SYS_ADMIN"
    if not SYSTEMD.exists():
        return "there is no systemd: install Debian's package systemd (nothing of it need run)"
    if not Path("/bin").is_symlink():
        return "the test's root file system needs a merged /usr"
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if not PYTHON.exists() or Path(os.path.realpath(PYTHON)).name != f"python{version}":
        return f"the program under test is made of the system's own Python {version}"
    return None


@dataclass(frozen=True, slots=True)
class HostSystemd:
    """A running systemd; `node` is its /node, `units` its /etc/systemd/system."""

    pid: int
    node: Path
    units: Path

    def run(
        self, *command: str, env: Mapping[str, str] | None = None, uid: int = 0, bare: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Run a command beside it; `bare`: without capabilities."""
        inside = ["nsenter", "--target", str(self.pid), "--mount", "--pid", "--net", "--cgroup", "--ipc", "--uts"]
        rights = ["setpriv", f"--reuid={uid}", "--keep-groups"]
        rights += ["--bounding-set=-all", "--inh-caps=-all"] if bare else []
        clean = ["env", "-i", "PATH=/opt/joulie/bin:/usr/sbin:/usr/bin", *(f"{k}={v}" for k, v in (env or {}).items())]
        return subprocess.run(
            [*inside, *rights, *clean, *command], capture_output=True, text=True, timeout=120, check=False
        )

    def show(self, unit: str, *names: str) -> dict[str, str]:
        """Return properties of a unit, as systemctl shows them."""
        output = self.run("systemctl", "show", unit, f"--property={','.join(names)}").stdout
        return dict(line.split("=", 1) for line in output.splitlines() if "=" in line)


@contextlib.contextmanager
def host_systemd(directory: Path) -> Iterator[HostSystemd]:
    """Boot one, with its files in a directory; killed with everything in it at the end."""
    for name in ("node", "units"):
        (directory / name).mkdir()
    for name in _TARGETS:
        (directory / "units" / f"{name}.target").write_text(f"[Unit]\nDescription={name}\nDefaultDependencies=no\n")
    (directory / "units" / "node.target").write_text(
        "[Unit]\nDescription=node\nDefaultDependencies=no\nWants=timers.target\nAllowIsolate=yes\n"
    )
    _write_image(directory / "joulie")
    group = cgroups.group_name(directory)
    cgroups.create(group)
    # The root of a namespace of control groups is where its first process is.
    groups = f"$(ls -d /sys/fs/cgroup/{group} /sys/fs/cgroup/*/{group} 2>/dev/null)"
    enter = f'for group in {groups}; do echo $$ > "$group/cgroup.procs"; done'
    spaces = "unshare --mount --pid --cgroup --ipc --uts --net --fork --kill-child"
    script = f'{enter}\nexec {spaces} sh -c "$BOOT" sh "$1"'
    process = subprocess.Popen(
        ["sh", "-c", script, "sh", str(directory)],
        env={**os.environ, "BOOT": _BOOT},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield HostSystemd(_first_process(process), directory / "node", directory / "units")
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
        cgroups.remove(group)


def _first_process(process: subprocess.Popen[str]) -> int:
    """The systemd's pid, once it answers."""
    while process.poll() is None:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        if children and (Path(f"/proc/{children[0]}/root/run/systemd/private")).exists():
            return int(children[0])
        time.sleep(_POLL_S)
    assert process.stderr is not None
    raise AssertionError(f"systemd did not start: {process.stderr.read()}")


def _write_image(prefix: Path) -> None:
    """What the agent's image has in /opt/joulie, as far as the program under test uses it."""
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", prefix], check=True, timeout=60)
    packages = prefix / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    installed = Path(sysconfig.get_path("purelib"))
    for source in (*(installed / name for name in _PACKAGES), *(ROOT / name for name in _SOURCES)):
        if source.is_dir():
            shutil.copytree(source, packages / source.name, ignore=shutil.ignore_patterns("__pycache__", "testing"))
        else:
            shutil.copy2(source, packages / source.name)
    command = prefix / "bin" / "joulie-agent"
    command.write_text(f"#!/opt/joulie/bin/python\n{_COMMAND}\n")
    command.chmod(0o755)
