"""Images of a release: an engine runs what was rewritten, and two builds from nothing have the same bytes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tools.release.image import rewrite_image
from tools.release.members import read_members

from joulie_devcluster.containers.engine import private_engine_obstacle
from joulie_devcluster.containers.images import image_name

ROOT = Path(__file__).parents[2]
SERVICE = "extender"


@pytest.mark.docker
def test_an_engine_loads_and_runs_a_rewritten_image(engine, tmp_path):
    name = image_name(SERVICE)
    (built,) = json.loads(engine.run("image", "inspect", name))
    engine.run("save", "--output", str(tmp_path / "saved.tar"), name)
    rewrite_image(tmp_path / "saved.tar", tmp_path / "rewritten.tar", created_s=1_700_000_000)
    try:
        engine.run("load", "--input", str(tmp_path / "rewritten.tar"))
        (loaded,) = json.loads(engine.run("image", "inspect", name))
        assert loaded["Created"] == "2023-11-14T22:13:20Z"
        assert loaded["Config"]["Entrypoint"] == built["Config"]["Entrypoint"]
        assert loaded["Config"]["Labels"] == built["Config"]["Labels"]
        assert "usage: joulie-extender" in engine.run("run", "--rm", "--network", "none", "--read-only", name, "--help")
    finally:
        engine.run("tag", built["Id"], name)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_release_from_nothing_has_the_same_bytes_twice(tmp_path):
    obstacle = private_engine_obstacle()
    if obstacle is not None:
        pytest.skip(obstacle)
    first, second = (release(tmp_path / each) for each in ("first", "second"))
    assert first == second
    assert len(first.splitlines()) == 2 * 4 + len(read_members(ROOT)) + 2


def release(home: Path) -> str:
    """Release a copy of this commit whose changelogs have their versions, with an empty cache; return its checksums."""
    copy = home / "joulie"
    git(ROOT, "clone", "--quiet", str(ROOT), str(copy))
    for member in read_members(copy):
        changelog = copy / member.path / "CHANGELOG.md"
        changelog.write_text(changelog.read_text().replace("## Unreleased", f"## {member.version}", 1))
    commit = ("-c", "user.name=n", "-c", "user.email=e", "commit", "--quiet", "--all", "--message", "Release")
    git(copy, *commit)
    sources = [str(path) for path in [*copy.glob("libs/*/src"), *copy.glob("services/*/src")]]
    environment = {
        **{key: value for key, value in os.environ.items() if key != "DOCKER_HOST"},
        "PYTHONPATH": os.pathsep.join(sources),
        "XDG_CACHE_HOME": str(home / "cache"),
    }
    version = "0.1.0"
    subprocess.run([sys.executable, "-m", "tools.release", version], cwd=copy, env=environment, check=True)
    return (copy / "out" / "release" / f"joulie-{version}" / "SHA256SUMS").read_text()


def git(directory: Path, *arguments: str) -> None:
    date = "2026-01-02T03:04:05Z"
    environment = {**os.environ, "GIT_COMMITTER_DATE": date, "GIT_AUTHOR_DATE": date, "GIT_CONFIG_GLOBAL": "/dev/null"}
    subprocess.run(["git", "-C", str(directory), *arguments], check=True, env=environment)
