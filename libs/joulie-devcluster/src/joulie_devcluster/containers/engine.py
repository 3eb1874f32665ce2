"""A container engine of our own, from Debian's `docker.io`, that leaves the machine's network and other engines alone.

Promises: `dockerd` on a private UNIX socket, with its own data, its own containerd and no bridge, no firewall rules and
no address of any kind (containers and builds use the host's network or none); one at a time per data directory; stopped
by its pid, and dead as soon as this process is. The data stay, so that the next build finds its layers.
Needs root. Blocks; from a coroutine, call it in a thread that lives as long as the engine.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from joulie_devcluster.errors import EngineError
from joulie_devcluster.host import die_with_parent
from joulie_devcluster.host.lock import file_lock
from joulie_devcluster.host.process import base_environment
from joulie_devcluster.host.progress import Reporter

INSTALL: Final = "apt-get install --no-install-recommends docker.io debootstrap"
_CAP_SYS_ADMIN: Final = 21
_START_TIMEOUT_S: Final = 60.0
_STOP_GRACE_S: Final = 30.0
_POLL_S: Final = 0.05
_ERROR_LINES: Final = 40
#: From here on the client has no BuildKit of its own but takes a plugin's.
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
    """A running engine and a client that can build with BuildKit.

    Attributes:
        host: its address, as DOCKER_HOST has it.
        client: the `docker` program.
    """

    host: str
    client: Path

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to reach this engine, and nothing of the user's other ones."""
        return {"DOCKER_HOST": self.host, "DOCKER_BUILDKIT": "1", "BUILDKIT_PROGRESS": "plain"}

    def run(self, *arguments: str, env: Mapping[str, str] | None = None) -> str:
        """Run a docker command and return what it wrote.

        Raises:
            EngineError: it failed; ends with its last lines.
        """
        done = subprocess.run(  # noqa: S603 - our own command
            [str(self.client), *arguments],
            env={**os.environ, **self.environment, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode != 0:
            tail = "\n".join((done.stdout + done.stderr).splitlines()[-_ERROR_LINES:])
            raise EngineError(f"docker {arguments[0]} failed with status {done.returncode}:\n{tail}")
        return done.stdout

    def answers(self) -> bool:
        """Whether there is an engine at the address."""
        try:
            self.run("version")
        except EngineError:
            return False
        return True

    def has_image(self, name: str) -> bool:
        """Whether the engine has an image of this name."""
        return bool(self.run("image", "ls", "--quiet", "--filter", f"reference={name}").strip())

    def size_bytes(self, name: str) -> int:
        """The size of an image, layers that it shares with others included."""
        return int(self.run("image", "inspect", "--format", "{{.Size}}", name))


def engine_obstacle() -> str | None:
    """Why this user cannot have an engine of their own here, in a sentence; None where only packages can be missing."""
    if not sys.platform.startswith("linux"):
        return "a container engine of our own needs Linux"
    capabilities = re.search(r"^CapEff:\s*([0-9a-f]+)$", Path("/proc/self/status").read_text(), re.MULTILINE)
    if os.geteuid() != 0 or capabilities is None or not int(capabilities[1], 16) >> _CAP_SYS_ADMIN & 1:
        return "starting a container engine needs root with CAP_SYS_ADMIN; DOCKER_HOST names one that runs already"
    return None


def user_engine() -> Engine:
    """The engine that `docker` reaches as the user has set it up.

    Raises:
        EngineError: there is no client, or nothing answers it.
    """
    client = docker_client()
    host = os.environ.get("DOCKER_HOST") or _context_host(client)
    engine = Engine(host, client)
    if not engine.answers():
        raise EngineError(f"no container engine answers at {host}: start one, or set DOCKER_HOST")
    return engine


def _context_host(client: Path) -> str:
    command = [str(client), "context", "inspect", "--format", "{{.Endpoints.docker.Host}}"]
    told = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    return told.stdout.strip() or "unix:///var/run/docker.sock"


def docker_client() -> Path:
    """A docker client that can build with BuildKit.

    Raises:
        EngineError: there is none.
    """
    directories = [*os.environ.get("PATH", "").split(os.pathsep), "/usr/bin"]
    candidates = [Path(found) for directory in directories if (found := shutil.which("docker", path=directory))]
    for candidate in dict.fromkeys(candidates):
        if _builds(candidate):
            return candidate
    if candidates:
        raise EngineError(f"{candidates[0]} has no buildx plugin: install it, or Debian's client ({INSTALL})")
    raise EngineError(f"there is no docker client: {INSTALL}")


def _builds(client: Path) -> bool:
    told = subprocess.run([client, "--version"], capture_output=True, text=True, check=False)  # noqa: S603 - found above
    version = re.search(r"version (\d+)\.", told.stdout)
    if version is not None and int(version[1]) < _PLUGIN_MAJOR:
        return True
    return subprocess.run([client, "buildx", "version"], capture_output=True, check=False).returncode == 0  # noqa: S603


@contextmanager
def private_engine(data: Path, reporter: Reporter) -> Iterator[Engine]:
    """Run an engine on this data directory; waits while another process has it.

    Raises:
        EngineError: not root, packages are missing, or the engine did not start.
    """
    obstacle = engine_obstacle()
    if obstacle is not None:
        raise EngineError(obstacle)
    daemon = shutil.which("dockerd", path=f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin")
    if daemon is None:
        raise EngineError(f"there is no dockerd: {INSTALL}")
    client = docker_client()
    with file_lock(
        data / "engine.lock", on_wait=lambda: reporter.note("another process uses the container engine; waiting for it")
    ):
        # Not below `data`, whose path may be too long for a socket's.
        runtime = Path("/run", f"joulie-engine-{hashlib.sha256(os.fsencode(data)).hexdigest()[:8]}")
        engine = Engine(f"unix://{runtime}/docker.sock", client)
        process = _start(daemon, data, runtime, engine)
        try:
            # Of sessions that were killed, and of builds that later ones have replaced.
            engine.run("container", "prune", "--force")
            engine.run("image", "prune", "--force")
            yield engine
        finally:
            _stop(process)
            _unmount_below(data)
            _unmount_below(runtime)
            shutil.rmtree(runtime, ignore_errors=True)


def _start(daemon: str, data: Path, runtime: Path, engine: Engine) -> subprocess.Popen[bytes]:
    runtime.mkdir(mode=0o700, exist_ok=True)
    # What an engine that was killed has left there is how this one finds, and ends, the containers that still run. All
    # but the pids: its containerd died with it, and is waited for in vain while a zombie has its pid.
    for left in (runtime / "docker.pid", runtime / "exec/containerd/containerd.pid"):
        left.unlink(missing_ok=True)
    config = data / "daemon.json"
    config.write_text(json.dumps(_CONFIG), encoding="utf-8")
    log = data / "dockerd.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(  # noqa: S603 - our own command
            die_with_parent.wrap([str(daemon), *_arguments(data, runtime, config)]),
            env=base_environment(),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    deadline = time.monotonic() + _START_TIMEOUT_S
    try:
        while not (Path(runtime, "docker.sock").exists() and engine.answers()):
            if process.poll() is not None or time.monotonic() >= deadline:
                tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-_ERROR_LINES:])
                raise EngineError(f"dockerd did not start; the end of {log}:\n{tail}")  # noqa: TRY301 - stopped below
            time.sleep(_POLL_S)
    except BaseException:
        _stop(process)
        raise
    return process


def _arguments(data: Path, runtime: Path, config: Path) -> Sequence[str]:
    # The namespaces: where the system runs a containerd, dockerd uses that one, and must not meet the system's docker.
    return [
        f"--config-file={config}",
        f"--data-root={data / 'data'}",
        f"--exec-root={runtime / 'exec'}",
        f"--pidfile={runtime / 'docker.pid'}",
        f"--host=unix://{runtime}/docker.sock",
        "--group=root",
        f"--containerd-namespace={runtime.name}",
        f"--containerd-plugins-namespace={runtime.name}-plugins",
    ]


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _unmount_below(directory: Path) -> None:
    """Undo what dockerd leaves: the network namespace of containers on the host's network, or all, when killed."""
    mounted = [line.split()[1] for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()]
    for place in reversed([place for place in mounted if Path(place).is_relative_to(directory)]):
        subprocess.run(["/bin/umount", "--lazy", place], capture_output=True, check=False)  # noqa: S603 - our own
