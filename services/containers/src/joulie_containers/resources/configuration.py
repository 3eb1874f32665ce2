"""Configuration in force: from the file, the runtime's drop-in file, the cluster, the cache, or the defaults.

A configuration is refused as a whole: with the error reported, the earlier one stays in force. At the start there is
none, so a refused file or a missing one is followed by the last configuration in force, which the cache has, then by
the defaults of the policy: the plugin registers in any case, and readiness reports the error. Otherwise one typing
error would leave the containers of a restarted node without any placement.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog
import yaml

from joulie_api.decoding import decode
from joulie_api.errors import DecodeError
from joulie_api.failure_log import FailureLog
from joulie_containers.resources.engine import Configured
from joulie_core.containers.idset import Cpus
from joulie_core.containers.policy import ContainerPolicy, PolicyConfigError
from joulie_core.containers.topology import HardwareTopology
from joulie_core.kinds.container_policy import ContainerPolicyResource
from joulie_core.kinds.policy_document import PolicyDocumentError, load_policy

#: The largest object that an API server stores.
_MOST_BYTES: Final = 1 << 20

_log = structlog.get_logger()


class ConfigurationSource(StrEnum):
    """Where a configuration comes from."""

    FILE = "file"
    #: The drop-in file of a plugin that the runtime has started.
    RUNTIME = "runtime"
    CLUSTER = "cluster"
    CACHE = "cache"
    DEFAULT = "default"


class InvalidConfigurationError(Exception):
    """A configuration cannot be used; the message has the field, its value and what is valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyHost:
    """The node, as a policy is built for it."""

    topology: HardwareTopology
    #: Returns the CPUs close to a path of the host, such as `/dev/sda`; None where that is not known.
    close_cpus: Callable[[str], Cpus | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyDefinition:
    """A container policy that can be configured."""

    kind: type[ContainerPolicyResource]
    #: Builds the policy from the spec of the kind; raises PolicyConfigError.
    build: Callable[[Any, PolicyHost], ContainerPolicy[Any]]
    #: The spec that is used without any configuration.
    default_spec: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveConfig:
    """The configuration in force."""

    source: ConfigurationSource
    manifest: Mapping[str, Any]
    resource: ContainerPolicyResource
    #: Fields of the manifest that are unknown or have no effect.
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Candidate:
    active: ActiveConfig
    policy: ContainerPolicy[Any]


class Configuration:
    """The configuration of one process.

    Args:
        definition: the container policy.
        host: the node.
        apply: puts a policy in force.
        file: takes precedence over every other source; None without one.
    """

    def __init__(
        self,
        definition: PolicyDefinition,
        host: PolicyHost,
        apply: Callable[[Configured, ActiveConfig], Awaitable[None]],
        *,
        file: Path | None,
    ) -> None:
        self._definition = definition
        self._host = host
        self._apply = apply
        self._file = file
        self._signature: tuple[int, ...] | None = None
        self._active: ActiveConfig | None = None
        self._failures = FailureLog(_log, failed="configuration refused", recovered="configuration accepted")

    @property
    def active(self) -> ActiveConfig | None:
        """The configuration in force; None before `start`."""
        return self._active

    @property
    def problem(self) -> str | None:
        """Reason why the newest configuration is not in force; None where it is."""
        return self._failures.problem()

    async def start(self, cached: Mapping[str, Any] | None) -> None:
        """Put the first configuration in force: of the file, else the cached one, else the default.

        Raises:
            InvalidConfigurationError: not even the default can be used on this node.
        """
        if self._file is not None and await self._load_file():
            return
        if cached is not None:
            try:
                await self._use(self._candidate(ConfigurationSource.CACHE, cached))
            except InvalidConfigurationError as error:
                _log.warning("cached configuration not used", problem=str(error))
            else:
                return
        info = self._definition.kind.info
        default = {"apiVersion": "joulie.io/v1alpha1", "kind": info.kind, "spec": dict(self._definition.default_spec)}
        await self._use(self._candidate(ConfigurationSource.DEFAULT, default))

    async def push(self, source: ConfigurationSource, text: str) -> tuple[str, ...]:
        """Put a configuration in force that was pushed; return its fields without effect.

        Raises:
            InvalidConfigurationError: it is not in force, because it is wrong or because a file takes precedence.
        """
        if self._file is not None:
            raise InvalidConfigurationError(f"the configuration is taken from the file {self._file}")
        try:
            candidate = self._candidate(source, parse_document(text))
        except InvalidConfigurationError as error:
            self._failures.failed(str(error))
            raise
        self._failures.recovered()
        if not self._is_active(candidate):
            await self._use(candidate)
        return candidate.active.ignored

    async def watch(self, interval_s: float) -> None:
        """Follow the file until cancelled."""
        assert self._file is not None
        while True:
            await asyncio.sleep(interval_s)
            if await asyncio.to_thread(_signature, self._file) != self._signature:
                await self._load_file()

    async def use_host(self, host: PolicyHost) -> None:
        """Put the configuration in force again on changed hardware; where that is not possible, nothing changes."""
        assert self._active is not None, "there is a configuration after the start"
        before, self._host = self._host, host
        try:
            candidate = self._candidate(self._active.source, self._active.manifest)
        except InvalidConfigurationError as error:
            self._host = before
            self._failures.failed(f"on changed hardware: {error}")
            return
        await self._use(candidate)

    async def _load_file(self) -> bool:
        """Put the file in force; return whether that was possible."""
        assert self._file is not None
        # Before reading, so that a change while it is read is seen the next time.
        self._signature = await asyncio.to_thread(_signature, self._file)
        try:
            text = await asyncio.to_thread(_read, self._file)
            candidate = self._candidate(ConfigurationSource.FILE, parse_document(text))
        except InvalidConfigurationError as error:
            self._failures.failed(f"{self._file}: {error}")
            return False
        self._failures.recovered()
        if not self._is_active(candidate):
            await self._use(candidate)
        return True

    def _is_active(self, candidate: _Candidate) -> bool:
        active = self._active
        return active is not None and (active.source, active.manifest) == (
            candidate.active.source,
            candidate.active.manifest,
        )

    def _candidate(self, source: ConfigurationSource, manifest: object) -> _Candidate:
        try:
            document = load_policy(manifest, [self._definition.kind])
            policy = self._definition.build(document.policy.spec, self._host)
        except (PolicyDocumentError, PolicyConfigError) as error:
            raise InvalidConfigurationError(str(error)) from error
        except RecursionError as error:
            raise InvalidConfigurationError("it is nested too deeply") from error.with_traceback(None)
        assert isinstance(manifest, Mapping), "anything else is no manifest"
        active = ActiveConfig(source=source, manifest=manifest, resource=document.policy, ignored=document.ignored)
        return _Candidate(active, policy)

    async def _use(self, candidate: _Candidate) -> None:
        active = self._active = candidate.active
        await self._apply(Configured(policy=candidate.policy, manifest=active.manifest), active)
        if active.ignored:
            _log.warning("fields of the configuration ignored", fields=active.ignored)
        _log.info("configuration in force", source=active.source, policy=candidate.policy.name)


def parse_document(text: str) -> object:
    """Parse one YAML or JSON document.

    Raises:
        InvalidConfigurationError: it is neither, is too large, or has several documents.
    """
    if len(text) > _MOST_BYTES:
        raise InvalidConfigurationError(f"{len(text)} characters are more than an object may have")
    try:
        documents = decode(_documents, text.encode(errors="surrogatepass"), "YAML or JSON document")
    except yaml.YAMLError as error:
        raise InvalidConfigurationError(f"not YAML or JSON: {' '.join(str(error).split())}") from error
    except DecodeError as error:
        raise InvalidConfigurationError(str(error)) from error
    if len(documents) != 1:
        raise InvalidConfigurationError(f"it has {len(documents)} documents; write one manifest")
    return documents[0]


def _documents(raw: bytes) -> list[object]:
    if raw.lstrip().startswith(b"{"):
        return [msgspec.json.decode(raw)]
    return [document for document in yaml.safe_load_all(raw.decode()) if document is not None]


def _read(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            return file.read(_MOST_BYTES + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfigurationError(f"it cannot be read: {error}") from error


def _signature(path: Path) -> tuple[int, ...] | None:
    """Return what changes with the content of a file, also where another one is renamed over it."""
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
