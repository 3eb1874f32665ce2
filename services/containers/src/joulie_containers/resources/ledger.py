"""Ledger of what every container is to have, and of what the runtime is known to have carried out.

The reply to a request carries updates of other containers whose failure is not reported, and a container may keep
running on CPUs that were meant to be taken from it. So the ledger knows, besides the values that are wanted and in
force, on which CPUs each container may be running (`may_use`), and guarantees that an update on its own initiative
gives a container exclusive CPUs only when no other container may be running on them:

- Updates that take CPUs precede those that need them; where one fails, the others wait until a repetition succeeds.
- The reply to a creation or an update makes the runtime fail the request where such an update fails. If a created
  container then never starts, its updates count as unknown and are sent again.
- In other replies the failure of an update is ignored by the runtime; an update that takes exclusive CPUs of another
  container is sent once more to learn its result.
- Between its creation and its start a runtime writes an update of a container down for the next start only, which may
  have begun; it reports success either way. What a reply has changed in such a container is sent again when it runs.

Two containers that exchange exclusive CPUs need each other's update first; these are sent together.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from joulie_containers.resources.values import UNSET, ContainerValues
from joulie_core.containers.container import ContainerId
from joulie_core.containers.idset import EMPTY, Cpus, IdSet, union

#: Most updates in one message: the runtime carries out nothing else meanwhile, and each takes milliseconds.
MOST_PER_BATCH: Final = 32
_FIRST_RETRY_S: Final = 1.0
_LAST_RETRY_S: Final = 60.0


class SentUpdate(NamedTuple):
    """The update of one container. A tuple, since hundreds are made in one reply."""

    container: ContainerId
    values: ContainerValues
    #: The runtime must fail the request where this update fails.
    must_succeed: bool = False
    #: Revision of the entry when it was sent.
    revision: int = 0


def _nothing() -> None:
    """Do nothing at a change."""


@dataclass(slots=True)
class _Entry:
    wanted: ContainerValues = UNSET
    in_force: ContainerValues = UNSET
    #: CPUs that it may be running on; None is any.
    may_use: Cpus | None = None
    #: The result of the last message is not known.
    doubtful: bool = False
    #: Grows with every message about the container.
    revision: int = 0
    failures: int = 0
    retry_at: float = -math.inf

    @property
    def pending(self) -> bool:
        return self.doubtful or not self.wanted.fulfilled_by(self.in_force)

    def left_over(self, taken: Cpus) -> Cpus:
        """Return which of the exclusive CPUs of all containers it is to leave and may still be running on."""
        if self.wanted.cpus is None:
            return EMPTY
        left = taken.mask & ~self.wanted.cpus.mask
        if self.may_use is not None:
            left &= self.may_use.mask
        return IdSet.from_mask(left) if left else EMPTY

    def accepted(self, values: ContainerValues) -> None:
        self.in_force = values.over(self.in_force)
        self.may_use = self.in_force.cpus
        self.doubtful = False
        self.failures, self.retry_at = 0, -math.inf

    def sent(self, values: ContainerValues) -> None:
        """Note values whose result is not known yet."""
        self.revision += 1
        self.doubtful = True
        if values.cpus is not None and self.may_use is not None:
            self.may_use |= values.cpus


class Ledger:
    """The containers of one node. For one task at a time.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._entries: dict[ContainerId, _Entry] = {}
        #: Those whose values are not in force as far as known.
        self._pending: set[ContainerId] = set()
        #: The exclusive CPUs of those that have some.
        self._exclusive: dict[ContainerId, Cpus] = {}
        #: Updates in the reply to a creation whose container has not started yet, with the CPUs that were in use.
        self._unstarted: dict[ContainerId, dict[ContainerId, Cpus | None]] = {}
        #: Created containers that do not run yet.
        self._not_running: set[ContainerId] = set()
        self.on_change: Callable[[], None] = _nothing
        """Called when what is in force has changed as far as known."""

    def want(self, container: ContainerId, values: ContainerValues, exclusive: Cpus = EMPTY) -> None:
        """Note what a container is to have, and which of its CPUs no other container may use."""
        self.want_all([container], values, exclusive)

    def want_all(self, containers: Iterable[ContainerId], values: ContainerValues, exclusive: Cpus = EMPTY) -> None:
        """Note that each of several containers is to have the same."""
        fulfilled: dict[int, bool] = {}  # by the id of what is in force, which many share as well
        for container in containers:
            entry = self._entry(container)
            if entry.failures and entry.wanted != values:
                entry.failures, entry.retry_at = 0, -math.inf
            entry.wanted = values
            if exclusive:
                self._exclusive[container] = exclusive
            else:
                self._exclusive.pop(container, None)
            known = id(entry.in_force)
            if known not in fulfilled:
                fulfilled[known] = values.fulfilled_by(entry.in_force)
            if entry.doubtful or not fulfilled[known]:
                self._pending.add(container)
            else:
                self._pending.discard(container)

    def report(self, container: ContainerId, values: ContainerValues) -> None:
        """Note what the runtime has in force for a container."""
        entry = self._entry(container)
        entry.revision += 1
        entry.accepted(values)
        self._sort(container)

    def overwrite(self, container: ContainerId, values: ContainerValues) -> None:
        """Note what the runtime is about to set for a container on the request of another program."""
        entry = self._entry(container)
        entry.in_force = values.over(entry.in_force)
        self._sort(container)
        self.on_change()

    def forget(self, container: ContainerId) -> None:
        """Drop a container that has ended; what its creation was to change in others is sent again."""
        self._entries.pop(container, None)
        self._pending.discard(container)
        self._exclusive.pop(container, None)
        self._not_running.discard(container)
        for other, may_use in self._unstarted.pop(container, {}).items():
            if (entry := self._entries.get(other)) is not None:
                entry.doubtful = True
                entry.may_use = None if may_use is None or entry.may_use is None else entry.may_use | may_use
                self._sort(other)

    def clear(self) -> None:
        """Drop all containers, to take what the runtime lists; which of them run is kept, see `list_not_running`."""
        self._entries.clear()
        self._pending.clear()
        self._exclusive.clear()
        self._unstarted.clear()

    def started(self, container: ContainerId) -> None:
        """Note that a container starts: the updates in the reply to its creation were carried out."""
        self._unstarted.pop(container, None)

    def list_not_running(self, containers: Iterable[ContainerId]) -> None:
        """Note which containers do not run yet, of all that the runtime lists; one may run before `clear`."""
        self._not_running = set(containers)

    def not_running(self, container: ContainerId) -> None:
        """Note a container that is created and does not run yet."""
        self._not_running.add(container)

    def running(self, container: ContainerId) -> None:
        """Note that a container runs: from here on updates change it at once."""
        self._not_running.discard(container)

    def wanted(self, container: ContainerId) -> ContainerValues:
        """Return what a container is to have; nothing for an unknown one."""
        entry = self._entries.get(container)
        return UNSET if entry is None else entry.wanted

    def in_force(self, container: ContainerId) -> ContainerValues:
        """Return what the runtime is known to have carried out; nothing for an unknown container."""
        entry = self._entries.get(container)
        return UNSET if entry is None else entry.in_force

    @property
    def pending(self) -> Mapping[ContainerId, int]:
        """Containers whose values are not in force as far as known, with the number of failed attempts."""
        return {container: self._entries[container].failures for container in self._pending}

    @property
    def has_pending(self) -> bool:
        """Whether there is a container whose values are not in force as far as known."""
        return bool(self._pending)

    @property
    def left_over(self) -> Cpus:
        """Exclusive CPUs that containers are to leave and may still be running on.

        Without those of a container that is being created: it starts with what the reply has.
        """
        return union(cpus for name, cpus in self._left_over().items() if not self._is_new(name))

    def _is_new(self, container: ContainerId) -> bool:
        return container in self._not_running and not self._entries[container].revision

    def reply_to_creation(self, created: ContainerId) -> Sequence[SentUpdate]:
        """Return the updates of others for the reply that creates a container with what is wanted."""
        updates = self._updates(strict=True, without=created)
        self._unstarted[created] = {
            update.container: self._entries[update.container].may_use for update in updates if update.must_succeed
        }
        for update in updates:
            self._assume(update, known=update.container not in self._not_running)
        self._accept(created)
        return updates

    def reply_to_update(self) -> Sequence[SentUpdate]:
        """Return the updates for the reply to an update of a container, which the runtime fails as a whole."""
        return self._send(self._updates(strict=True))

    def reply(self) -> Sequence[SentUpdate]:
        """Return the updates for a reply whose failed updates the runtime ignores."""
        return self._send(self._updates(strict=False))

    def batch(self) -> Sequence[SentUpdate]:
        """Return the next updates that may be sent on the resource manager's own initiative; none is possible now."""
        now = self._clock()
        left_over = self._left_over()
        ready = [
            container
            for container in left_over
            if self._entries[container].retry_at <= now and container not in self._not_running
        ]
        in_use = union(left_over.values())
        free = [container for container in ready if self._exclusive.get(container, EMPTY).isdisjoint(in_use)]
        if not free and len(ready) == len(left_over):
            free = ready  # all wait for each other: an exchange
        updates = []
        for container in free[:MOST_PER_BATCH]:
            entry = self._entries[container]
            entry.sent(entry.wanted)
            updates.append(
                SentUpdate(container=container, values=entry.wanted, must_succeed=True, revision=entry.revision)
            )
        return updates

    def settle(self, updates: Sequence[SentUpdate], failed: Collection[ContainerId]) -> None:
        """Note the result of a batch. A container that another message was sent for meanwhile stays unknown."""
        for update in updates:
            entry = self._entries.get(update.container)
            if entry is None:
                continue
            if entry.revision != update.revision:
                entry.doubtful, entry.may_use = True, None
            elif update.container in failed:
                entry.failures += 1
                entry.retry_at = self._clock() + min(_LAST_RETRY_S, _FIRST_RETRY_S * 2 ** (entry.failures - 1))
            else:
                entry.accepted(update.values)
            self._sort(update.container)
        self.on_change()

    def next_retry_s(self) -> float | None:
        """Return the time until the next repetition of a failed update, in seconds; None without one."""
        times = [entry.retry_at for entry in map(self._entries.__getitem__, self._pending) if entry.failures]
        return max(0.0, min(times) - self._clock()) if times else None

    def _entry(self, container: ContainerId) -> _Entry:
        entry = self._entries.get(container)
        if entry is None:
            entry = self._entries[container] = _Entry()
        return entry

    def _updates(self, *, strict: bool, without: ContainerId | None = None) -> list[SentUpdate]:
        return [
            SentUpdate(container, self._entries[container].wanted, strict and bool(left_over))
            for container, left_over in self._left_over().items()
            if container != without
        ]

    def _send(self, updates: Sequence[SentUpdate]) -> Sequence[SentUpdate]:
        """Note updates of a reply: the result is assumed, except where exclusive CPUs depend on it."""
        taken = union(self._exclusive.values())
        in_the_way = {update.container for update in updates if self._entries[update.container].left_over(taken)}
        doubtful = in_the_way | self._not_running
        for update in updates:
            self._assume(update, known=update.container not in doubtful)
        return updates

    def _assume(self, update: SentUpdate, *, known: bool) -> None:
        """Note an update of a reply: as carried out, or where that is not known, as to be sent again."""
        if known:
            self._accept(update.container)
        else:
            self._entries[update.container].sent(update.values)
            self._sort(update.container)

    def _accept(self, container: ContainerId) -> None:
        """Note that a container has what is wanted."""
        entry = self._entries[container]
        entry.revision += 1
        entry.accepted(entry.wanted)
        self._pending.discard(container)
        self.on_change()

    def _sort(self, container: ContainerId) -> None:
        if self._entries[container].pending:
            self._pending.add(container)
        else:
            self._pending.discard(container)

    def _left_over(self) -> Mapping[ContainerId, Cpus]:
        """Return which exclusive CPUs the containers with pending values are to leave, those that leave some first."""
        taken = union(self._exclusive.values())
        found = {container: self._entries[container].left_over(taken) for container in sorted(self._pending)}
        leaving = {container: cpus for container, cpus in found.items() if cpus}
        return leaving | found
