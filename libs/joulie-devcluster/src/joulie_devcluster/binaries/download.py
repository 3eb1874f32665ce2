"""Downloads of published files, verified against pinned checksums, with the standard library only.

Guarantees: a file appears under its final name complete and verified, or not at all; every wait is bounded; only HTTPS
is used, also after redirects, except on loopback. The proxy of the environment is used, except for loopback.
"""

import hashlib
import http.client
import os
import posixpath
import queue
import shutil
import ssl
import tarfile
import threading
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import urlsplit

from joulie_devcluster.binaries.releases import is_loopback, is_trusted
from joulie_devcluster.errors import ChecksumError, DownloadError, ServerUnavailableError
from joulie_devcluster.host.progress import Reporter

#: A first connection can be cut by chance.
_ATTEMPTS: Final = 2
_CHUNK_BYTES: Final = 1 << 18
_MEGABYTE: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadLimits:
    """Bounds of a download.

    Attributes:
        connect_s: time to connect to one address of a server, in seconds; all of them together get twice that.
        read_s: longest time without a byte from the server, in seconds.
        file_s: time for one file, in seconds.
        size_bytes: size of a file, and of what is unpacked from it.
    """

    connect_s: float = 3.0
    read_s: float = 15.0
    file_s: float = 600.0
    size_bytes: int = 256 * 1024**2


def download(url: str, sha256: str, target: Path, reporter: Reporter, limits: DownloadLimits) -> None:
    """Download a file and verify it while it is written. Blocks. A connection that is cut is tried once more.

    Args:
        url: address of the file.
        sha256: expected checksum, 64 hexadecimal digits.
        target: path to write; it does not exist afterwards if the download fails.
        reporter: receives the progress, in megabytes.
        limits: bounds of time and size.

    Raises:
        ServerUnavailableError: the server cannot be reached, stalls, or cuts the connection twice.
        ChecksumError: the server sent another file.
        DownloadError: the server answers with an error status, the file is too large, or `target` cannot be written.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            _transfer(url, sha256, target, reporter, limits)
        except _CutError as error:
            if attempt == _ATTEMPTS:
                target.unlink(missing_ok=True)
                raise ServerUnavailableError(str(error)) from error
        except BaseException as error:
            target.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise DownloadError(f"{target} cannot be written: {error}") from error
            raise
        else:
            return


def install(file: Path, members: Mapping[str, Path], limits: DownloadLimits) -> None:
    """Move a downloaded file, or members of a downloaded archive, to their final paths, as executables.

    Args:
        file: the downloaded file; it does not exist afterwards.
        members: final path of each member; with the member "", of the file itself.
        limits: bounds the size of a member.

    Raises:
        DownloadError: the archive is damaged or lacks a member, a member is too large, or a path cannot be written.
    """
    try:
        if "" in members:
            _publish(file, members[""])
            return
        with tarfile.open(file, "r:gz") as archive:
            content = {posixpath.normpath(each.name): each for each in archive if each.isfile()}
            for name, target in members.items():
                if name not in content:
                    raise DownloadError(f"the archive of {target.name} does not contain {name}")
                if content[name].size > limits.size_bytes:
                    raise DownloadError(f"{name} has {content[name].size} bytes, more than {limits.size_bytes}")
                partial = file.with_name(f"{file.name}.member")
                try:
                    with partial.open("wb") as output:
                        source = archive.extractfile(content[name])
                        assert source is not None  # a regular file
                        shutil.copyfileobj(source, output)
                        _sync(output)
                    _publish(partial, target)
                finally:
                    partial.unlink(missing_ok=True)
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise DownloadError(f"{file} cannot be unpacked: {error}") from error
    finally:
        file.unlink(missing_ok=True)


def _publish(file: Path, target: Path) -> None:
    file.chmod(0o755)
    target.parent.mkdir(parents=True, exist_ok=True)
    file.replace(target)


def _sync(output: IO[bytes]) -> None:
    # A rename can survive a crash of the machine that the content does not.
    output.flush()
    os.fsync(output.fileno())


class _CutError(Exception):
    """A connection that ended or stalled before the file was complete."""


def _transfer(url: str, sha256: str, target: Path, reporter: Reporter, limits: DownloadLimits) -> None:
    """Write the content of a URL to `target` and compare its checksum."""
    deadline_s = time.monotonic() + limits.file_s
    server = urlsplit(url).netloc
    digest = hashlib.sha256()
    done = 0
    with _open(url, limits) as reply, target.open("wb") as output:
        length = reply.headers.get("Content-Length")
        total = int(length) if length is not None and length.isdecimal() else None
        # A larger file is refused before it is read if its size is known.
        _check_size(url, total or 0, limits)
        while chunk := _read_some(reply, server):
            done += len(chunk)
            _check_size(url, done, limits)
            if time.monotonic() > deadline_s:
                raise ServerUnavailableError(f"{server} needs more than {limits.file_s:g} s for {url}")
            digest.update(chunk)
            output.write(chunk)
            reporter.advance(
                done // _MEGABYTE, None if total is None else total // _MEGABYTE, f"megabytes from {server}"
            )
        if total is not None and done < total:
            raise _CutError(f"{server} cut the connection after {done} of {total} bytes of {url}")
        _sync(output)
    if digest.hexdigest() != sha256:
        raise ChecksumError(f"{url} has SHA-256 {digest.hexdigest()}, expected {sha256}: the file was removed")


def _check_size(url: str, size: int, limits: DownloadLimits) -> None:
    if size > limits.size_bytes:
        raise DownloadError(f"{url} has {size} bytes or more, more than {limits.size_bytes}")


def _read_some(reply: http.client.HTTPResponse, server: str) -> bytes:
    try:
        # What one packet has: with `read`, a server that sends a byte now and then would not be noticed.
        return reply.read1(_CHUNK_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise _CutError(f"{server} stopped sending: {_describe(error)}") from error


def _describe(error: Exception) -> str:
    return str(error) or type(error).__name__


def _open(url: str, limits: DownloadLimits) -> http.client.HTTPResponse:
    _require_trusted(url)
    # Without proxies on loopback: HTTP_PROXY does not apply there.
    proxies = urllib.request.ProxyHandler({} if is_loopback(url) else None)
    opener = urllib.request.build_opener(proxies, _TrustedRedirects(), _Http(limits), _Https(limits))
    request = urllib.request.Request(url, headers={"User-Agent": "joulie-devcluster"})  # noqa: S310 - checked above
    server = urlsplit(url).netloc
    try:
        reply: http.client.HTTPResponse = opener.open(request, timeout=limits.connect_s)
    except urllib.error.HTTPError as error:
        error.close()
        raise DownloadError(f"{url} answers with status {error.code}") from error
    except urllib.error.URLError as error:
        raise ServerUnavailableError(f"{server} cannot be reached: {error.reason}") from error
    except (OSError, http.client.HTTPException) as error:
        raise ServerUnavailableError(f"{server} does not answer: {_describe(error)}") from error
    return reply


def _require_trusted(url: str) -> None:
    if not is_trusted(url):
        raise DownloadError(f"{url} is not an https:// address")


class _TrustedRedirects(urllib.request.HTTPRedirectHandler):
    """Redirects to HTTPS only: a redirect to HTTP would show what is downloaded, and to whom."""

    def redirect_request(  # noqa: PLR0917 - the signature of the base class
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        _require_trusted(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class _Http(urllib.request.HTTPHandler):
    def __init__(self, limits: DownloadLimits) -> None:
        super().__init__()
        self._limits = limits

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        limits = self._limits

        class _Connection(http.client.HTTPConnection):
            def connect(self) -> None:
                _connect(self, super().connect, limits)

        return self.do_open(_Connection, req)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, limits: DownloadLimits) -> None:
        super().__init__()
        self._limits = limits

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        limits = self._limits

        class _Connection(http.client.HTTPSConnection):
            def connect(self) -> None:
                _connect(self, super().connect, limits)

        return self.do_open(_Connection, req, context=ssl.create_default_context())


def _connect(connection: http.client.HTTPConnection, connect: Callable[[], None], limits: DownloadLimits) -> None:
    """Connect within a bounded time, and set the time limit of reads.

    A thread, because nothing else bounds a lookup of a name, and because each address of a server has its own limit.
    """
    outcome: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def attempt() -> None:
        try:
            connect()
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
            outcome.put(error)
        else:
            outcome.put(None)

    threading.Thread(target=attempt, name="connect", daemon=True).start()
    try:
        error = outcome.get(timeout=2 * limits.connect_s)
    except queue.Empty:
        raise TimeoutError(f"no connection within {2 * limits.connect_s:g} s") from None
    if error is not None:
        raise error
    connection.sock.settimeout(limits.read_s)
