"""The versions of members and chart, and what contradicts a release of them."""

import re
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from packaging.requirements import Requirement
from packaging.version import InvalidVersion, Version

CHART: Final = Path("helm/joulie")
_HEADING: Final = re.compile(r"^## (?P<title>.+?)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Member:
    """A library or service.

    Attributes:
        path: directory, relative to the repository's root.
        requires: what it requires, other members included.
        changelog: the text of its CHANGELOG.md.
    """

    path: Path
    name: str
    version: str
    requires: tuple[Requirement, ...]
    changelog: str

    @property
    def is_service(self) -> bool:
        """Whether it has an image."""
        return self.path.parts[0] == "services"


def read_members(root: Path) -> list[Member]:
    """Read all members of the workspace, libraries first, by name."""
    paths = [path.parent for directory in ("libs", "services") for path in (root / directory).glob("*/pyproject.toml")]
    return [_member(root, path.relative_to(root)) for path in sorted(paths)]


def section(changelog: str, version: str) -> str | None:
    """Return the entries of a version in a changelog, without the heading; None if it has no such section."""
    headings = [*_HEADING.finditer(changelog)]
    for heading, following in zip(headings, [*headings[1:], None], strict=True):
        if heading["title"] == version:
            return changelog[heading.end() : following.start() if following else None].strip()
    return None


def release_notes(name: str, members: list[Member]) -> str:
    """Return the notes of a release, Markdown: what each member changed, services first.

    Args:
        name: of the release, such as joulie-1.4.0.
        members: whose changelogs have a section of their version.
    """
    parts = [f"# {name}", "What changed, by part. Read docs/upgrade.md before you install it."]
    for member in sorted(members, key=lambda each: (not each.is_service, each.path)):
        parts += [f"## {member.name} {member.version}", section(member.changelog, member.version) or ""]
    return "\n\n".join(part for part in parts if part) + "\n"


def problems(root: Path, version: str, members: list[Member]) -> Iterator[str]:
    """Yield what contradicts a release of the chart's `version`, each with file, value and way out."""
    try:
        is_release = str(Version(version)) == version and re.fullmatch(r"\d+\.\d+\.\d+", version) is not None
    except InvalidVersion:
        is_release = False
    if not is_release:
        yield f"version {version!r}: must be MAJOR.MINOR.PATCH, such as 1.4.0"
    chart = str(_yaml(root / CHART / "Chart.yaml")["version"])
    if chart != version:
        yield f"{CHART}/Chart.yaml: version is {chart}, not {version}: change it, or release {chart}"
    for member in members:
        yield from _changelog_problems(member)
        yield from _requirement_problems(member, members)
    yield from _tag_problems(root, members)


def uncommitted(root: Path) -> list[str]:
    """Return the paths that differ from the commit, as `git status` shows them."""
    return _git(root, "status", "--porcelain").splitlines()


def commit_time_s(root: Path) -> int:
    """Return the time of the commit, in seconds since the epoch."""
    return int(_git(root, "log", "-1", "--format=%ct"))


def _member(root: Path, path: Path) -> Member:
    project = tomllib.loads((root / path / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requires = tuple(Requirement(each) for each in project["dependencies"])
    changelog = (root / path / "CHANGELOG.md").read_text(encoding="utf-8")
    return Member(path, project["name"], project["version"], requires, changelog)


def _changelog_problems(member: Member) -> Iterator[str]:
    first = _HEADING.search(member.changelog)
    title = first["title"] if first else "nothing"
    if title != member.version:
        yield (
            f"{member.path}/CHANGELOG.md: begins with {title}, and the version in {member.path}/pyproject.toml is"
            f" {member.version}: give the member its new version, and the section that version as its heading"
        )


def _requirement_problems(member: Member, members: list[Member]) -> Iterator[str]:
    versions = {each.name: each.version for each in members}
    for required in member.requires:
        version = versions.get(required.name)
        if version is not None and version not in required.specifier:
            yield (
                f"{member.path}/pyproject.toml: requires {required}, and {required.name} is {version}:"
                " change the range and try the member with it"
            )


def _tag_problems(root: Path, members: list[Member]) -> Iterator[str]:
    values = _yaml(root / CHART / "values.yaml")
    for member in members:
        if member.is_service:
            key, version = member.path.name, member.version
            tag = values[key]["image"]["tag"]
            if tag != version:
                yield f"{CHART}/values.yaml: {key}.image.tag is {tag}, and {member.name} is {version}: change the tag"


def _yaml(path: Path) -> dict[str, Any]:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise TypeError(f"{path}: must be a mapping")
    return content


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", str(root), *arguments], check=True, capture_output=True, text=True).stdout
