"""Binaries into the user's cache: published ones are downloaded, all others are built from source.

A download that fails is no error: the binary is built, and a note states the reason. A server that sends another file
than the pinned one is no exception, since the build verifies all that it uses by itself (`go.sum`).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from joulie_devcluster.binaries.build import build, cache_lock, cached_path
from joulie_devcluster.binaries.download import DownloadLimits, download, install
from joulie_devcluster.binaries.modules import Binary, Module, module_of
from joulie_devcluster.binaries.releases import download_url, downloaded_path, published_file
from joulie_devcluster.errors import ChecksumError, DownloadError, ServerUnavailableError
from joulie_devcluster.host.progress import Reporter


def find_cached(cache: Path, module: Module, binary: Binary, *, from_source: bool = False) -> Path | None:
    """Return the path of a binary in the cache, a built one first.

    Args:
        cache: the cache.
        module: the pinned module of the binary.
        binary: which one.
        from_source: accept a built binary only.

    Returns:
        None if the cache does not have it.
    """
    paths = [cached_path(cache, module, binary)]
    file = None if from_source else published_file(module, binary)
    if file is not None:
        paths.append(downloaded_path(cache, module, binary, file))
    return next((path for path in paths if path.exists()), None)


def obtain(
    cache: Path,
    binaries: Sequence[Binary],
    reporter: Reporter,
    *,
    kubernetes: str,
    from_source: bool = False,
    limits: DownloadLimits | None = None,
) -> Mapping[Binary, Path]:
    """Put binaries into the cache that it does not have. Blocks, for minutes if they are built.

    Args:
        cache: directory of the binaries.
        binaries: which ones.
        reporter: receives the progress, and why a published binary is built.
        kubernetes: minor release of Kubernetes, like "1.37".
        from_source: build all of them.
        limits: bounds of each download; None is the default.

    Returns:
        The path of each binary.

    Raises:
        BinaryError: a binary can neither be downloaded nor built, or the address of the mirror is invalid.
    """
    wanted = binaries
    if not from_source:
        with cache_lock(cache, reporter):
            wanted = _download_all(cache, binaries, reporter, kubernetes, limits or DownloadLimits())
    if wanted:
        build(cache, wanted, reporter, kubernetes=kubernetes)
    modules = {binary: module_of(binary, kubernetes) for binary in binaries}
    found = {each: find_cached(cache, module, each, from_source=from_source) for each, module in modules.items()}
    return {binary: path for binary, path in found.items() if path is not None}


@dataclass(slots=True)
class _Pending:
    """One file to download, and what it contains: of an archive, several binaries."""

    url: str
    sha256: str
    title: str
    binaries: list[Binary] = field(default_factory=list)
    targets: dict[str, Path] = field(default_factory=dict)


def _download_all(
    cache: Path, binaries: Sequence[Binary], reporter: Reporter, kubernetes: str, limits: DownloadLimits
) -> list[Binary]:
    """Download what is published and return the binaries that have to be built."""
    pending: dict[str, _Pending] = {}
    to_build: list[Binary] = []
    for binary in dict.fromkeys(binaries):
        module = module_of(binary, kubernetes)
        if find_cached(cache, module, binary) is not None:
            # Another process put it there while this one waited for the lock.
            continue
        file = published_file(module, binary)
        if file is None:
            to_build.append(binary)
            continue
        url = download_url(file)
        entry = pending.setdefault(url, _Pending(url, file.sha256, f"{module.name} {module.version}"))
        entry.binaries.append(binary)
        entry.targets[file.member] = downloaded_path(cache, module, binary, file)
    failed: dict[str, list[Binary]] = defaultdict(list)
    unavailable: dict[str, str] = {}
    for entry in pending.values():
        server = urlsplit(entry.url).netloc
        try:
            if server in unavailable:
                # Its other files are not tried, so that the build begins within seconds.
                raise ServerUnavailableError(unavailable[server])
            _download(cache, entry, reporter, limits)
        except DownloadError as error:
            reason = f"REFUSED: {error}" if isinstance(error, ChecksumError) else str(error)
            failed[reason].extend(entry.binaries)
            to_build.extend(entry.binaries)
            if isinstance(error, ServerUnavailableError):
                unavailable[server] = reason
    for reason, names in failed.items():
        reporter.note(f"{reason}; built from source instead: {', '.join(names)}")
    return to_build


def _download(cache: Path, entry: _Pending, reporter: Reporter, limits: DownloadLimits) -> None:
    reporter.begin(f"download published {entry.title}: {', '.join(entry.binaries)}")
    # A fixed name: the lock makes it exclusive, and the next download overwrites the file of a killed one.
    partial = cache / "download"
    try:
        download(entry.url, entry.sha256, partial, reporter, limits)
        install(partial, entry.targets, limits)
    except DownloadError:
        reporter.abandon()
        raise
    reporter.finish()
