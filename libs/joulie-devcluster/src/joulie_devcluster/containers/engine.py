"""A private container engine, from Debian's `docker.io`, and access to the user's engine.

Guarantees: a private `dockerd` has a UNIX socket, data and a containerd of its own, and changes neither the host's
network nor other engines: it has no bridge, no firewall rules and no TCP address (containers and builds use the host's
network or none). One runs at a time per data directory. It is stopped by its pid, and killed when this process ends.
Its data are kept, so that the next build can reuse layers.

Limits: requires root. Blocks; coroutines must call it in a thread that lives as long as the engine.
"""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Final

from joulie_devcluster.errors import EngineError
from joulie_devcluster.host import die_with_parent
from joulie_devcluster.host.command import output_of
from joulie_devcluster.host.lock import file_lock
from joulie_devcluster.host.privileges import is_privileged_root
from joulie_devcluster.host.process import base_environment
from joulie_devcluster.host.progress import Reporter

INSTALL: Final = "apt-get install --no-install-recommends docker.io debootstrap"
_START_TIMEOUT_S: Final = 60.0
_STOP_GRACE_S: Final = 30.0
_POLL_S: Final = 0.05
_ERROR_LINES: Final = 40
#: First client version without built-in BuildKit; it requires the buildx plugin.
_PLUGIN_MAJOR: Final = 23
_CONFIG: Final = {
    "builder": {"gc": {"enabled": True, "defaultKeepStorage": "4GB"}},
    "bridge": "none",
    "iptables": False,
    "ip6tables": False,
    "ip-forward": False,
    "ip-masq": False,
}


@dataclass(frozen=True, slots=True)
class Engine:
    """A running engine, and a client that can build with BuildKit.

    Attributes:
        host: address of the engine, in the format of DOCKER_HOST.
        client: the `docker` executable.
        pid: process of a private engine; 0 for another one.
    """

    host: str
    client: Path
    pid: int = 0

    @property
    def environment(self) -> dict[str, str]:
        """Variables with which a client reaches this engine and no other one."""
        return {"DOCKER_HOST": self.host, "DOCKER_BUILDKIT": "1", "BUILDKIT_PROGRESS": "plain"}

    def run(
        self, *arguments: str, env: Mapping[str, str] | None = None, stdin: IO[bytes] | int | None = subprocess.DEVNULL
    ) -> str:
        """Run a docker command and return its output.

        Raises:
            EngineError: the command failed; the message contains the end of its output.
        """
        variables = {**os.environ, **self.environment, **(env or {})}
        return output_of((str(self.client), *arguments), f"docker {arguments[0]}", env=variables, stdin=stdin)

    def is_reachable(self) -> bool:
        """Return whether the engine responds."""
        try:
            self.run("version")
        except EngineError:
            return False
        return True

    def has_image(self, name: str) -> bool:
        """Return whether the engine has an image of this name."""
        return bool(self.run("image", "ls", "--quiet", "--filter", f"reference={name}").strip())

    def size_bytes(self, name: str) -> int:
        """Return the size of an image, shared layers included."""
        return int(self.run("image", "inspect", "--format", "{{.Size}}", name))


def private_engine_obstacle() -> str | None:
    """Return why this user cannot run a private engine, or None if nothing but packages can be missing."""
    if not sys.platform.startswith("linux"):
        return "a private container engine requires Linux"
    if not is_privileged_root():
        return "starting a container engine requires root with CAP_SYS_ADMIN; set DOCKER_HOST to use a running one"
    return None


def user_engine() -> Engine:
    """Return the engine that the user has configured for `docker`.

    Raises:
        EngineError: there is no client, or the engine does not respond.
    """
    client = docker_client()
    host = os.environ.get("DOCKER_HOST") or _context_host(client)
    engine = Engine(host, client)
    if not engine.is_reachable():
        raise EngineError(f"no container engine responds at {host}: start one, or set DOCKER_HOST")
    return engine


def _context_host(client: Path) -> str:
    command = [str(client), "context", "inspect", "--format", "{{.Endpoints.docker.Host}}"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - a fixed command
    return result.stdout.strip() or "unix:///var/run/docker.sock"


def docker_client() -> Path:
    """Return a docker client that can build with BuildKit.

    Raises:
        EngineError: no such client is installed.
    """
    directories = [*os.environ.get("PATH", "").split(os.pathsep), "/usr/bin"]
    candidates = [Path(found) for directory in directories if (found := shutil.which("docker", path=directory))]
    for candidate in dict.fromkeys(candidates):
        if _supports_buildkit(candidate):
            return candidate
    if candidates:
        raise EngineError(f"{candidates[0]} has no buildx plugin: install it, or Debian's client ({INSTALL})")
    raise EngineError(f"no docker client found: {INSTALL}")


def _supports_buildkit(client: Path) -> bool:
    result = subprocess.run([client, "--version"], capture_output=True, text=True, check=False)  # noqa: S603 - found above
    version = re.search(r"version (\d+)\.", result.stdout)
    if version is not None and int(version[1]) < _PLUGIN_MAJOR:
        return True
    return subprocess.run([client, "buildx", "version"], capture_output=True, check=False).returncode == 0  # noqa: S603


@contextmanager
def private_engine(
    data: Path, reporter: Reporter, *, config: Mapping[str, object] = _CONFIG, launcher: Sequence[str] = ()
) -> Iterator[Engine]:
    """Run an engine on a data directory; wait while another process uses the directory.

    Args:
        data: directory of the engine's images and containers.
        reporter: receives a message while another process is waited for.
        config: the engine's configuration file.
        launcher: command line to which the engine's is appended; it must run it as its only child. Empty: the engine is
            a child of this process.

    Raises:
        EngineError: the user is not root, packages are missing, or the engine did not start.
    """
    obstacle = private_engine_obstacle()
    if obstacle is not None:
        raise EngineError(obstacle)
    daemon = shutil.which("dockerd", path=f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin")
    if daemon is None:
        raise EngineError(f"dockerd not found: {INSTALL}")
    client = docker_client()
    with file_lock(
        data / "engine.lock",
        on_wait=lambda: reporter.note("another process is using the container engine; waiting for it"),
    ):
        runtime = _runtime(data)
        engine = Engine(engine_host(data), client)
        (data / "daemon.json").write_text(json.dumps(config), encoding="utf-8")
        process = _start([*launcher, daemon, *_arguments(data, runtime)], data, runtime, engine)
        engine = replace(engine, pid=_daemon_pid(process, launcher))
        try:
            # Containers of killed sessions, and images that later builds have replaced.
            engine.run("container", "prune", "--force")
            engine.run("image", "prune", "--force")
            yield engine
        finally:
            _stop(process, engine.pid)
            _unmount_below(data)
            _unmount_below(runtime)
            shutil.rmtree(runtime, ignore_errors=True)


def engine_host(data: Path) -> str:
    """Return the address of the private engine on a data directory, in the format of DOCKER_HOST."""
    return f"unix://{_runtime(data)}/docker.sock"


def _runtime(data: Path) -> Path:
    # Not below `data`: the path of a UNIX socket is limited to 107 bytes.
    return Path("/run", f"joulie-engine-{hashlib.sha256(os.fsencode(data)).hexdigest()[:8]}")


def _start(command: Sequence[str], data: Path, runtime: Path, engine: Engine) -> subprocess.Popen[bytes]:
    runtime.mkdir(mode=0o700, exist_ok=True)
    # From the files of a killed engine this one finds, and stops, containers that are still running. The pid files must
    # go: the killed engine's containerd has ended with it, and dockerd would wait for it while a zombie has its pid.
    for pid_file in (runtime / "docker.pid", runtime / "exec/containerd/containerd.pid"):
        pid_file.unlink(missing_ok=True)
    log = data / "dockerd.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(  # noqa: S603 - a fixed command
            die_with_parent.wrap(command),
            env=base_environment(),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    deadline = time.monotonic() + _START_TIMEOUT_S
    try:
        while not (Path(runtime, "docker.sock").exists() and engine.is_reachable()):
            if process.poll() is not None or time.monotonic() >= deadline:
                tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-_ERROR_LINES:])
                raise EngineError(f"dockerd did not start; end of {log}:\n{tail}")  # noqa: TRY301 - stopped below
            time.sleep(_POLL_S)
    except BaseException:
        _stop(process, process.pid)
        raise
    return process


def _arguments(data: Path, runtime: Path) -> Sequence[str]:
    # Namespaces of its own: dockerd uses the system's containerd if there is one, which may also serve the system's
    # docker.
    return [
        f"--config-file={data / 'daemon.json'}",
        f"--data-root={data / 'data'}",
        f"--exec-root={runtime / 'exec'}",
        f"--pidfile={runtime / 'docker.pid'}",
        f"--host=unix://{runtime}/docker.sock",
        "--group=root",
        f"--containerd-namespace={runtime.name}",
        f"--containerd-plugins-namespace={runtime.name}-plugins",
    ]


def _daemon_pid(process: subprocess.Popen[bytes], launcher: Sequence[str]) -> int:
    """Return the pid of the engine: the process itself, or the child of the launcher."""
    if not launcher:
        return process.pid
    return int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])


def _stop(process: subprocess.Popen[bytes], pid: int) -> None:
    # A launcher ends when the engine, its child, has ended.
    if process.poll() is None:
        os.kill(pid, signal.SIGTERM)
    try:
        process.wait(_STOP_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _unmount_below(directory: Path) -> None:
    """Unmount what dockerd leaves mounted.

    It leaves the network namespaces of host-network containers, and all of its mounts if it was killed.
    """
    mount_points = [line.split()[1] for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()]
    for mount_point in reversed([path for path in mount_points if Path(path).is_relative_to(directory)]):
        subprocess.run(["/bin/umount", "--lazy", mount_point], capture_output=True, check=False)  # noqa: S603 - fixed
