# ruff: noqa: INP001 - a file of the chart, not of a package
"""Program of the init container that installs the host watchdog on a node, or removes it.

`install` copies what `restore` needs from this image (interpreter, standard library, the program and its packages,
shared libraries) into a directory of the node named by a digest of its content, writes the systemd units, reloads
systemd, runs the service once and starts its timer. `remove` reverts all of it.

Guarantees that the units on the node refer to a complete directory at any time, that `install` exits with 0 only if the
timer is active and systemd could run the service, and that both commands can be repeated. Standard library only.
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

#: Packages that the command imports, as far as this image has them; the others are the services'.
_PACKAGES: Final = (
    "joulie_agent",
    "joulie_containers",
    "joulie_actuator",
    "joulie_core",
    "msgspec",
    "pynvml.py",
    "amdsmi",
)
#: Either of them has the command.
_PROGRAMS: Final = ("joulie-agent", "joulie-containers")
#: Modules of the standard library that the agent does not use, and those that need large libraries.
_LEFT_OUT: Final = frozenset(
    {"test", "idlelib", "lib2to3", "ensurepip", "tkinter", "turtledemo", "pydoc_data", "dist-packages", "site-packages"}
    | {"_ssl", "_sqlite3", "_tkinter", "_curses", "_curses_panel", "readline", "_dbm", "_gdbm", "sqlite3", "curses"}
)
_MOUNT_POINTS: Final = ("proc", "sys", "dev", "run", "tmp", "host-sys", "host-proc", "var/lib/joulie", "opt/rocm")
#: Incomplete copy: no unit names it.
_PARTIAL: Final = ".partial"
_KEPT: Final = 2
#: Opening a GPU driver without other clients takes seconds per GPU; more than the service's TimeoutStartSec.
_RUN_TIMEOUT_S: Final = 200.0
#: Exit codes of systemd itself (systemd.exec(5)): 203/EXEC, 226/NAMESPACE and so on.
_SETUP_FAILED: Final = range(200, 246)
#: The command could not start: wrong usage, not executable, not found.
_ENDED: Final = frozenset({"inactive", "failed"})
_NOT_STARTED: Final = frozenset({2, 126, 127})


class WatchdogError(Exception):
    """The watchdog was not installed, or not removed; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class Node:
    """Mounted directories of the node, and their paths there."""

    #: Directory of the program's versions: as mounted here, and on the node.
    directory: Path
    host_directory: Path
    #: /etc/systemd/system
    units: Path
    #: /run/systemd/private
    socket: Path
    #: Name of the service and of the timer, without suffix.
    name: str
    #: Templates of the units; @ROOT@ stands for the program's directory.
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
        """Link that starts the timer at boot, as created by `systemctl enable`."""
        return self.units / "timers.target.wants" / self.timer


def install(node: Node) -> None:
    """Install or update the watchdog.

    Raises:
        WatchdogError: systemd cannot run it.
        SystemdError: systemd cannot be reached, or refuses a request.
        OSError: a file cannot be written on the node.
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
    _print(f"installed {root}, {_size_mb(node.directory / version):.0f} MB; {node.timer} is active")


def remove(node: Node) -> None:
    """Stop the watchdog and remove its units and files; missing ones count as removed.

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
    _print(f"{node.service} and {node.timer} are removed, and {node.host_directory} is empty")


def _try_out(systemd: Systemd, node: Node) -> None:
    """Run the service once; fail if systemd cannot run it, not if it could not restore a limit."""
    systemd.wait_for(node.service, _ENDED, _RUN_TIMEOUT_S)
    systemd.run(node.service, _RUN_TIMEOUT_S)
    result = systemd.property(node.service, "Result", "Service")
    status = systemd.property(node.service, "ExecMainStatus", "Service")
    if result == "success":
        return
    if result == "exit-code" and isinstance(status, int) and status not in _SETUP_FAILED and status not in _NOT_STARTED:
        _print(f"{node.service} exited with {status}: some limits are not restored, see its log on the node")
        return
    raise WatchdogError(f"systemd cannot run {node.service}: {result}, status {status}; see its log on the node")


# --- the program's files


def _copy_program(directory: Path) -> str:
    """Copy the program into a directory named by a digest of its content, and return that name."""
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
    """Return all files and links of the program, their directories resolved."""
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
    yield from (Path(sys.prefix, "bin", name) for name in _PROGRAMS)
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
    """Return the dynamic loader and the shared libraries that it finds for these files."""
    loader = next(Path("/").glob("lib*/ld-linux-*.so.*"), None)
    if loader is None:
        raise WatchdogError("there is no /lib*/ld-linux-*.so: the image is not based on glibc")
    found = {loader}
    for path in files:
        listing = subprocess.run([loader, "--list", path], capture_output=True, text=True, check=False).stdout  # noqa: S603
        found |= {Path(word) for line in listing.splitlines() for word in line.split() if word.startswith("/")}
    return found


def _add(path: Path, found: set[Path]) -> None:
    """Add a path and, for a link, its target."""
    path = Path(os.path.realpath(path.parent), path.name)
    if path in found or not os.path.lexists(path):
        return
    found.add(path)
    if path.is_symlink():
        target = Path(os.path.normpath(path.parent / path.readlink()))
        if not target.is_dir():
            _add(target, found)


def _remove_old(directory: Path, version: str) -> None:
    """Remove all versions but this one and the previous one, which may still be running."""
    shutil.rmtree(directory / _PARTIAL, ignore_errors=True)
    others = [path for path in directory.iterdir() if path.name != version]
    others.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for path in others[_KEPT - 1 :]:
        shutil.rmtree(path, ignore_errors=True)


def _write(path: Path, text: str) -> None:
    """Replace a file atomically."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text)
    partial.chmod(0o644)
    with partial.open() as written:
        os.fsync(written.fileno())
    partial.replace(path)


def _size_mb(directory: Path) -> float:
    return sum(path.lstat().st_size for path in directory.rglob("*")) / 1e6


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Run one command; return 1 if it failed."""
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
        _print(f"cannot {sys.argv[1]} the watchdog: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
