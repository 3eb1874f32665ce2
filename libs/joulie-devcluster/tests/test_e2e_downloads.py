"""A control plane whose binaries are downloaded from a mirror into an empty cache."""

import asyncio
import hashlib
import shutil
import tarfile
from urllib.parse import urlsplit

import pytest

from joulie_devcluster.binaries import lookup, obtain, releases
from joulie_devcluster.binaries.modules import module_of
from joulie_devcluster.binaries.releases import published_file
from joulie_devcluster.control_plane.nodes import default_node_classes, scale

pytestmark = pytest.mark.e2e


def serve(mirror, paths, directory):
    """Serve binaries at the addresses of the published ones; return the pins with the checksums of what is served."""
    pins = releases.PINS.read_text()
    for binary, path in paths.items():
        file = published_file(module_of(binary), binary)
        content = path
        if file.member:
            content = directory / f"{binary}.tar.gz"
            with tarfile.open(content, "w:gz", compresslevel=1) as tar:
                tar.add(path, file.member)
        parts = urlsplit(file.url)
        mirror.content[f"/{parts.netloc}{parts.path}"] = content
        with content.open("rb") as stream:
            pins = pins.replace(file.sha256, hashlib.file_digest(stream, "sha256").hexdigest())
    target = directory / "releases.toml"
    target.write_text(pins)
    return target


async def test_a_cluster_starts_from_an_empty_cache_with_downloads_and_without_a_build(
    mirror, fresh_devcluster, monkeypatch, tmp_path
):
    paths = await asyncio.to_thread(lookup.ensure)
    if any(published_file(module_of(binary), binary) is None for binary in paths):
        pytest.skip("not everything is published for this machine")
    monkeypatch.setattr(releases, "PINS", await asyncio.to_thread(serve, mirror, paths, tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setattr(obtain, "build", lambda *_arguments, **_options: pytest.fail("nothing has to be built"))
    try:
        downloaded = await asyncio.to_thread(lookup.ensure)
        cluster = await fresh_devcluster(nodes=scale(default_node_classes(), 5))
        cluster.check()
        assert set(cluster.processes) == set(lookup.CONTROL_PLANE)
        assert len(mirror.paths) == len(lookup.CONTROL_PLANE)
        assert all(path.is_relative_to(tmp_path / "joulie" / "devcluster") for path in downloaded.values())
        assert {each: path.stat().st_size for each, path in downloaded.items()} == {
            each: path.stat().st_size for each, path in paths.items()
        }
    finally:
        # 400 MB, which pytest would keep.
        shutil.rmtree(tmp_path / "joulie", ignore_errors=True)
