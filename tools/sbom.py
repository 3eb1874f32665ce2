"""Write the bill of materials (SBOM) of each image, CycloneDX 1.6 in JSON.

    python -m tools.sbom DIRECTORY [ARCHIVE...]

Without archives, the images of this checkout, built if they are not in the cache. Contains the packages of Debian that
the image's dpkg knows and the Python packages of `/opt/joulie`, each with its package URL; of Python packages also the
licence that they declare. Equal images have equal files.
"""

import re
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from email.parser import BytesHeaderParser
from pathlib import Path
from typing import Final

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from tools.image_archive import Image, read_image

from joulie_core.timestamps import epoch_seconds
from joulie_devcluster.containers.images import SERVICES, save_image

_DPKG: Final = "/var/lib/dpkg/status"
_METADATA: Final = re.compile(r"/opt/joulie/.+\.dist-info/METADATA")
_INSTALLED: Final = "install ok installed"
#: Names the files' serial numbers, which depend on the image only.
_NAMESPACE: Final = uuid.UUID("3f0f1c5e-6a43-4f0a-9a3e-7a4f5a0b6d11")


def bill_of_materials(archive: Path) -> str:
    """Return the bill of an image, from an archive of it.

    Raises:
        ValueError: the image has no list of Debian packages, or no Python packages.
    """
    image = read_image(archive, wanted=lambda path: path == _DPKG or _METADATA.fullmatch(path) is not None)
    debian, python = [*_debian(image)], [*_python(image)]
    if not (debian and python):
        raise ValueError(f"{image.name}: {len(debian)} Debian packages and {len(python)} Python packages")
    name, _, version = image.name.rpartition(":")
    bom = Bom(components=[*debian, *python])
    bom.metadata.component = Component(name=name, version=version, type=ComponentType.CONTAINER, bom_ref=image.name)
    bom.register_dependency(bom.metadata.component, [*debian, *python])
    created_s = epoch_seconds(image.config["created"])
    bom.metadata.timestamp = None if created_s is None else datetime.fromtimestamp(created_s, UTC)
    bom.serial_number = uuid.uuid5(_NAMESPACE, " ".join(image.config["rootfs"]["diff_ids"]))
    return JsonV1Dot6(bom).output_as_string(indent=1) + "\n"


def _debian(image: Image) -> Iterator[Component]:
    status = image.files[_DPKG].content if _DPKG in image.files else None
    for paragraph in (status or b"").split(b"\n\n"):
        fields = BytesHeaderParser().parsebytes(paragraph)
        if fields["Status"] == _INSTALLED:
            name, version = fields["Package"], fields["Version"]
            url = PackageURL("deb", "debian", name, version, {"arch": fields["Architecture"], "distro": "bookworm"})
            yield Component(name=name, version=version, purl=url, bom_ref=str(url))


def _python(image: Image) -> Iterator[Component]:
    for path, file in sorted(image.files.items()):
        if _METADATA.fullmatch(path) and file.content is not None:
            fields = BytesHeaderParser().parsebytes(file.content)
            name, version = fields["Name"], fields["Version"]
            url = PackageURL("pypi", None, name.lower().replace("_", "-"), version)
            declared = fields["License-Expression"]
            licenses = [LicenseFactory().make_from_string(declared)] if declared else []
            yield Component(name=name, version=version, purl=url, bom_ref=str(url), licenses=licenses)


def main(arguments: list[str]) -> None:
    """Write the files, and print their paths."""
    directory, *archives = (Path(each) for each in arguments)
    directory.mkdir(parents=True, exist_ok=True)
    for archive in archives or [save_image(service) for service in SERVICES]:
        path = directory / f"{archive.stem.rpartition('-')[0] or archive.stem}.cdx.json"
        path.write_text(bill_of_materials(archive))
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
