"""Container images of the services: builds, and archives for container runtimes without a registry.

Guarantees: an archive belongs to this checkout (its name contains a digest of the Dockerfile and of all files that the
build reads); it appears complete or not at all; a build on a private engine needs no image registry, because the base
image is bootstrapped from Debian packages.

Limits: works in a checkout only. Blocks, the first time for minutes.
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

from joulie_devcluster.containers.engine import INSTALL, Engine, private_engine, private_engine_obstacle, user_engine
from joulie_devcluster.errors import EngineError
from joulie_devcluster.host.command import run
from joulie_devcluster.host.paths import cache_home
from joulie_devcluster.host.progress import Reporter, SilentReporter, terminal_reporter

SERVICES: Final = ("operator", "agent", "containers", "extender", "outofband", "ven")

_LIBRARIES: Final = ("libs/joulie-core", "libs/joulie-api", "libs/joulie-actuator")
_NOT_COPIED: Final = frozenset({"tests", "__pycache__"})
#: Increment the number when `_bootstrap` changes.
_BASE: Final = "joulie-base:bookworm-2"
#: What debootstrap copies from this machine, and caches that name the files of this file system.
_OF_THIS_MACHINE: Final = ("etc/hostname", "etc/resolv.conf", "etc/machine-id", "var/cache/ldconfig/aux-cache")
#: Directories that Debian's slim image omits.
_UNSLIM: Final = ("usr/share/doc", "usr/share/man", "usr/share/info", "usr/share/locale", "usr/share/lintian")
_MAX_ARCHIVES: Final = 3
_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
_PIP_OPTIONS: Final = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "default-timeout", "retries")


def images_home() -> Path:
    """Return the directory of archives, base image and engine data: `joulie/images` in the user's cache."""
    return cache_home().parent / "images"


def image_name(service: str) -> str:
    """Return the full name of a service's image; the tag is the version of the service."""
    return f"docker.io/joulie/{service}:{_version(service)}"


def save_image(service: str, reporter: Reporter | None = None) -> Path:
    """Return an archive of a service's image in the format of `docker save`; build it if it does not exist.

    Raises:
        EngineError: the archive does not exist and cannot be built; the message states what to install.
    """
    archive = archive_path(service)
    if not archive.exists():
        with image_builder(SilentReporter() if reporter is None else reporter) as builder:
            builder.save(service)
    return archive


def archive_path(service: str) -> Path:
    """Return the path of the archive of a service's image for this checkout, whether or not it exists."""
    return images_home() / f"{service}-{image_digest(service)}.tar"


@contextmanager
def image_builder(reporter: Reporter, base: str | None = None) -> Iterator["ImageBuilder"]:
    """Yield a builder on the engine at DOCKER_HOST or, if that is not set, on a private engine.

    Args:
        reporter: receives progress messages.
        base: base image for the engine at DOCKER_HOST in place of the Dockerfile's; a private one bootstraps its own.

    Raises:
        EngineError: the engine does not respond or cannot be started.
    """
    if os.environ.get("DOCKER_HOST"):
        yield ImageBuilder(user_engine(), reporter, base)
        return
    with private_engine(images_home() / "engine", reporter) as engine:
        if not engine.has_image(_BASE):
            engine.run("import", str(_bootstrap(reporter)), _BASE)
        yield ImageBuilder(engine, reporter, _BASE, uses_host_network=True)


@dataclass(frozen=True, slots=True)
class ImageBuilder:
    """Builds images with an engine.

    Attributes:
        engine: engine that builds and stores the images.
        reporter: receives progress messages.
        base: base image that replaces the Dockerfile's.
        uses_host_network: whether steps of a build use the host's network, since the engine has no other.
    """

    engine: Engine
    reporter: Reporter
    base: str | None = None
    uses_host_network: bool = False

    def build(self, service: str) -> str:
        """Build a service's image and return its name.

        Raises:
            EngineError: the build failed; the message contains the end of its output.
        """
        root, name = repository_root(), image_name(service)
        arguments = ["--file", str(root / "Dockerfile"), "--tag", name]
        arguments += ["--build-arg", f"SERVICE={service}", "--build-arg", f"VERSION={_version(service)}"]
        arguments += [text for proxy in _PROXIES if proxy in os.environ for text in ("--build-arg", proxy)]
        if self.base is not None:
            arguments += ["--build-arg", f"BASE={self.base}"]
        if self.uses_host_network:
            arguments += ["--network", "host"]
        self.reporter.begin(f"image {name}")
        with _secrets() as secrets:
            self.engine.run("build", *arguments, *secrets, str(root))
        self.reporter.finish()
        return name

    def save(self, service: str) -> Path:
        """Return an archive of a service's image; build it if it does not exist."""
        archive = archive_path(service)
        if archive.exists():
            return archive
        name = self.build(service)
        # A private engine has one user at a time, the engine at DOCKER_HOST may have several.
        partial = archive.with_suffix(f".partial-{os.getpid()}")
        archive.parent.mkdir(parents=True, exist_ok=True)
        try:
            self.engine.run("save", "--output", str(partial), name)
            partial.replace(archive)
        finally:
            partial.unlink(missing_ok=True)
        _prune_archives(archive.parent, service)
        return archive


@contextmanager
def _secrets() -> Iterator[list[str]]:
    """Yield build options that pass the user's pip settings and CA bundle as secrets, which no image layer contains."""
    arguments = []
    bundle = os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE")
    if bundle and Path(bundle).is_file():
        arguments += ["--secret", f"id=ca,src={bundle}"]
    # In a private directory: the address of an index may contain a password.
    with tempfile.TemporaryDirectory(prefix="joulie-build-") as directory:
        config = _pip_config()
        if config:
            path = Path(directory, "pip.conf")
            path.write_text("\n".join(["[global]", *config, ""]), encoding="utf-8")
            arguments += ["--secret", f"id=pip,src={path}"]
        yield arguments


def _pip_config() -> list[str]:
    """Return pip.conf lines with the index settings of the user's pip files and environment."""
    listing = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    )
    values = {}
    for line in listing.stdout.splitlines():
        key, _, value = line.partition("=")
        option = key.rpartition(".")[2]
        if option in _PIP_OPTIONS:
            values[option.removeprefix("default-")] = value.strip("'\"").replace("\\n", "\n  ")
    return [f"{option} = {value}" for option, value in values.items()]


def _prune_archives(home: Path, service: str) -> None:
    archives = sorted(home.glob(f"{service}-*.tar"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in archives[_MAX_ARCHIVES:]:
        path.unlink(missing_ok=True)


def _bootstrap(reporter: Reporter) -> Path:
    """Return an archive of a minimal Debian 12, like the official slim image; create it if it does not exist."""
    archive = images_home() / f"{_BASE.replace(':', '-')}.tar"
    if archive.exists():
        return archive
    if shutil.which("debootstrap", path=f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin") is None:
        raise EngineError(f"debootstrap not found: {INSTALL}")
    reporter.begin("base image from Debian's packages")
    images_home().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="base-", dir=images_home()) as directory:
        root, partial = Path(directory, "root"), Path(directory, "base.tar")
        run("debootstrap", "--variant=minbase", "bookworm", str(root))
        for part in _UNSLIM:
            shutil.rmtree(root / part, ignore_errors=True)
        for part in _OF_THIS_MACHINE:
            (root / part).unlink(missing_ok=True)
        for part in ("var/cache/apt/archives", "var/lib/apt/lists", "var/log"):
            for path in (root / part).rglob("*"):
                if path.is_file():
                    path.unlink()
        excluded = "".join(f"path-exclude /{part}/*\n" for part in _UNSLIM)
        (root / "etc/dpkg/dpkg.cfg.d/slim").write_text(excluded, encoding="ascii")
        run("tar", "--numeric-owner", "--create", "--file", str(partial), "--directory", str(root), ".")
        partial.replace(archive)
    reporter.finish()
    return archive


def repository_root() -> Path:
    """Return the root of the checkout.

    Raises:
        EngineError: this package is not in a checkout.
    """
    root = Path(__file__).resolve().parents[5]
    if not (root / "Dockerfile").exists():
        raise EngineError(f"images can only be built in a checkout, and {root} is not one")
    return root


def _version(service: str) -> str:
    if service not in SERVICES:
        raise EngineError(f"unknown service {service!r}: must be one of {', '.join(SERVICES)}")
    project = tomllib.loads((repository_root() / "services" / service / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    return str(project["version"])


def image_digest(service: str) -> str:
    """Return a digest of all files that the build of a service reads."""
    root = repository_root()
    member = f"services/{service}"
    files = [".dockerignore", "Dockerfile", "requirements/build.txt", f"requirements/{service}.txt"]
    for directory in (*_LIBRARIES, member):
        files.append(f"{directory}/pyproject.toml")
        sources = (path.relative_to(root) for path in (root / directory / "src").rglob("*") if path.is_file())
        files += [str(path) for path in sources if not _NOT_COPIED.intersection(path.parts)]
    digest = hashlib.sha256(_BASE.encode())
    for name in sorted(files):
        digest.update(f"{name}\0".encode() + hashlib.sha256((root / name).read_bytes()).digest())
    return digest.hexdigest()[:16]


def main(argv: list[str] | None = None) -> int:
    """Build images of services on docker's engine. Without one, build on a private engine and save archives."""
    parser = argparse.ArgumentParser(prog="python -m joulie_devcluster.containers.images", description=main.__doc__)
    parser.add_argument("service", nargs="+", choices=SERVICES, help="services to build")
    parser.add_argument("--save", action="store_true", help="also save archives of images on docker's engine")
    options = parser.parse_args(argv)
    try:
        with terminal_reporter() as reporter, _any_builder(reporter) as (builder, is_private):
            for service in options.service:
                name = builder.build(service)
                sys.stdout.write(f"{name}  {builder.engine.size_bytes(name) / 1e6:.0f} MB\n")
                if is_private or options.save:
                    sys.stdout.write(f"  {builder.save(service)}\n")
    except EngineError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


@contextmanager
def _any_builder(reporter: Reporter) -> Iterator[tuple[ImageBuilder, bool]]:
    """Yield a builder on the user's engine or else on a private one, and whether it is a private one."""
    try:
        builder = ImageBuilder(user_engine(), reporter)
    except EngineError as error:
        obstacle = private_engine_obstacle()
        if obstacle is not None or os.environ.get("DOCKER_HOST"):
            raise
        reporter.note(f"{error}; building on a private engine and saving archives")
    else:
        yield builder, False
        return
    with image_builder(reporter) as builder:
        yield builder, True


if __name__ == "__main__":
    sys.exit(main())
