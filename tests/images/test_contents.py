"""What is in the images, and what is not."""

import functools
import json
import tarfile
import tomllib
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from tools.image_archive import read_image, set_id_files, shells
from tools.sbom import bill_of_materials

from joulie_devcluster.containers.images import SERVICES, image_name, save_image

pytestmark = pytest.mark.docker

ROOT = Path(__file__).parents[2]
#: Debian's slim image has 75 MB, Python 30, kubernetes_asyncio with its models 48; gRPC and protobuf of container
#: resources, and of the holders of devices, 21.
LARGEST_MB = {"operator": 220, "agent": 240, "containers": 240, "extender": 220, "outofband": 220, "ven": 220}
#: Walks the root filesystem without leaving it; no `find` is needed.
LIST_FILES = """
import os
for directory, below, names in os.walk("/"):
    if directory in ("/proc", "/sys", "/dev"):
        below.clear()
    for name in names:
        print(os.path.join(directory, name))
"""
NOT_COMPILED = """
import importlib.util, pathlib, sysconfig
place = pathlib.Path(sysconfig.get_path("purelib"))
for source in place.glob("joulie_*/**/*.py"):
    if not pathlib.Path(importlib.util.cache_from_source(source)).exists():
        print(source)
"""


@pytest.fixture(params=SERVICES)
def service(request):
    return request.param


@pytest.fixture
def image(engine, service):
    return json.loads(engine.run("image", "inspect", image_name(service)))[0]


async def python(start, service, code, **options):
    running = await start(service, "-c", code, entrypoint=["/opt/joulie/bin/python"], **options)
    assert await running.end() == 0, await running.log()
    return (await running.log()).splitlines()


def test_an_image_runs_its_service_unprivileged_and_names_its_version(image, service):
    project = tomllib.loads((ROOT / "services" / service / "pyproject.toml").read_text())["project"]
    config = image["Config"]
    assert (config["User"], config["Entrypoint"], config["Cmd"]) == ("65532:65532", [f"joulie-{service}"], None)
    assert config["Labels"]["org.opencontainers.image.version"] == project["version"]
    assert config["Labels"]["org.opencontainers.image.title"] == f"joulie-{service}"


def test_an_image_is_no_larger_than_its_parts(image, service, engine):
    size_mb = engine.size_bytes(image_name(service)) / 1e6
    print(f"{image_name(service)}: {size_mb:.0f} MB")
    assert 100 < size_mb < LARGEST_MB[service]


def test_no_package_index_is_recorded_in_the_image(image, service, engine):
    history = engine.run("history", "--no-trunc", "--format", "{{.CreatedBy}}", image_name(service))
    assert "joulie" in history
    for word in ("://", "index", "secret", "proxy"):
        assert word not in history.lower()
    assert {entry.partition("=")[0] for entry in image["Config"]["Env"]} == {"PATH", "PYTHONDONTWRITEBYTECODE"}


async def test_no_tools_tests_or_build_files_are_in_the_image(start, service):
    files = await python(start, service, LIST_FILES, user="0:0")
    names = {Path(file).name for file in files}
    assert f"joulie-{service}" in names
    assert names.isdisjoint({"pip", "pip3", "uv", "git", "cc", "gcc", "make", "pytest", "pip.conf", "direct_url.json"})
    packages = [file for file in files if file.startswith("/opt/joulie/lib/") and "/joulie_" in file]
    assert any(file.endswith("/app.py") for file in packages)
    assert [file for file in packages if "/tests/" in file] == []
    assert [file for file in files if file.startswith(("/src", "/build", "/wheels", "/run/secrets", "/root/."))] == [
        "/root/.bashrc",
        "/root/.profile",
    ]
    others = {f"joulie_{other}" for other in (*SERVICES, "sim", "testing", "devcluster")} - {f"joulie_{service}"}
    if service not in {"agent", "containers"}:
        others.add("joulie_actuator")
    assert {Path(file).parts[6] for file in packages}.isdisjoint(others)


@pytest.fixture(scope="module")
def archive(builder):
    """The archive of an image, saved once."""
    return functools.cache(builder.save)


def test_no_file_of_the_image_gives_rights_and_there_is_no_shell(archive, service):
    image = read_image(archive(service))
    assert f"/opt/joulie/bin/joulie-{service}" in image.files
    assert set_id_files(image) == []
    assert shells(image) == []


def test_the_bill_of_materials_has_the_services_own_packages_and_is_valid(archive, service):
    bill = bill_of_materials(archive(service))
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill) is None
    names = {each["name"].replace("_", "-") for each in json.loads(bill)["components"]}
    assert {"libc6", "python3", "joulie-core", "joulie-api", f"joulie-{service}", "aiohttp"} <= names


async def test_modules_are_compiled_for_the_read_only_file_system(start, service):
    assert await python(start, service, NOT_COMPILED) == []


async def test_the_command_prints_its_version(start, service):
    running = await start(service, "--version")
    assert await running.end() == 0
    version = tomllib.loads((ROOT / "services" / service / "pyproject.toml").read_text())["project"]["version"]
    assert await running.log() == f"joulie-{service} {version}\n"


def test_an_archive_is_saved_once_under_the_name_that_pods_use(builder, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    archive = builder.save("extender")
    assert archive.parent == tmp_path / "joulie" / "images"
    with tarfile.open(archive) as opened:
        manifest = json.load(opened.extractfile("manifest.json"))
    assert manifest[0]["RepoTags"] == [image_name("extender").removeprefix("docker.io/")]
    written = archive.stat().st_mtime_ns
    assert save_image("extender") == archive
    assert archive.stat().st_mtime_ns == written
