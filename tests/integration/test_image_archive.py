"""Reading archives of images: layers over each other, what they contain, and the bill of materials."""

import io
import json
import tarfile

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from tools.image_archive import ImageFile, read_image, set_id_files, shells
from tools.sbom import bill_of_materials, main

STATUS = b"""Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9

Package: gone
Status: deinstall ok config-files
Architecture: all
Version: 1
"""
METADATA = b"Metadata-Version: 2.4\nName: Some_Package\nVersion: 1.5\nLicense-Expression: MIT\n\nText: not a field"
SITE = "opt/joulie/lib/python3.11/site-packages"
PACKAGES = {"var/lib/dpkg/status": (0o644, STATUS), f"{SITE}/some_package-1.5.dist-info/METADATA": (0o644, METADATA)}


def add(archive, name, content, mode=0o644):
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), mode
    archive.addfile(info, io.BytesIO(content))


def layer(files, links=None, compression=""):
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode=f"w:{compression}") as archive:
        for name, (mode, content) in files.items():
            add(archive, name, content, mode)
        for name, target in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.mode = tarfile.SYMTYPE, target, 0o777
            archive.addfile(info)
    return written.getvalue()


@pytest.fixture
def archive(tmp_path):
    def make(*layers):
        path = tmp_path / "extender-0123.tar"
        names = [f"{number}/layer.tar" for number in range(len(layers))]
        config = {"created": "2026-11-23T01:02:03.123456789Z", "rootfs": {"diff_ids": names}}
        manifest = [{"Config": "c.json", "RepoTags": ["joulie/extender:0.1.0"], "Layers": names}]
        with tarfile.open(path, "w") as opened:
            add(opened, "manifest.json", json.dumps(manifest).encode())
            add(opened, "c.json", json.dumps(config).encode())
            for name, content in zip(names, layers, strict=True):
                add(opened, name, content)
        return path

    return make


def test_files_of_later_layers_replace_and_remove_those_of_earlier_ones(archive):
    first = layer({"./a": (0o644, b"1"), "b/c": (0o644, b""), "b/d": (0o644, b""), "e/f": (0o644, b"")})
    second = layer({"a": (0o600, b"2"), "b/.wh.c": (0o644, b""), "e/.wh..wh..opq": (0o644, b""), "e/g": (0o644, b"")})
    image = read_image(archive(first, second), wanted=lambda path: path == "/a")
    assert image.files == {
        "/a": ImageFile(0o600, is_regular=True, content=b"2"),
        "/b/d": ImageFile(0o644, is_regular=True),
        "/e/g": ImageFile(0o644, is_regular=True),
    }


def test_a_directory_that_is_removed_is_removed_with_its_files(archive):
    first = layer({"b/c": (0o644, b""), "b/d/e": (0o644, b""), "bc": (0o644, b"")}, compression="gz")
    assert read_image(archive(first, layer({".wh.b": (0o644, b"")}))).files.keys() == {"/bc"}


def test_files_with_the_rights_of_others_and_shells_are_found(archive):
    files = {"usr/bin/su": (0o4755, b""), "usr/bin/chage": (0o2755, b""), "usr/bin/dash": (0o755, b"")}
    image = read_image(archive(layer({**files, "etc/sh": (0o644, b"")}, {"usr/bin/sh": "dash"})))
    assert set_id_files(image) == ["/usr/bin/chage", "/usr/bin/su"]
    assert shells(image) == ["/usr/bin/dash", "/usr/bin/sh"]
    cleared = layer({"usr/bin/su": (0o755, b""), "usr/bin/.wh.dash": (0o644, b"")})
    image = read_image(archive(layer(files), cleared))
    assert set_id_files(image) == ["/usr/bin/chage"]
    assert shells(image) == []


def test_the_bill_has_every_installed_package_and_is_valid(archive):
    made = archive(layer(PACKAGES))
    bill = bill_of_materials(made)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill) is None
    found = json.loads(bill)
    assert found["metadata"]["component"]["name"] == "joulie/extender"
    assert found["metadata"]["timestamp"] == "2026-11-23T01:02:03.123456+00:00"
    assert {each["purl"]: each.get("licenses") for each in found["components"]} == {
        "pkg:deb/debian/libc6@2.36-9?arch=amd64&distro=bookworm": None,
        "pkg:pypi/some-package@1.5": [{"license": {"id": "MIT"}}],
    }
    assert bill_of_materials(made) == bill


@pytest.mark.parametrize("missing", PACKAGES)
def test_an_image_without_a_list_of_packages_has_no_bill(archive, missing):
    packages = {name: content for name, content in PACKAGES.items() if name != missing}
    with pytest.raises(ValueError, match="joulie/extender"):
        bill_of_materials(archive(layer(packages)))


def test_a_file_is_written_for_each_archive(archive, tmp_path, capsys):
    main([str(tmp_path / "out"), str(archive(layer(PACKAGES)))])
    path = tmp_path / "out" / "extender.cdx.json"
    assert capsys.readouterr().out == f"{path}\n"
    assert json.loads(path.read_text())["bomFormat"] == "CycloneDX"
