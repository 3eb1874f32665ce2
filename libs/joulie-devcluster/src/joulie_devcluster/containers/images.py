"""The services' container images: built, and saved as archives for a container runtime that reaches no registry.

Promises that an archive is that of this checkout (it is named by a digest of the Dockerfile and of everything that the
build reads), that it appears whole or not at all, and that the build needs no image registry: where there is none to
ask, the base image is bootstrapped from Debian's packages. Works in a checkout only. Blocks, for minutes when cold.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from joulie_devcluster.containers.engine import INSTALL, Engine, engine_obstacle, private_engine, user_engine
from joulie_devcluster.errors import EngineError
from joulie_devcluster.host.paths import cache_home
from joulie_devcluster.host.progress import Reporter, SilentReporter, terminal_reporter

SERVICES: Final = ("operator", "agent", "extender")

_LIBRARIES: Final = ("libs/joulie-core", "libs/joulie-api")
_NOT_COPIED: Final = frozenset({"testing", "tests", "__pycache__"})
#: Raise the number when the recipe of `_bootstrap` changes.
_BASE: Final = "joulie-base:bookworm-1"
#: What Debian's own slim image leaves out.
_UNSLIM: Final = ("usr/share/doc", "usr/share/man", "usr/share/info", "usr/share/locale", "usr/share/lintian")
_KEPT_ARCHIVES: Final = 3
_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
_PIP_OPTIONS: Final = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "default-timeout", "retries")
_ERROR_LINES: Final = 20


def images_home() -> Path:
    """Archives, the bootstrapped base and the data of the engine: `joulie/images` in the user's cache."""
    return cache_home().parent / "images"


def image_name(service: str) -> str:
    """The full name of a service's image: the tag is the service's own version."""
    return f"docker.io/joulie/{service}:{_version(service)}"


def save_image(service: str, reporter: Reporter | None = None) -> Path:
    """Return an archive of a service's image, as `docker save` writes it, building what is missing.

    Raises:
        EngineError: it is not there and cannot be built here; says what to install.
    """
    archive = archive_path(service)
    if not archive.exists():
        with image_builder(SilentReporter() if reporter is None else reporter) as builder:
            builder.save(service)
    return archive


def archive_path(service: str) -> Path:
    """Where the archive of a service's image is, or would be, as this checkout is now."""
    return images_home() / f"{service}-{_digest(service)}.tar"


@contextmanager
def image_builder(reporter: Reporter) -> Iterator["ImageBuilder"]:
    """A builder on the engine at DOCKER_HOST or, where that is not set, on one of our own.

    Raises:
        EngineError: there is none and none can be started.
    """
    if os.environ.get("DOCKER_HOST"):
        yield ImageBuilder(user_engine(), reporter)
        return
    with private_engine(images_home() / "engine", reporter) as engine:
        if not engine.has_image(_BASE):
            engine.run("import", str(_bootstrap(reporter)), _BASE)
        yield ImageBuilder(engine, reporter, base=_BASE)


@dataclass(frozen=True, slots=True)
class ImageBuilder:
    """Builds images with an engine.

    Attributes:
        engine: where the images are afterwards.
        reporter: who hears of it.
        base: the image to build on in place of the usual one; the build then also has the host's network.
    """

    engine: Engine
    reporter: Reporter
    base: str | None = None

    def build(self, service: str) -> str:
        """Build a service's image and return its name.

        Raises:
            EngineError: the build failed; ends with the end of its output.
        """
        root, name = _root(), image_name(service)
        arguments = ["--file", str(root / "Dockerfile"), "--tag", name]
        arguments += ["--build-arg", f"SERVICE={service}", "--build-arg", f"VERSION={_version(service)}"]
        arguments += [text for proxy in _PROXIES if proxy in os.environ for text in ("--build-arg", proxy)]
        if self.base is not None:
            arguments += ["--build-arg", f"BASE={self.base}", "--network", "host"]
        self.reporter.begin(f"image {name}")
        with _secrets() as secrets:
            self.engine.run("build", *arguments, *secrets, str(root))
        self.reporter.finish()
        return name

    def save(self, service: str) -> Path:
        """Return an archive of a service's image, built if it is not there yet; see `save_image`."""
        archive = archive_path(service)
        if archive.exists():
            return archive
        name = self.build(service)
        # One engine has one user at a time, but DOCKER_HOST's may have several.
        partial = archive.with_suffix(f".partial-{os.getpid()}")
        archive.parent.mkdir(parents=True, exist_ok=True)
        try:
            self.engine.run("save", "--output", str(partial), name)
            partial.replace(archive)
        finally:
            partial.unlink(missing_ok=True)
        _forget_old(archive.parent, service)
        return archive


@contextmanager
def _secrets() -> Iterator[list[str]]:
    """What of this machine's settings pip needs in order to reach its index; the build sees it, the image does not."""
    arguments = []
    bundle = os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE")
    if bundle and Path(bundle).is_file():
        arguments += ["--secret", f"id=ca,src={bundle}"]
    # From a directory that is ours alone: an index address may carry a password.
    with tempfile.TemporaryDirectory(prefix="joulie-build-") as directory:
        config = _pip_config()
        if config:
            path = Path(directory, "pip.conf")
            path.write_text("\n".join(["[global]", *config, ""]), encoding="utf-8")
            arguments += ["--secret", f"id=pip,src={path}"]
        yield arguments


def _pip_config() -> list[str]:
    """The lines of a pip.conf that say what this user's files and environment say about the index."""
    told = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False)
    values = {}
    for line in told.stdout.splitlines():
        key, _, value = line.partition("=")
        option = key.rpartition(".")[2]
        if option in _PIP_OPTIONS:
            values[option.removeprefix("default-")] = value.strip("'\"").replace("\\n", "\n  ")
    return [f"{option} = {value}" for option, value in values.items()]


def _forget_old(home: Path, service: str) -> None:
    archives = sorted(home.glob(f"{service}-*.tar"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in archives[_KEPT_ARCHIVES:]:
        path.unlink(missing_ok=True)


def _bootstrap(reporter: Reporter) -> Path:
    """An archive of a minimal Debian 12, like the official slim image."""
    archive = images_home() / f"{_BASE.replace(':', '-')}.tar"
    if archive.exists():
        return archive
    if shutil.which("debootstrap", path=f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin") is None:
        raise EngineError(f"there is no debootstrap: {INSTALL}")
    reporter.begin("base image from Debian's packages")
    images_home().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="base-", dir=images_home()) as directory:
        root, partial = Path(directory, "root"), Path(directory, "base.tar")
        _command("debootstrap", "--variant=minbase", "bookworm", str(root))
        for part in _UNSLIM:
            shutil.rmtree(root / part, ignore_errors=True)
        for part in ("var/cache/apt/archives", "var/lib/apt/lists", "var/log"):
            for path in (root / part).rglob("*"):
                if path.is_file():
                    path.unlink()
        excluded = "".join(f"path-exclude /{part}/*\n" for part in _UNSLIM)
        (root / "etc/dpkg/dpkg.cfg.d/slim").write_text(excluded, encoding="ascii")
        _command("tar", "--numeric-owner", "--create", "--file", str(partial), "--directory", str(root), ".")
        partial.replace(archive)
    reporter.finish()
    return archive


def _command(*argv: str) -> None:
    env = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin{os.pathsep}/sbin"}
    done = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-_ERROR_LINES:])
        raise EngineError(f"{argv[0]} failed with status {done.returncode}:\n{tail}")


def _root() -> Path:
    root = Path(__file__).resolve().parents[5]
    if not (root / "Dockerfile").exists():
        raise EngineError(f"images are built in a checkout, and {root} is none")
    return root


def _version(service: str) -> str:
    if service not in SERVICES:
        raise EngineError(f"there is no service {service!r}; there are {', '.join(SERVICES)}")
    project = tomllib.loads((_root() / "services" / service / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def _digest(service: str) -> str:
    """A digest of everything that the build of a service reads."""
    root = _root()
    member = f"services/{service}"
    files = [".dockerignore", "Dockerfile", "requirements/build.txt", f"requirements/{service}.txt"]
    for directory in (*_LIBRARIES, member):
        files.append(f"{directory}/pyproject.toml")
        sources = (path.relative_to(root) for path in (root / directory / "src").rglob("*") if path.is_file())
        files += [str(path) for path in sources if not _NOT_COPIED.intersection(path.parts)]
    whole = hashlib.sha256(_BASE.encode())
    for name in sorted(files):
        whole.update(f"{name}\0".encode() + hashlib.sha256((root / name).read_bytes()).digest())
    return whole.hexdigest()[:16]


def main(argv: list[str] | None = None) -> int:
    """Build images on the engine that `docker` reaches; where there is none, on one of our own, and save archives."""
    parser = argparse.ArgumentParser(prog="python -m joulie_devcluster.containers.images", description=main.__doc__)
    parser.add_argument("service", nargs="+", choices=SERVICES)
    parser.add_argument("--save", action="store_true", help="save archives in any case")
    options = parser.parse_args(argv)
    try:
        with terminal_reporter() as reporter, _any_builder(reporter) as (builder, own):
            for service in options.service:
                name = builder.build(service)
                sys.stdout.write(f"{name}  {builder.engine.size_bytes(name) / 1e6:.0f} MB\n")
                if own or options.save:
                    sys.stdout.write(f"  {builder.save(service)}\n")
    except EngineError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


@contextmanager
def _any_builder(reporter: Reporter) -> Iterator[tuple[ImageBuilder, bool]]:
    """A builder on the user's engine, or on one of our own, which the second tells."""
    try:
        builder = ImageBuilder(user_engine(), reporter)
    except EngineError as error:
        obstacle = engine_obstacle()
        if obstacle is not None or os.environ.get("DOCKER_HOST"):
            raise
        reporter.note(f"{error}; building on one of our own, whose images are saved as archives")
    else:
        yield builder, False
        return
    with image_builder(reporter) as builder:
        yield builder, True


if __name__ == "__main__":
    sys.exit(main())
