"""Statuses of custom resources as they are written: each on the version of the object that it was decided by.

Guarantees that nothing is written a second time over one version of an object; that a write that fails stops no other,
is logged once, and is repeated with the next call; and that what was decided before limits changed is left to the next
decision.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Generic, TypeVar

import structlog

from joulie_api.apply import MAX_IN_FLIGHT, FencedWriter, write_each
from joulie_api.errors import KubeError, NotFound, NotLeader
from joulie_api.failure_log import FailureLog
from joulie_api.failures import Failures
from joulie_api.resources import Resource
from joulie_api.wire import Versioned
from joulie_core.kinds.base import Model

_log = structlog.get_logger()
_Kind = TypeVar("_Kind", bound=Model)


class StatusWriter(Generic[_Kind]):
    """The writer of the statuses of one resource, of one operator.

    Args:
        writer: where they go.
        resource: of the objects.
        failures: counts defects.
        noun: names one of the objects in the log.
        key: of an object's name in the log.
    """

    def __init__(self, writer: FencedWriter, resource: Resource, failures: Failures, *, noun: str, key: str) -> None:
        self._writer = writer
        self._resource = resource
        self._contained = failures
        self._work = f"publish {noun}"
        self._key = key
        #: Versions of objects whose status was written since: until another one is seen, nothing is.
        self._written_over: dict[str, str] = {}
        self._failures = FailureLog(
            _log,
            failed=f"status of {noun} not written, will be repeated",
            recovered=f"status of {noun} written",
        )

    async def publish(
        self,
        objects: Iterable[Versioned[_Kind]],
        due: Callable[[Versioned[_Kind]], Model | None],
        is_superseded: Callable[[], bool],
        *,
        unreadable: Collection[str] = (),
    ) -> None:
        """Write the statuses that are due, side by side.

        Args:
            objects: all that there are and can be read.
            due: returns the status of one; None where none is to be written.
            is_superseded: tells, while this goes on, whether limits have changed since: nothing more is written then.
            unreadable: names of those that cannot be read.

        Raises:
            NotLeader: this process must not write any more.
        """
        listed = list(objects)
        names = {each.name for each in listed}
        self._written_over = {name: each for name, each in self._written_over.items() if name in names}
        self._failures.retain(lambda subject: subject[self._key] in names or subject[self._key] in unreadable)
        works = (self._publish_one(each, due, is_superseded) for each in listed)
        await write_each(works, concurrency=MAX_IN_FLIGHT)

    async def _publish_one(
        self,
        found: Versioned[_Kind],
        due: Callable[[Versioned[_Kind]], Model | None],
        is_superseded: Callable[[], bool],
    ) -> None:
        version = found.metadata.resource_version
        if self._written_over.get(found.name) == version or is_superseded():
            return
        with self._contained.contained(self._work, **{self._key: found.name}):
            status = due(found)
            if status is None:
                return
            body = {"metadata": {"resourceVersion": version}, "status": status.dump()}
            if await self.write(found.name, body):
                self._written_over[found.name] = version

    async def write(self, name: str, body: Mapping[str, object]) -> bool:
        """Apply a status; return False where that failed, or the object is gone.

        Raises:
            NotLeader: this process must not write any more.
        """
        subject = {self._key: name}
        try:
            await self._writer.apply(self._resource, name, body, status=True)
        except NotLeader:
            raise
        except NotFound:
            # Deleted meanwhile.
            return False
        except KubeError as error:
            self._failures.failed(error, **subject)
            return False
        self._failures.recovered(**subject)
        return True
