"""Make a release of the commit that is checked out.

python -m tools.release VERSION [--base NAME@sha256:DIGEST]
python -m tools.release --lock-debian
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tools.release.image import package_chart, rewrite_image
from tools.release.members import CHART, Member, commit_time_s, problems, read_members, release_notes, uncommitted
from tools.sbom import bill_of_materials

from joulie_devcluster.containers.images import ImageBuilder, image_builder, repository_root
from joulie_devcluster.errors import EngineError
from joulie_devcluster.host.progress import Reporter, terminal_reporter

DEBIAN: Final = Path("requirements/debian.txt")
_HOME: Final = Path("out/release")


def main(arguments: list[str] | None = None) -> int:
    """Make the files of a release in out/release/joulie-VERSION: images, chart, wheels, notes and checksums."""
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=main.__doc__)
    parser.add_argument("version", nargs="?", help="version of the chart, such as 1.4.0")
    parser.add_argument("--base", help="base image with its digest, for an engine that pulls: NAME@sha256:DIGEST")
    parser.add_argument(
        "--lock-debian", action="store_true", help=f"write the Debian packages of today's images to {DEBIAN} instead"
    )
    options = parser.parse_args(arguments)
    if (options.version is None) is not options.lock_debian:
        parser.error("give either a version or --lock-debian")
    root = repository_root()
    members = read_members(root)
    if options.version is not None:
        found = [*_tree_problems(root), *_base_problems(options.base), *problems(root, options.version, members)]
        target = root / _HOME / f"joulie-{options.version}"
        if target.exists():
            found.append(f"{target.relative_to(root)}: is there already: remove it to make the release again")
        if found:
            sys.stderr.writelines(f"{each}\n" for each in found)
            return 1
    try:
        with terminal_reporter() as reporter:
            if options.version is None:
                _lock_debian(root, options.base, reporter)
            else:
                _release(root, members, options.base, target, reporter)
    except EngineError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def debian_differences(pinned: str, bill: str) -> Iterator[str]:
    """Yield how the Debian packages of a bill of materials differ from the pinned ones.

    Args:
        pinned: a line NAME=VERSION for each package.
        bill: the bill of materials, CycloneDX in JSON.
    """
    wanted, found = dict(line.split("=", 1) for line in pinned.split()), _debian_packages(bill)
    for name in sorted(wanted.keys() | found.keys()):
        if wanted.get(name) != found.get(name):
            yield f"{name}: {found.get(name, 'absent')}, pinned {wanted.get(name, 'nowhere')}"


def _release(root: Path, members: list[Member], base: str | None, target: Path, reporter: Reporter) -> None:
    created_s = commit_time_s(root)
    with _complete(target) as directory:
        _wheels(root, members, directory, created_s, reporter)
        package_chart(root / CHART, directory / f"{target.name}.tgz", created_s=created_s)
        pinned = (root / DEBIAN).read_text(encoding="ascii")
        with image_builder(reporter, base) as builder:
            for member in members:
                if member.is_service:
                    _image(builder, member, pinned, directory, created_s)
        (directory / "NOTES.md").write_text(release_notes(target.name, members), encoding="utf-8")
        sums = "".join(f"{_sha256(path)}  {path.name}\n" for path in sorted(directory.iterdir()))
        (directory / "SHA256SUMS").write_text(sums, encoding="ascii")
    sys.stdout.writelines(f"{path}\n" for path in sorted(target.iterdir()))


@contextmanager
def _complete(target: Path) -> Iterator[Path]:
    """Yield a directory that becomes the target if the block succeeds."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".partial-", dir=target.parent) as partial:
        directory = Path(partial, target.name)
        directory.mkdir()
        yield directory
        directory.rename(target)


def _wheels(root: Path, members: list[Member], directory: Path, created_s: int, reporter: Reporter) -> None:
    reporter.begin("wheels")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    paths = [str(root / member.path) for member in members]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(created_s)}
    subprocess.run([*command, "--wheel-dir", str(directory), *paths], check=True, env=environment)
    reporter.finish()


def _image(builder: ImageBuilder, member: Member, pinned: str, directory: Path, created_s: int) -> None:
    archive = directory / f"{member.name}-{member.version}.tar"
    with tempfile.TemporaryDirectory(dir=directory.parent) as temporary:
        saved = Path(temporary, "image.tar")
        builder.engine.run("save", "--output", str(saved), builder.build(member.path.name))
        rewrite_image(saved, archive, created_s=created_s)
    bill = bill_of_materials(archive)
    differences = [*debian_differences(pinned, bill)]
    if differences:
        listed = "\n".join(f"  {each}" for each in differences)
        raise EngineError(
            f"{member.name}: Debian packages differ from {DEBIAN}:\n{listed}\n"
            "build with a mirror that has the pinned versions, or review and commit the present ones:"
            " python -m tools.release --lock-debian"
        )
    archive.with_name(f"{member.name}-{member.version}.cdx.json").write_text(bill, encoding="utf-8")


def _lock_debian(root: Path, base: str | None, reporter: Reporter) -> None:
    with tempfile.TemporaryDirectory() as directory, image_builder(reporter, base) as builder:
        archive = Path(directory, "image.tar")
        builder.engine.run("save", "--output", str(archive), builder.build("operator"))
        packages = _debian_packages(bill_of_materials(archive))
    lines = "".join(f"{name}={version}\n" for name, version in sorted(packages.items()))
    (root / DEBIAN).write_text(lines, encoding="ascii")


def _debian_packages(bill: str) -> dict[str, str]:
    components = json.loads(bill)["components"]
    return {each["name"]: each["version"] for each in components if each["purl"].startswith("pkg:deb/")}


def _tree_problems(root: Path) -> Iterator[str]:
    changed = uncommitted(root)
    if changed:
        yield f"{len(changed)} files differ from the commit ({changed[0].strip()} ...): commit or remove them"


def _base_problems(base: str | None) -> Iterator[str]:
    if base is not None and "@sha256:" not in base:
        yield f"--base {base}: has no digest, so that its content can change: give NAME@sha256:DIGEST"
    if os.environ.get("DOCKER_HOST") and base is None:
        yield "--base is missing: the engine at DOCKER_HOST would take whatever its tag means today"
    if base is not None and not os.environ.get("DOCKER_HOST"):
        yield f"--base {base}: only an engine at DOCKER_HOST pulls images; the private one bootstraps its base"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    sys.exit(main())
