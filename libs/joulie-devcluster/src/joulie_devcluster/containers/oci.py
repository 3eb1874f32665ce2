"""A busybox image, written without a registry or an engine, for pod sandboxes and for pods of tests.

The archive is an OCI image layout in a tar file and is reproducible: the same busybox gives the same bytes. Source: OCI
image specification, "OCI Image Layout" and "Image Configuration".
"""

import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

#: Name of the image on a node that has imported it.
BUSYBOX_IMAGE: Final = "docker.io/joulie/busybox:1"

_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_DIRECTORIES: Final = {"bin": 0o755, "etc": 0o755, "root": 0o700, "tmp": 0o1777}
_MEDIA_TYPE: Final = "application/vnd.oci.image"


def write_busybox_archive(busybox: Path, archive: Path, *, machine: str) -> Path:
    """Write the image and return the path of the archive.

    Args:
        busybox: a statically linked busybox.
        archive: the file to write.
        machine: processor architecture, as in `platform.machine()`.
    """
    layer = _layer(busybox)
    architecture = _ARCHITECTURES.get(machine, machine)
    config = _json(
        {
            "architecture": architecture,
            "os": "linux",
            # The process of a sandbox: it only has to keep running.
            "config": {"Env": ["PATH=/bin"], "Entrypoint": ["/bin/tail", "-f", "/dev/null"]},
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
        "annotations": {"io.containerd.image.name": BUSYBOX_IMAGE},
    }
    with tarfile.open(archive, "w") as out:
        _add(out, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(out, "index.json", _json({"schemaVersion": 2, "manifests": [entry]}))
        for blob in (layer, config, manifest):
            _add(out, f"blobs/{_digest(blob).replace(':', '/')}", blob)
    return archive


def _layer(busybox: Path) -> bytes:
    listing = subprocess.run(  # noqa: S603 - an installed program
        [busybox, "--list"], capture_output=True, text=True, timeout=20, check=True
    )
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as out:
        for name, mode in _DIRECTORIES.items():
            directory = tarfile.TarInfo(name)
            directory.type, directory.mode = tarfile.DIRTYPE, mode
            out.addfile(directory)
        _add(out, "bin/busybox", busybox.read_bytes(), mode=0o755)
        for applet in sorted(set(listing.stdout.split()) - {"busybox"}):
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
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
