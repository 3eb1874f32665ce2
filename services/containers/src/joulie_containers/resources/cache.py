"""The cache: what the resource manager knows, in a file that a killed process leaves whole.

Guarantees that what one `save` was given is found again, whenever the process is killed: new content goes to a second
file, which takes the place of the first when it is complete, and is read itself where the first is missing. The first
is removed before, not replaced: where a file replaces another, ext4 writes it to disk at once, which takes several
milliseconds. The cache is not synced to disk, since it is of no use after a power failure: no container that it
describes exists then. Content is encoded when it changes, container by container, so that a save with hundreds of
containers writes bytes that are ready. A thread writes them: a disk that is busy delays the reply that waits for the
save, and nothing else.

The file is as large as what lives: a pod is stored as long as one of its containers is.

A file that may have been written by another user, is not a regular file or cannot be decoded is set aside under another
name with an error in the log, and nothing of it is used. Source: docs/decisions/0014-container-resources.md.
"""

import asyncio
import os
import stat
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
import structlog

from joulie_api.decoding import decode
from joulie_api.errors import DecodeError
from joulie_api.failure_log import FailureLog
from joulie_containers.resources.values import NO_CLASSES, ContainerValues, CreationClasses
from joulie_core.containers.container import ContainerId, ContainerInfo, PodSandboxId
from joulie_core.containers.differences import changed_keys
from joulie_core.containers.policy import GrantRecord

VERSION: Final = 1
CACHE_FILE: Final = "cache.json"
REJECTED_FILE: Final = "cache.json.rejected"
_NEW_FILE: Final = "cache.json.new"
#: Hundreds of containers take hundreds of kilobytes.
_MOST_BYTES: Final = 64 << 20
_WRITABLE_BY_OTHERS: Final = 0o022
_FILE_MODE: Final = 0o644
_DIRECTORY_MODE: Final = 0o710

#: Of a container: CPU shares, CPU quota, memory limit.
_SetValues: TypeAlias = tuple[int | None, int | None, int | None]

_log = structlog.get_logger()


class CacheRejectedError(Exception):
    """A cache file must not be used; the message has the reason."""


class CachedPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod as it is stored."""

    uid: str
    namespace: str
    name: str
    qos: str


class CachedContainer(msgspec.Struct, frozen=True, kw_only=True):
    """A container as it is stored."""

    pod: str
    name: str
    created_ns: int
    cpu_request_milli: int
    cpu_limit_milli: int | None
    memory_request_bytes: int
    memory_limit_bytes: int | None
    #: What was set of these in its cgroup, which is what the runtime shows from then on.
    set_cpu_shares: int | None = None
    set_cpu_quota_us: int | None = None
    set_memory_limit_bytes: int | None = None
    #: Classes that it was created with.
    rdt_class: str | None = None
    blockio_class: str | None = None


class CacheContent(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is stored."""

    version: int
    #: The container policy whose grants these are.
    policy: str = ""
    #: The last manifest that was in force.
    configuration: dict[str, Any] | None = None
    pods: dict[str, CachedPod] = {}
    containers: dict[str, CachedContainer] = {}
    grants: dict[str, dict[str, Any]] = {}


class _Header(msgspec.Struct, frozen=True):
    version: int


_HEADERS: Final = msgspec.json.Decoder(_Header)
_CONTENTS: Final = msgspec.json.Decoder(CacheContent)


def _no_step() -> None:
    """Do nothing between the steps of a save."""


class Cache:
    """The cache file of one state directory. For one task at a time.

    Args:
        directory: created if it is missing.
        step: called between the steps of a save, for tests that end the process there.
    """

    def __init__(self, directory: Path, *, step: Callable[[], None] = _no_step) -> None:
        self._directory = directory
        self._step = step
        self._path = directory / CACHE_FILE
        self._encoder = msgspec.json.Encoder()
        self._head = b""
        #: What was encoded, and the entries of the file.
        self._containers: dict[ContainerId, tuple[ContainerInfo, _SetValues, CreationClasses]] = {}
        self._grants: dict[ContainerId, GrantRecord] = {}
        self._pod_entries: dict[PodSandboxId, bytes] = {}
        #: How many containers of each pod are stored.
        self._pod_containers: Counter[PodSandboxId] = Counter()
        self._container_entries: dict[ContainerId, bytes] = {}
        self._grant_entries: dict[ContainerId, bytes] = {}
        self._changed = False
        # One thread: contents are written in the order of the saves, also where a save was cancelled.
        self._writer = ThreadPoolExecutor(1, "cache")
        self._failures = FailureLog(_log, failed="cache not saved", recovered="cache saved again")

    @property
    def problem(self) -> str | None:
        """Reason why the last save failed; None where it did not."""
        return self._failures.problem()

    def load(self) -> CacheContent | None:
        """Read the file; None where there is none, or one that must not be used, which is set aside."""
        try:
            if not os.path.lexists(self._path):
                (self._directory / _NEW_FILE).rename(self._path)  # the last save was complete, except for this
            return _decode(_read(self._path))
        except FileNotFoundError:
            return None
        except (OSError, CacheRejectedError) as error:
            link = "it exists, but is a symbolic link" if self._path.is_symlink() else ""
            _log.error("cache rejected", path=str(self._path), problem=link or str(error), set_aside=REJECTED_FILE)
        try:
            self._path.rename(self._directory / REJECTED_FILE)
        except OSError as error:
            _log.error("rejected cache not set aside", path=str(self._path), problem=str(error))
        return None

    def set_head(self, policy: str, configuration: Mapping[str, Any] | None) -> None:
        """Store the policy and its last good configuration from the next save on."""
        head = self._encoder.encode({"version": VERSION, "policy": policy, "configuration": configuration})
        self._changed |= head != self._head
        self._head = head

    def put(self, info: ContainerInfo, values: ContainerValues, classes: CreationClasses = NO_CLASSES) -> None:
        """Store a container, its pod, what is set for it and what it was created with from the next save on."""
        kept = (values.cpu_shares, values.cpu_quota_us, values.memory_limit_bytes), classes
        stored = self._containers.get(info.id)
        if stored is not None and stored[0] is info and stored[1:] == kept:
            return
        pod = info.pod
        if stored is None:
            self._pod_containers[pod.id] += 1
        self._containers[info.id] = info, *kept
        if pod.id not in self._pod_entries:
            cached = CachedPod(uid=pod.uid, namespace=pod.namespace, name=pod.name, qos=pod.qos)
            self._pod_entries[pod.id] = self._entry(pod.id, cached)
            self._changed = True
        resources = info.resources
        container = CachedContainer(
            pod=pod.id,
            name=info.name,
            created_ns=info.created_ns,
            cpu_request_milli=resources.cpu_request_milli,
            cpu_limit_milli=resources.cpu_limit_milli,
            memory_request_bytes=resources.memory_request_bytes,
            memory_limit_bytes=resources.memory_limit_bytes,
            set_cpu_shares=values.cpu_shares,
            set_cpu_quota_us=values.cpu_quota_us,
            set_memory_limit_bytes=values.memory_limit_bytes,
            rdt_class=classes.rdt,
            blockio_class=classes.blockio,
        )
        entry = self._entry(info.id, container)
        if self._container_entries.get(info.id) != entry:
            self._container_entries[info.id] = entry
            self._changed = True

    def drop(self, container: ContainerId) -> None:
        """Store a container and its grant no longer, nor its pod where it is the last one stored of it."""
        stored = self._containers.pop(container, None)
        if stored is not None:
            self._drop_from(stored[0].pod.id)
        self._grants.pop(container, None)
        self._changed |= self._container_entries.pop(container, None) is not None
        self._changed |= self._grant_entries.pop(container, None) is not None

    def _drop_from(self, pod: PodSandboxId) -> None:
        self._pod_containers[pod] -= 1
        if not self._pod_containers[pod]:
            del self._pod_containers[pod], self._pod_entries[pod]

    def clear(self) -> None:
        """Store no pod, container and grant."""
        self._changed |= bool(self._pod_entries or self._container_entries or self._grant_entries)
        self._pod_containers.clear()
        for table in (self._containers, self._grants, self._pod_entries, self._container_entries, self._grant_entries):
            table.clear()

    def set_grants(self, grants: Mapping[ContainerId, GrantRecord]) -> None:
        """Store exactly these grants from the next save on; a grant that has not changed is best the same object."""
        for container in self._grants.keys() - grants.keys():
            del self._grants[container], self._grant_entries[container]
            self._changed = True
        for container in list(changed_keys(grants, self._grants)):
            record, stored = grants[container], self._grants.get(container)
            self._grants[container] = record
            if stored != record:
                self._grant_entries[container] = self._entry(container, record)
                self._changed = True

    async def save(self) -> None:
        """Write what has changed since the last save. A failure is logged, and shows in `problem` until a save works.

        The next save tries again.
        """
        if not self._changed:
            return
        self._changed = False
        saved = False
        try:
            await asyncio.get_running_loop().run_in_executor(self._writer, self._replace, self._content())
            saved = True
        except OSError as error:
            self._failures.failed(error)
        finally:
            self._changed |= not saved
        if saved:
            self._failures.recovered()

    def _entry(self, key: str, value: Any) -> bytes:
        return self._encoder.encode(key) + b":" + self._encoder.encode(value)

    def _content(self) -> bytes:
        head = self._head or self._encoder.encode({"version": VERSION})
        tables: Mapping[bytes, Mapping[Any, bytes]] = {
            b"pods": self._pod_entries,
            b"containers": self._container_entries,
            b"grants": self._grant_entries,
        }
        parts = [head[:-1]]
        for name, entries in tables.items():
            parts += [b',"', name, b'":{', b",".join(entries.values()), b"}"]
        return b"".join([*parts, b"}\n"])

    def _replace(self, content: bytes) -> None:
        self._step()
        self._directory.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
        new = self._directory / _NEW_FILE
        self._step()
        new.unlink(missing_ok=True)
        self._step()
        # A new file of its own: what another user may have left under the name is not written to.
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _FILE_MODE)
        try:
            self._step()
            written = 0
            while written < len(content):
                written += os.write(descriptor, content[written:])
                self._step()
        finally:
            os.close(descriptor)
        self._path.unlink(missing_ok=True)
        self._step()
        new.rename(self._path)
        self._step()


def _read(path: Path) -> bytes:
    """Read the file if only this user and root can have written it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise CacheRejectedError("it exists, but is not a regular file")
        if status.st_mode & _WRITABLE_BY_OTHERS or status.st_uid not in {0, os.geteuid()}:
            owner = f"mode {stat.S_IMODE(status.st_mode):04o}, owner {status.st_uid}"
            raise CacheRejectedError(f"it can be written by other users ({owner})")
        if status.st_size > _MOST_BYTES:
            raise CacheRejectedError(f"it has {status.st_size} bytes, more than any cache")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def _decode(content: bytes) -> CacheContent:
    try:
        if (version := decode(_HEADERS.decode, content, "cache").version) != VERSION:
            raise CacheRejectedError(f"it has version {version}, and this release reads version {VERSION}")
        return decode(_CONTENTS.decode, content, "cache")
    except DecodeError as error:
        raise CacheRejectedError(f"it cannot be decoded: {error}") from error
