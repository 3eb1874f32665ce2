import shutil
from pathlib import Path

import pytest

from joulie_devcluster.containers import images
from joulie_devcluster.containers.images import SERVICES, archive_path, image_name
from joulie_devcluster.errors import EngineError

ROOT = Path(__file__).parents[4]
COPIED = ["libs/joulie-core", "libs/joulie-api", "libs/joulie-actuator", "services/agent", "requirements"]


@pytest.fixture
def checkout(monkeypatch, tmp_path):
    """A copy of the sources of the agent's image that a test may change."""
    for name in COPIED:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", ".venv"))
    for name in (".dockerignore", "Dockerfile"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    monkeypatch.setattr(images, "repository_root", lambda: tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "name",
    [
        "Dockerfile",
        "requirements/agent.txt",
        "requirements/build.txt",
        "services/agent/src/joulie_agent/app.py",
        "libs/joulie-core/src/joulie_core/hardware/inventory.toml",
        "libs/joulie-api/pyproject.toml",
        "libs/joulie-actuator/src/joulie_actuator/process.py",
    ],
)
def test_an_archive_gets_another_name_when_a_file_changes_that_the_build_reads(checkout, name):
    before = archive_path("agent")
    with (checkout / name).open("a") as file:
        file.write("\n")
    assert archive_path("agent") != before


@pytest.mark.parametrize(
    "name",
    [
        "services/agent/tests/test_new.py",
        "libs/joulie-testing/src/joulie_testing/api/new.py",
        "libs/joulie-api/src/joulie_api/__pycache__/new.pyc",
        "requirements/dev.txt",
    ],
)
def test_an_archive_keeps_its_name_when_another_file_changes(checkout, name):
    before = archive_path("agent")
    (checkout / name).parent.mkdir(exist_ok=True, parents=True)
    with (checkout / name).open("a") as file:
        file.write("\n")
    assert archive_path("agent") == before


def test_an_image_is_tagged_with_the_version_of_its_service():
    assert {image_name(service).rpartition(":")[0] for service in SERVICES} == {
        f"docker.io/joulie/{service}" for service in ("operator", "agent", "containers", "extender", "outofband", "ven")
    }
    with pytest.raises(EngineError, match="one of operator, agent, containers, extender, outofband, ven"):
        image_name("sim")


def test_only_the_settings_of_the_package_index_are_passed_to_the_build(monkeypatch, tmp_path):
    config = tmp_path / "pip.conf"
    config.write_text("[global]\nindex-url = https://user:word@mirror.example/simple\nfind-links = /here/only\n")
    bundle = tmp_path / "bundle.pem"
    bundle.write_text("certificates")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
    monkeypatch.setenv("PIP_TIMEOUT", "60")
    monkeypatch.setenv("PIP_CERT", str(bundle))
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    with images._secrets() as arguments:
        assert f"id=ca,src={bundle}" in arguments
        (path,) = [text.partition("src=")[2] for text in arguments if text.startswith("id=pip")]
        lines = Path(path).read_text().splitlines()
        assert "index-url = https://user:word@mirror.example/simple" in lines
        assert "timeout = 60" in lines
        assert not any("find-links" in line for line in lines)
    assert not Path(path).exists()


def test_the_oldest_archives_are_removed(tmp_path):
    for number in range(5):
        path = tmp_path / f"agent-{number}.tar"
        path.touch()
        path.chmod(0o600)
    (tmp_path / "operator-0.tar").touch()
    images._prune_archives(tmp_path, "agent")
    assert len(list(tmp_path.glob("agent-*.tar"))) == 3
    assert (tmp_path / "operator-0.tar").exists()
