"""The pages that explain Joulie name all of it: every kind, key of a label, annotation or taint, service and member."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from joulie_core import labels

ROOT = Path(__file__).parents[2]
KINDS = sorted(
    yaml.safe_load(path.read_text())["spec"]["names"]["kind"] for path in ROOT.glob("helm/joulie/crds/*.yaml")
)
#: The keys that are Joulie's own.
KEYS = sorted(
    value
    for name, value in vars(labels).items()
    if isinstance(value, str) and name.isupper() and value.startswith(labels.PREFIX) and value != labels.PREFIX
)
SERVICES = sorted(path.parent.name for path in ROOT.glob("services/*/pyproject.toml"))
MEMBERS = [
    str(Path(path).relative_to(ROOT).parent)
    for pattern in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["uv"]["workspace"]["members"]
    for path in ROOT.glob(f"{pattern}/pyproject.toml")
]
CONVENTIONS = "docs/decisions/0013-conventions.md"
ARCHITECTURE = "docs/architecture.md"


def words(page):
    """Return the text of a page, with `joulie.io/hw.{a,b}` written out."""
    text = (ROOT / page).read_text()
    for found in re.findall(r"([\w./-]+)\{([\w,-]+)\}", text):
        text += "".join(f" {found[0]}{each} " for each in found[1].split(","))
    return text


def test_there_is_something_to_look_for():
    assert (len(KINDS), len(SERVICES)) == (13, 6)
    assert {labels.MANAGED, labels.ASLEEP_TAINT, labels.HW_KIND} <= set(KEYS)
    assert "services/outofband" in MEMBERS


@pytest.mark.parametrize("page", [ARCHITECTURE, CONVENTIONS])
@pytest.mark.parametrize("kind", KINDS)
def test_a_page_about_all_of_joulie_names_every_kind(page, kind):
    assert re.search(rf"\b{kind}\b", words(page))


@pytest.mark.parametrize("key", KEYS)
def test_the_conventions_name_every_key(key):
    assert re.search(rf"{re.escape(key)}(?![\w.-])", words(CONVENTIONS))


@pytest.mark.parametrize("service", SERVICES)
def test_every_service_is_in_the_picture_of_the_architecture_and_explains_itself(service):
    assert f"joulie-{service}" in words(ARCHITECTURE)
    assert (ROOT / "services" / service / "README.md").is_file()


@pytest.mark.parametrize("member", MEMBERS)
def test_every_member_is_among_the_packages(member):
    assert f"| `{member}` |" in words(ARCHITECTURE)


@pytest.mark.parametrize("service", SERVICES)
def test_a_readme_names_modules_that_exist(service):
    readme = (ROOT / "services" / service / "README.md").read_text()
    package = ROOT / "services" / service / "src" / f"joulie_{service}"
    rows = "".join(line for line in readme.splitlines(keepends=True) if line.startswith("| "))
    names = re.findall(r"`([a-z_]+)\*?`", rows)
    assert names
    assert [name for name in names if not any(package.glob(f"{name}*"))] == []


@pytest.mark.parametrize(
    ("image", "ports"),
    [
        ("operator", "8081"),
        ("agent", "8080"),
        ("containers", "8082 8085"),
        ("extender", "9876 9877"),
        ("outofband", "8084"),
        ("ven", "8087"),
    ],
)
def test_an_image_exposes_the_ports_that_its_service_listens_on(image, ports):
    stage = (ROOT / "Dockerfile").read_text().partition(f"FROM service AS {image}\n")[2].partition("\nFROM ")[0]
    assert f"\nEXPOSE {ports}\n" in f"\n{stage}\n"
