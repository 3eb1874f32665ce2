"""Archives of images and of the chart that have the same bytes whenever they are made."""

import gzip
import hashlib
import io
import json
import tarfile
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tools.image_archive import read_part

#: Fields of an image's configuration that say what it is (OCI image specification 1.1, config.md). Others say where and
#: when it was built.
_CONFIG_FIELDS: Final = ("architecture", "variant", "os", "os.version", "os.features", "config")
#: Records of the extended header that belong to the file. Access and change times are those of the build.
_EXTENDED_ATTRIBUTE: Final = "SCHILY.xattr."


@dataclass(frozen=True, slots=True)
class _Layer:
    diff_id: str
    path: Path


def rewrite_image(source: Path, target: Path, *, created_s: int) -> None:
    """Write the image of an archive as an archive that depends on its files and on `created_s` only.

    All files get that time. Bytecode that is validated by the time of its source becomes stale by that; the Dockerfile
    compiles all of it otherwise.

    Args:
        source: archive of one image, as `docker save` writes it.
        target: archive to write; `docker load` and `ctr images import` read it.
        created_s: time of the image and of every file in it, in seconds since the epoch.

    Raises:
        KeyError: a part of the source is missing.
        OSError: the source cannot be read, or the target not be written.
        tarfile.TarError: the source is not an archive.
    """
    with tarfile.open(source) as opened, tempfile.TemporaryDirectory(dir=target.parent) as directory:
        (manifest,) = json.loads(read_part(opened, "manifest.json"))
        layers = [
            _layer(opened, name, Path(directory, str(number)), created_s)
            for number, name in enumerate(manifest["Layers"])
        ]
        config = _json(_config(json.loads(read_part(opened, manifest["Config"])), layers, created_s))
        names = [f"{layer.diff_id}/layer.tar" for layer in layers]
        config_name = f"{hashlib.sha256(config).hexdigest()}.json"
        listing = _json([{"Config": config_name, "RepoTags": manifest["RepoTags"], "Layers": names}])
        with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as written:
            _add(written, config_name, config, created_s)
            for name, layer in zip(names, layers, strict=True):
                if name not in written.getnames():
                    _add(written, name, layer.path, created_s)
            _add(written, "manifest.json", listing, created_s)


def package_chart(chart: Path, target: Path, *, created_s: int) -> None:
    """Write a chart as the package that `helm install` takes.

    Args:
        chart: the chart's directory.
        target: the package, `NAME-VERSION.tgz`.
        created_s: time of every file in it, in seconds since the epoch.
    """
    with (
        target.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=created_s) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as written,
    ):
        for path in sorted(each for each in chart.rglob("*") if each.is_file()):
            name = (Path(chart.name) / path.relative_to(chart)).as_posix()
            _add(written, name, path.read_bytes(), created_s)


def _layer(archive: tarfile.TarFile, name: str, path: Path, created_s: int) -> _Layer:
    with (
        tarfile.open(fileobj=archive.extractfile(name)) as read,
        tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as written,
    ):
        for member in read:
            member.pax_headers = {
                key: value for key, value in member.pax_headers.items() if key.startswith(_EXTENDED_ATTRIBUTE)
            }
            member.mtime = created_s
            member.uname = member.gname = ""
            written.addfile(member, read.extractfile(member) if member.isreg() else None)
    with path.open("rb") as file:
        return _Layer(hashlib.file_digest(file, "sha256").hexdigest(), path)


def _config(config: dict[str, Any], layers: list[_Layer], created_s: int) -> dict[str, Any]:
    created = datetime.fromtimestamp(created_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    kept = {field: config[field] for field in _CONFIG_FIELDS if field in config}
    history = [{**entry, "created": created} for entry in config.get("history", [])]
    rootfs = {"type": "layers", "diff_ids": [f"sha256:{layer.diff_id}" for layer in layers]}
    return {**kept, "created": created, "history": history, "rootfs": rootfs}


def _add(archive: tarfile.TarFile, name: str, content: bytes | Path, created_s: int) -> None:
    member = tarfile.TarInfo(name)
    member.mtime = created_s
    member.mode = 0o644
    if isinstance(content, bytes):
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
        return
    member.size = content.stat().st_size
    with content.open("rb") as file:
        archive.addfile(member, file)


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
