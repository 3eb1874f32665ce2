"""A release: what contradicts it, its notes, and archives that have the same bytes each time."""

import hashlib
import io
import json
import subprocess
import tarfile

import pytest
from tools.image_archive import read_image
from tools.release.__main__ import debian_differences, main
from tools.release.image import package_chart, rewrite_image
from tools.release.members import commit_time_s, problems, read_members, release_notes, section, uncommitted

COMMIT_S = 1_700_000_000
CHANGELOG = "# joulie-x\n\n## 0.2.0\n\n- New.\n\n## 0.1.0\n\n- Old.\n"


@pytest.fixture
def tree(tmp_path):
    """A workspace with a library, a service and a chart, all at 0.2.0, whose commit is COMMIT_S."""
    write(
        tmp_path,
        "libs/joulie-core/pyproject.toml",
        '[project]\nname = "joulie-core"\nversion = "0.2.0"\ndependencies = []',
    )
    write(
        tmp_path,
        "services/agent/pyproject.toml",
        '[project]\nname = "joulie-agent"\nversion = "0.2.0"\ndependencies = ["joulie-core>=0.2,<0.3", "aiohttp"]',
    )
    for member in ("libs/joulie-core", "services/agent"):
        write(tmp_path, f"{member}/CHANGELOG.md", CHANGELOG)
    write(tmp_path, "helm/joulie/Chart.yaml", "name: joulie\nversion: 0.2.0\n")
    write(tmp_path, "helm/joulie/values.yaml", "agent: {image: {tag: 0.2.0}}\n")
    return tmp_path


def write(root, name, text):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def found(tree, version="0.2.0"):
    return [*problems(tree, version, read_members(tree))]


def test_versions_that_agree_are_no_problem(tree):
    assert found(tree) == []
    assert [(each.name, each.is_service) for each in read_members(tree)] == [
        ("joulie-core", False),
        ("joulie-agent", True),
    ]


@pytest.mark.parametrize("version", ["1", "v0.2.0", "0.2.0-rc.1", "0.2.0+x", "latest", "00.2.0", ""])
def test_a_version_is_three_numbers(tree, version):
    assert f"version {version!r}: must be MAJOR.MINOR.PATCH, such as 1.4.0" in found(tree, version)


def test_the_version_is_that_of_the_chart(tree):
    assert found(tree, "0.3.0") == ["helm/joulie/Chart.yaml: version is 0.2.0, not 0.3.0: change it, or release 0.2.0"]


@pytest.mark.parametrize(
    ("changelog", "title"), [(CHANGELOG.replace("0.2.0", "Unreleased"), "Unreleased"), ("# joulie-x\n", "nothing")]
)
def test_nothing_is_released_that_has_no_section_of_its_version(tree, changelog, title):
    write(tree, "libs/joulie-core/CHANGELOG.md", changelog)
    (problem,) = found(tree)
    assert problem.startswith(f"libs/joulie-core/CHANGELOG.md: begins with {title}, and the version in ")


def test_members_require_the_versions_that_are_released(tree):
    text = (tree / "services/agent/pyproject.toml").read_text()
    write(tree, "services/agent/pyproject.toml", text.replace(">=0.2,<0.3", ">=0.1,<0.2"))
    (problem,) = found(tree)
    assert problem.startswith(
        "services/agent/pyproject.toml: requires joulie-core<0.2,>=0.1, and joulie-core is 0.2.0:"
    )


def test_the_chart_installs_the_versions_that_are_released(tree):
    write(tree, "helm/joulie/values.yaml", "agent: {image: {tag: 0.1.0}}\n")
    assert found(tree) == [
        "helm/joulie/values.yaml: agent.image.tag is 0.1.0, and joulie-agent is 0.2.0: change the tag"
    ]


def test_all_problems_are_named_at_once(tree):
    write(tree, "helm/joulie/values.yaml", "agent: {image: {tag: 0.1.0}}\n")
    write(tree, "services/agent/CHANGELOG.md", "")
    assert len(found(tree, "0.9.0")) == 3


def test_the_versions_of_this_repository_agree_but_for_changes_that_are_not_released(pytestconfig):
    members = read_members(pytestconfig.rootpath)
    left = [each for each in problems(pytestconfig.rootpath, "0.1.0", members) if "begins with Unreleased" not in each]
    assert left == []


def test_a_section_ends_at_the_next_version():
    assert section(CHANGELOG, "0.2.0") == "- New."
    assert section(CHANGELOG, "0.1.0") == "- Old."
    assert section(CHANGELOG, "0.1") is None


def test_notes_have_the_sections_of_the_versions_services_first(tree):
    assert release_notes("joulie-0.2.0", read_members(tree)) == (
        "# joulie-0.2.0\n\nWhat changed, by part. Read docs/upgrade.md before you install it.\n\n"
        "## joulie-agent 0.2.0\n\n- New.\n\n## joulie-core 0.2.0\n\n- New.\n"
    )


def test_the_commit_says_the_time_and_what_differs_from_it(tree):
    git(tree, "init", "--quiet")
    git(tree, "add", ".")
    git(tree, "-c", "user.name=n", "-c", "user.email=e", "commit", "--quiet", "--message", "First")
    assert (commit_time_s(tree), uncommitted(tree)) == (COMMIT_S, [])
    write(tree, "new", "")
    assert uncommitted(tree) == ["?? new"]


def git(tree, *arguments):
    environment = {"GIT_COMMITTER_DATE": f"{COMMIT_S} +0000", "GIT_CONFIG_GLOBAL": "/dev/null", "PATH": "/usr/bin:/bin"}
    subprocess.run(["git", "-C", str(tree), *arguments], check=True, env=environment)


# Archives


def layer(*files, mtime=COMMIT_S + 5, uname="root", compression=""):
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode=f"w:{compression}", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files:
            info = tarfile.TarInfo(name)
            info.mtime, info.uname, info.gname, info.mode = mtime, uname, uname, 0o640
            info.pax_headers = {"atime": "1.5", "SCHILY.xattr.security.capability": "cap"}
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        link = tarfile.TarInfo("link")
        link.type, link.linkname, link.mtime = tarfile.SYMTYPE, files[0][0], mtime
        archive.addfile(link)
    return written.getvalue()


def image(path, layers, created="2026-11-23T01:02:03.5Z", names="l"):
    config = {
        "created": created,
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": ["x"]},
        "container": created,
        "history": [{"created": created, "created_by": "RUN x"}],
        "rootfs": {"type": "layers", "diff_ids": [names]},
    }
    tars = {f"{names}{number}": content for number, content in enumerate(layers)}
    manifest = [{"Config": "c.json", "RepoTags": ["joulie/agent:0.1.0"], "Layers": [*tars]}]
    with tarfile.open(path, "w") as opened:
        for name, content in {**tars, "c.json": json.dumps(config), "manifest.json": json.dumps(manifest)}.items():
            data = content if isinstance(content, bytes) else content.encode()
            info = tarfile.TarInfo(name)
            info.size = len(data)
            opened.addfile(info, io.BytesIO(data))
    return path


def rewritten(tmp_path, source):
    target = tmp_path / "out.tar"
    rewrite_image(source, target, created_s=COMMIT_S)
    return target


def test_images_that_were_built_at_two_times_have_the_same_bytes(tmp_path):
    first = image(tmp_path / "1", [layer(("a", b"1"), mtime=COMMIT_S - 5), layer(("b", b"2"), mtime=COMMIT_S + 9.25)])
    second = image(
        tmp_path / "2",
        [layer(("a", b"1"), mtime=COMMIT_S + 77.5, uname="x"), layer(("b", b"2"), mtime=COMMIT_S, compression="gz")],
        created="2027-01-01T00:00:00Z",
        names="other",
    )
    assert rewritten(tmp_path, first).read_bytes() == rewritten(tmp_path, second).read_bytes()


@pytest.mark.parametrize("other", [layer(("a", b"2")), layer(("c", b"1"))])
def test_images_with_other_files_have_other_bytes(tmp_path, other):
    first = rewritten(tmp_path, image(tmp_path / "1", [layer(("a", b"1"))])).read_bytes()
    assert rewritten(tmp_path, image(tmp_path / "2", [other])).read_bytes() != first


def test_a_rewritten_image_is_the_image(tmp_path):
    target = rewritten(tmp_path, image(tmp_path / "1", [layer(("a", b"1")), layer(("a", b"1")), layer(("b", b"2"))]))
    read = read_image(target, wanted=lambda _path: True)
    assert read.name == "joulie/agent:0.1.0"
    assert {path: file.content for path, file in read.files.items()} == {"/a": b"1", "/b": b"2", "/link": None}
    with tarfile.open(target) as opened:
        (manifest,) = json.load(opened.extractfile("manifest.json"))
        config = opened.extractfile(manifest["Config"]).read()
        contents = [opened.extractfile(name).read() for name in manifest["Layers"]]
        with tarfile.open(fileobj=io.BytesIO(contents[0])) as written:
            member = written.getmember("a")
    assert manifest["Config"] == f"{hashlib.sha256(config).hexdigest()}.json"
    assert json.loads(config) == {
        "created": "2023-11-14T22:13:20Z",
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": ["x"]},
        "history": [{"created": "2023-11-14T22:13:20Z", "created_by": "RUN x"}],
        "rootfs": {
            "type": "layers",
            "diff_ids": [f"sha256:{hashlib.sha256(content).hexdigest()}" for content in contents],
        },
    }
    assert (member.mtime, member.mode) == (COMMIT_S, 0o640)
    assert member.pax_headers == {"SCHILY.xattr.security.capability": "cap"}


def test_a_chart_is_packaged_with_its_schema_and_the_same_bytes(tmp_path):
    written = []
    for name in ("first", "second"):
        chart = tmp_path / name / "joulie"
        for file in ("values.schema.json", "Chart.yaml", "crds/a.yaml"):
            write(chart, file, file)
        package_chart(chart, chart.with_suffix(".tgz"), created_s=COMMIT_S)
        written.append(chart.with_suffix(".tgz").read_bytes())
    assert written[0] == written[1]
    with tarfile.open(fileobj=io.BytesIO(written[0])) as opened:
        assert opened.getnames() == ["joulie/Chart.yaml", "joulie/crds/a.yaml", "joulie/values.schema.json"]


# Debian's packages and the command


def test_each_debian_package_that_differs_is_named_with_both_versions():
    components = [
        ("deb/debian/a", "a", "1"),
        ("deb/debian/b", "b", "2"),
        ("pypi/c", "c", "9"),
        ("deb/debian/d", "d", "4"),
    ]
    bill = json.dumps(
        {
            "components": [
                {"purl": f"pkg:{url}@{version}", "name": name, "version": version} for url, name, version in components
            ]
        }
    )
    assert [*debian_differences("a=1\nb=1:2~x\ne=5\n", bill)] == [
        "b: 2, pinned 1:2~x",
        "d: 4, pinned nowhere",
        "e: absent, pinned 5",
    ]
    assert [*debian_differences("a=1\nb=2\nd=4\n", bill)] == []


def test_what_contradicts_a_release_is_named_before_anything_is_built(capsys, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    assert main(["99.0.0", "--base", "debian:bookworm-slim"]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert (
        "--base debian:bookworm-slim: has no digest, so that its content can change: give NAME@sha256:DIGEST" in errors
    )
    assert any(each.startswith("helm/joulie/Chart.yaml: version is ") for each in errors)


def test_an_engine_that_pulls_needs_the_digest_of_the_base(capsys, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    assert main(["99.0.0"]) == 1
    assert "--base is missing: the engine at DOCKER_HOST would take" in capsys.readouterr().err


def test_a_private_engine_pulls_no_base(capsys, monkeypatch):
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    assert main(["99.0.0", "--base", "debian@sha256:0"]) == 1
    assert "only an engine at DOCKER_HOST pulls images" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["0.1.0", "--lock-debian"]])
def test_the_command_does_one_thing(arguments, capsys):
    with pytest.raises(SystemExit):
        main(arguments)
    assert "give either a version or --lock-debian" in capsys.readouterr().err
