"""Images written without a registry or an engine: executables in one layer, and a busybox image.

An archive is an OCI image layout in a tar file and is reproducible: the same content gives the same bytes. Source: OCI
image specification, "OCI Image Layout" and "Image Configuration".
"""

import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

#: Name of the busybox image on a node that has imported it.
BUSYBOX_IMAGE: Final = "docker.io/joulie/busybox:1"

_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
#: Directories of every image that do not have the mode 755.
_MODES: Final = {"root": 0o700, "tmp": 0o1777}
_MEDIA_TYPE: Final = "application/vnd.oci.image"
_PATH: Final = "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageContent:
    """An image of one layer.

    Attributes:
        name: full name, with a tag.
        files: path in the image, without the first slash, of each file; all are executable.
        links: target of each symbolic link in the image.
        directories: directories besides those of the files, /etc, /root and /tmp.
        entrypoint: command line of containers.
    """

    name: str
    files: Mapping[str, Path]
    links: Mapping[str, str] = field(default_factory=dict)
    directories: Sequence[str] = ()
    entrypoint: Sequence[str]


def busybox_image(busybox: Path, *, name: str = BUSYBOX_IMAGE) -> ImageContent:
    """Return an image of a statically linked busybox, whose entrypoint only keeps running, as that of a sandbox."""
    listing = subprocess.run(  # noqa: S603 - an installed program
        [busybox, "--list"], capture_output=True, text=True, timeout=20, check=True
    )
    applets = sorted(set(listing.stdout.split()) - {"busybox"})
    return ImageContent(
        name=name,
        files={"bin/busybox": busybox},
        links={f"bin/{applet}": "busybox" for applet in applets},
        entrypoint=["/bin/tail", "-f", "/dev/null"],
    )


def write_busybox_archive(busybox: Path, archive: Path, *, machine: str) -> Path:
    """Write the busybox image and return the path of the archive; see `write_image_archive`."""
    return write_image_archive(busybox_image(busybox), archive, machine=machine)


def write_image_archive(image: ImageContent, archive: Path, *, machine: str) -> Path:
    """Write an image and return the path of the archive.

    Args:
        image: what the image contains.
        archive: the file to write.
        machine: processor architecture, as in `platform.machine()`.
    """
    layer = _layer(image)
    architecture = _ARCHITECTURES.get(machine, machine)
    config = _json(
        {
            "architecture": architecture,
            "os": "linux",
            "config": {"Env": [f"PATH={_PATH}"], "Entrypoint": list(image.entrypoint)},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": f"{_MEDIA_TYPE}.manifest.v1+json",
            "config": _descriptor(f"{_MEDIA_TYPE}.config.v1+json", config),
            "layers": [_descriptor(f"{_MEDIA_TYPE}.layer.v1.tar", layer)],
        }
    )
    entry = _descriptor(f"{_MEDIA_TYPE}.manifest.v1+json", manifest) | {
        "platform": {"architecture": architecture, "os": "linux"},
        # containerd's annotation, with the full name; OCI's contains the tag only.
        "annotations": {"io.containerd.image.name": image.name},
    }
    with tarfile.open(archive, "w") as out:
        _add(out, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(out, "index.json", _json({"schemaVersion": 2, "manifests": [entry]}))
        for blob in (layer, config, manifest):
            _add(out, f"blobs/{_digest(blob).replace(':', '/')}", blob)
    return archive


def _layer(image: ImageContent) -> bytes:
    names = [*image.files, *image.links, *(f"{each}/" for each in ("etc", "root", "tmp", *image.directories))]
    parents = {str(parent) for name in names for parent in PurePosixPath(f"{name}x").parents} - {"."}
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as out:
        for name in sorted(parents):
            directory = tarfile.TarInfo(name)
            directory.type, directory.mode = tarfile.DIRTYPE, _MODES.get(name, 0o755)
            out.addfile(directory)
        for name, path in image.files.items():
            _add(out, name, path.read_bytes(), mode=0o755)
        for name, target in image.links.items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            out.addfile(link)
    return stream.getvalue()


def _add(out: tarfile.TarFile, name: str, content: bytes, *, mode: int = 0o644) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), mode
    out.addfile(member, io.BytesIO(content))


def _descriptor(media_type: str, content: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "digest": _digest(content), "size": len(content)}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _json(content: Mapping[str, object]) -> bytes:
    return json.dumps(content, sort_keys=True).encode()
