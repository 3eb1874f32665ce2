"""File of a container's own placement for it to read: CPUs and memory nodes, as shell variables.

The file is there before the reply that creates a container, with what that reply sets. From then on it follows what the
ledger knows to be in force: an update that the runtime has not carried out does not change it. A value that is neither
set nor known is not in the file, which differs from an empty one. Source: docs/decisions/0034-exported-resources.md.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NoReturn, TypeAlias

import structlog

from joulie_api.failure_log import FailureLog
from joulie_containers.nri.proto.nri_pb2 import Mount
from joulie_containers.resources.engine import PlacementEngine
from joulie_containers.resources.renewal import Renewal
from joulie_containers.resources.resource_file_directory import EXPORTED, InvalidContainerIdError, ResourceFileDirectory
from joulie_containers.resources.values import UNSET, ContainerValues
from joulie_core.containers.container import ContainerId
from joulie_core.containers.idset import EMPTY, Cpus, IdSet
from joulie_core.containers.topology import HardwareTopology, MemoryKind

MOUNT_POINT: Final = "/.nri-resource-policy"
#: Where the host's mount has these already, a container with its own user namespace cannot be without them.
_MOUNT_OPTIONS: Final = ("bind", "ro", "rslave", "nosuid", "nodev", "noexec")
#: How long a creation waits for its file: a part of the time that the runtime gives it.
_MOST_WAIT_S: Final = 0.3
_RETRY_S: Final = 10.0

#: What a file is made of: values, the exclusive CPUs of the placement, and how often the topology has changed.
_Shown: TypeAlias = tuple[ContainerValues, Cpus, int]

_log = structlog.get_logger()


class ResourceFiles:
    """The files of the containers that were created with one. For one task at a time, besides `run`.

    Args:
        engine: the containers.
        directory: where the files are.
        host_state_directory: the state directory as the container runtime sees it.
        topology: of the node.
    """

    def __init__(
        self,
        engine: PlacementEngine,
        directory: ResourceFileDirectory,
        host_state_directory: Path,
        topology: HardwareTopology,
    ) -> None:
        self._engine = engine
        self._directory = directory
        self._host_directory = host_state_directory / EXPORTED
        self._topology = topology
        self._topology_changes = 0
        #: What the file of a container has; None where that is not known.
        self._written: dict[str, _Shown | None] = {}
        #: What a container was not created with, and may be there in part.
        self._unwanted: set[str] = set()
        self._listed = False
        self._renewal = Renewal(self._follow)
        self._failures = FailureLog(_log, failed="resources file not written", recovered="resources file written")
        # One thread: files are written in the order of the decisions.
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="resource files")
        self.failed = 0
        """How often a file or its directory could not be written or removed."""

    def wake(self) -> None:
        """Note that something that files have may have changed."""
        self._renewal.wake()

    def use_topology(self, topology: HardwareTopology) -> None:
        """Take the node's hardware, on which the kernel-isolated CPUs and the kinds of memory depend."""
        self._topology = topology
        self._topology_changes += 1
        self.wake()

    async def create(self, container: ContainerId) -> Mount | None:
        """Write the file of a container that is being created.

        Returns:
            The mount that shows it; None where the policy has not placed the container, and where the file cannot be
            written, or not in time: the container then starts without.
        """
        wanted = self._engine.ledger.wanted(container)
        if container not in self._engine.placements or (wanted.cpus is None and wanted.memory is None):
            return None
        shown = self._shown(container, wanted)
        writing = asyncio.get_running_loop().run_in_executor(
            self._writer, self._directory.write, container, self._text(shown)
        )
        done, _ = await asyncio.wait({writing}, timeout=_MOST_WAIT_S)
        try:
            if not done:
                writing.add_done_callback(asyncio.Future.exception)  # it is told here already
                raise TimeoutError(f"not written within {_MOST_WAIT_S} s")
            writing.result()
        except InvalidContainerIdError as error:
            self._fail(error, container)
            return None
        except OSError as error:
            self._fail(error, container)
            self._unwanted.add(container)
            self.wake()
            return None
        self._written[container] = shown
        return Mount(
            destination=MOUNT_POINT,
            type="bind",
            source=str(self._host_directory / container),
            options=_MOUNT_OPTIONS,
        )

    async def run(self) -> NoReturn:
        """Keep files as what is in force until cancelled."""
        await self._renewal.run()

    async def _follow(self) -> float | None:
        """Write what has changed and remove what has ended; return when to try again, None without a failure."""
        if not self._engine.synchronized:
            return None
        failed = self.failed
        await self._list()
        for name in sorted(self._unwanted | (self._written.keys() - self._engine.containers.keys())):
            await self._remove(name)
        for name in list(self._written):
            await self._rewrite(ContainerId(name))
        known = {*self._unwanted, *self._written, *self._engine.containers}
        self._failures.retain(lambda subject: not subject or subject["container"] in known)
        return None if self.failed == failed else _RETRY_S

    async def _list(self) -> None:
        """Find the files of an earlier process, once."""
        if self._listed:
            return
        try:
            names = await asyncio.get_running_loop().run_in_executor(self._writer, self._directory.names)
        except OSError as error:
            self._fail(error)
            return
        self._listed = True
        self._failures.recovered()
        self._written = dict.fromkeys(names) | self._written

    async def _remove(self, name: str) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(self._writer, self._directory.remove, name)
        except OSError as error:
            self._fail(error, name)
            return
        self._unwanted.discard(name)
        self._written.pop(name, None)

    async def _rewrite(self, container: ContainerId) -> None:
        values = self._engine.ledger.in_force(container)
        if container not in self._engine.containers or container in self._unwanted or values == UNSET:
            return  # ended meanwhile; or the reply that creates it is still to be sent
        shown = self._shown(container, values)
        if self._written[container] == shown:
            return
        try:
            await asyncio.get_running_loop().run_in_executor(
                self._writer, self._directory.write, container, self._text(shown)
            )
        except (OSError, InvalidContainerIdError) as error:
            self._fail(error, container)
            return
        self._written[container] = shown
        self._failures.recovered(container=container)

    def _shown(self, container: ContainerId, values: ContainerValues) -> _Shown:
        placement = self._engine.placements.get(container)
        return values, EMPTY if placement is None else placement.exclusive, self._topology_changes

    def _text(self, shown: _Shown) -> bytes:
        values, exclusive, _ = shown
        lines: dict[str, IdSet] = {}
        if values.cpus is not None:
            lines["SHARED_CPUS"] = values.cpus - exclusive
            lines["EXCLUSIVE_CPUS"] = values.cpus & exclusive
            lines["ISOLATED_CPUS"] = values.cpus & self._topology.isolated
        if values.memory is not None:
            lines["ALL_MEMS"] = values.memory
            for kind in MemoryKind:
                of_kind = IdSet(node.id for node in self._topology.nodes.values() if node.kind is kind)
                lines[f"{kind}_MEMS"] = values.memory & of_kind
        return "".join(f'{name}="{ids}"\n' for name, ids in lines.items()).encode()

    def _fail(self, error: Exception, container: str | None = None) -> None:
        self.failed += 1
        self._failures.failed(error, **({} if container is None else {"container": container}))
