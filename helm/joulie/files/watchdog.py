# ruff: noqa: INP001 - a file of the chart, not of a package
"""Installs the host watchdog on a node, and removes it: an init container's program.

`install` copies what `joulie-agent restore` needs of this image (the interpreter, its standard library, our packages,
the shared libraries of all of them) into a directory of the node, named by a digest of the content, writes the systemd
units for it, has systemd read them, runs the service once and starts its timer. `remove` undoes all of it.

Promises that at any instant the units on the node refer to a complete directory; that `install` ends with 0 only where
the timer is active and systemd could run the service; and that both may be repeated. Standard library only.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from systemd_bus import Systemd, SystemdError

#: What of site-packages the command imports; the rest is the controller's.
_PACKAGES: Final = ("joulie_agent", "joulie_core", "msgspec", "pynvml.py", "amdsmi")
#: Of the standard library and its extension modules: what no part of the agent uses, and what brings large libraries.
_LEFT_OUT: Final = frozenset(
    {"test", "idlelib", "lib2to3", "ensurepip", "tkinter", "turtledemo", "pydoc_data", "dist-packages", "site-packages"}
    | {"_ssl", "_sqlite3", "_tkinter", "_curses", "_curses_panel", "readline", "_dbm", "_gdbm", "sqlite3", "curses"}
)
_MOUNT_POINTS: Final = ("proc", "sys", "dev", "run", "tmp", "host-sys", "host-proc", "var/lib/joulie", "opt/rocm")
#: Never run from: the name is not in any unit.
_PARTIAL: Final = ".partial"
_KEPT: Final = 2
#: A GPU driver that nobody holds open takes seconds per GPU; above the service's own TimeoutStartSec.
_RUN_TIMEOUT_S: Final = 200.0
#: systemd's own exit codes (systemd.exec(5)), for what it could not set up: 203/EXEC, 226/NAMESPACE and so on.
_SETUP_FAILED: Final = range(200, 246)
#: The command could not start: wrong usage, not executable, not found.
_ENDED: Final = frozenset({"inactive", "failed"})
_NOT_STARTED: Final = frozenset({2, 126, 127})


class WatchdogError(Exception):
    """The watchdog is not installed, or not removed; the message says why."""


@dataclass(frozen=True, slots=True)
class Node:
    """What is mounted of the node, and what it is called there."""

    #: Where versions of the program go, and the same as the node's systemd sees it.
    directory: Path
    host_directory: Path
    #: /etc/systemd/system
    units: Path
    #: /run/systemd/private
    socket: Path
    #: Name of the service and of the timer, without suffix.
    name: str
    #: The units to install, with @ROOT@ where the program's directory is meant.
    templates: Path

    @property
    def service(self) -> str:
        """Name of the service."""
        return f"{self.name}.service"

    @property
    def timer(self) -> str:
        """Name of the timer."""
        return f"{self.name}.timer"

    @property
    def wanted(self) -> Path:
        """The link by which the timer is started at boot, as `systemctl enable` makes it."""
        return self.units / "timers.target.wants" / self.timer


def install(node: Node) -> None:
    """Install, or bring up to date.

    Raises:
        WatchdogError: systemd cannot run it.
        SystemdError: systemd cannot be reached, or refuses.
        OSError: the node's file systems do not take it.
    """
    version = _copy_program(node.directory)
    root = node.host_directory / version
    for name in (node.service, node.timer):
        _write(node.units / name, (node.templates / name).read_text().replace("@ROOT@", str(root)))
    node.wanted.parent.mkdir(exist_ok=True)
    if not node.wanted.is_symlink():
        node.wanted.symlink_to(f"../{node.timer}")
    with Systemd(node.socket) as systemd:
        systemd.reload()
        _try_out(systemd, node)
        systemd.restart(node.timer)
        systemd.wait_for(node.timer, ("active",))
    _remove_old(node.directory, version)
    _say(f"installed {root}, {_size_mb(node.directory / version):.0f} MB; {node.timer} is active")


def remove(node: Node) -> None:
    """Stop it and remove units and files; what is gone already counts as done.

    Raises:
        SystemdError: systemd cannot be reached, or does not stop the service.
        OSError: something cannot be removed.
    """
    with Systemd(node.socket) as systemd:
        for unit in (node.timer, node.service):
            if systemd.property(unit, "LoadState") == "loaded":
                systemd.stop(unit)
                systemd.wait_for(unit, _ENDED, _RUN_TIMEOUT_S)
        for path in (node.wanted, node.units / node.timer, node.units / node.service):
            path.unlink(missing_ok=True)
        systemd.reload()
        for unit in (node.timer, node.service):
            if systemd.property(unit, "ActiveState") == "failed":
                systemd.forget_failure(unit)
    for path in node.directory.iterdir():
        shutil.rmtree(path)
    _say(f"{node.service} and {node.timer} are removed, and {node.host_directory} is empty")


def _try_out(systemd: Systemd, node: Node) -> None:
    """Run the service once. That something cannot be restored is its own matter; that it cannot run is ours."""
    systemd.wait_for(node.service, _ENDED, _RUN_TIMEOUT_S)
    systemd.run(node.service, _RUN_TIMEOUT_S)
    result = systemd.property(node.service, "Result", "Service")
    status = systemd.property(node.service, "ExecMainStatus", "Service")
    if result == "success":
        return
    if result == "exit-code" and isinstance(status, int) and status not in _SETUP_FAILED and status not in _NOT_STARTED:
        _say(f"{node.service} ended with {status}: it could not restore everything, see its log on the node")
        return
    raise WatchdogError(f"the node's systemd cannot run {node.service}: {result}, status {status}; see its log there")


# --- the program's files


def _copy_program(directory: Path) -> str:
    """Copy what is needed into a directory named by its content; returns the name."""
    files = sorted(_files())
    whole = hashlib.sha256()
    for path in files:
        content = str(path.readlink()).encode() if path.is_symlink() else path.read_bytes()
        whole.update(f"{path}\0{len(content)}\0".encode() + content)
    version = whole.hexdigest()[:16]
    if not (directory / version).is_dir():
        partial = directory / _PARTIAL
        shutil.rmtree(partial, ignore_errors=True)
        for path in files:
            target = partial / path.relative_to("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target, follow_symlinks=False)
        for path in _MOUNT_POINTS:
            (partial / path).mkdir(parents=True, exist_ok=True)
        os.sync()
        partial.rename(directory / version)
    os.utime(directory / version)
    return version


def _files() -> set[Path]:
    """Files and links, by paths without links in their directories."""
    found: set[Path] = set()
    elf: list[Path] = []
    for path in _roots():
        if (path.suffix == ".so" or ".so." in path.name or path.name.startswith("python3")) and path.is_file():
            elf.append(path)
        _add(path, found)
    for library in _libraries(elf):
        _add(library, found)
    return found


def _roots() -> Iterator[Path]:
    stdlib, packages = Path(sysconfig.get_path("stdlib")), Path(sysconfig.get_path("purelib"))
    yield Path(sys.prefix, "pyvenv.cfg")
    yield Path(sys.prefix, "bin", "joulie-agent")
    yield from (
        Path(sys.prefix, "bin", name) for name in ("python", "python3") if Path(sys.prefix, "bin", name).exists()
    )
    yield Path(os.path.realpath(sys.executable))
    yield from _below(stdlib)
    for name in _PACKAGES:
        path = packages / name
        yield from _below(path) if path.is_dir() else (path,)
    yield from (Path("/", name) for name in ("bin", "lib", "lib64", "sbin") if Path("/", name).is_symlink())


def _below(directory: Path) -> Iterator[Path]:
    for place, below, names in os.walk(directory):
        below[:] = [name for name in below if name not in _LEFT_OUT and not name.startswith("config-")]
        yield from (Path(place, name) for name in names if name.partition(".")[0] not in _LEFT_OUT)


def _libraries(files: list[Path]) -> set[Path]:
    """The shared libraries that these need, and the loader, as the loader itself finds them."""
    loader = next(Path("/").glob("lib*/ld-linux-*.so.*"), None)
    if loader is None:
        raise WatchdogError("there is no /lib*/ld-linux-*.so: this image is none of glibc")
    found = {loader}
    for path in files:
        told = subprocess.run([loader, "--list", path], capture_output=True, text=True, check=False).stdout  # noqa: S603
        found |= {Path(word) for line in told.splitlines() for word in line.split() if word.startswith("/")}
    return found


def _add(path: Path, found: set[Path]) -> None:
    """Add a path, and what it leads to where it is a link."""
    path = Path(os.path.realpath(path.parent), path.name)
    if path in found or not os.path.lexists(path):
        return
    found.add(path)
    if path.is_symlink():
        target = Path(os.path.normpath(path.parent / path.readlink()))
        if not target.is_dir():
            _add(target, found)


def _remove_old(directory: Path, version: str) -> None:
    """Keep the previous version: a run of it may be under way."""
    shutil.rmtree(directory / _PARTIAL, ignore_errors=True)
    others = [path for path in directory.iterdir() if path.name != version]
    others.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for path in others[_KEPT - 1 :]:
        shutil.rmtree(path, ignore_errors=True)


def _write(path: Path, text: str) -> None:
    """Replace a file as a whole."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text)
    partial.chmod(0o644)
    with partial.open() as written:
        os.fsync(written.fileno())
    partial.replace(path)


def _size_mb(directory: Path) -> float:
    return sum(path.lstat().st_size for path in directory.rglob("*")) / 1e6


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Run one command; 1 where it could not be done."""
    env = os.environ
    node = Node(
        directory=Path(env.get("WATCHDOG_DIRECTORY") or "/host/watchdog"),
        host_directory=Path(env["WATCHDOG_HOST_DIRECTORY"]),
        units=Path(env.get("WATCHDOG_UNITS") or "/host/units"),
        socket=Path(env.get("WATCHDOG_SYSTEMD") or "/host/systemd-private"),
        name=env["WATCHDOG_NAME"],
        templates=Path(__file__).parent,
    )
    try:
        {"install": install, "remove": remove}[sys.argv[1]](node)
    except (WatchdogError, SystemdError, OSError) as error:
        _say(f"cannot {sys.argv[1]} the watchdog: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
