"""Leader election among the replicas of a service, by a Lease.

Guarantees: at any moment `Elector.is_leading` is true in at most one process (see `joulie_api.lease`). A holder that
cannot renew stops leading before another candidate may start; a candidate takes over at most a lease duration and two
retry periods after the holder died, if the server answers at once, and at its next attempt when the holder released the
lease. A process that was paused and continues is not leading at once, since the monotonic clock has continued.

Limits: a request already sent by a former leader may still arrive later. There is no guarantee on a machine that
suspends, where the monotonic clock stops.

Source: Kubernetes coordination.k8s.io/v1 Lease; like client-go, expiry is judged by the time of observation.
"""

import asyncio
import random
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
import structlog

from joulie_api.client import KubeClient
from joulie_api.errors import Conflict, KubeError, LeadershipLost, NotFound
from joulie_api.failure_log import FailureLog
from joulie_api.lease import Lease, LeaseCandidate, StandBy, Write, decode_lease
from joulie_api.resources import LEASES
from joulie_core.timestamps import rfc3339

#: Share of the renew deadline for one attempt, as in client-go: enough for a slow server, and if the server does not
#: answer there is time for another attempt.
_CALL_SHARE: Final = 0.5
#: Share of the retry period for the release: the process is about to exit, and the lease expires anyway.
_RELEASE_SHARE: Final = 0.75
#: Candidates wait between this share of the retry period and all of it, so that they do not stay synchronized.
_JITTER_FLOOR: Final = 0.75

_log = structlog.get_logger()


class Elector:
    """A candidate for one Lease. `identity` gets a random suffix: two processes must never share one.

    Defaults are those of Kubernetes' own controllers: a lease of 15 s, abandoned after 10 s without renewal, tried
    every 2 s.

    Raises:
        ValueError: unless lease_duration_s > renew_deadline_s > retry_period_s > 0.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        namespace: str,
        name: str,
        identity: str,
        lease_duration_s: float = 15,
        renew_deadline_s: float = 10,
        retry_period_s: float = 2,
        chance: Callable[[], float] = random.random,
    ) -> None:
        if not lease_duration_s > renew_deadline_s > retry_period_s > 0:
            raise ValueError(
                f"need lease duration > renew deadline > retry period > 0, got {lease_duration_s} s, "
                f"{renew_deadline_s} s, {retry_period_s} s"
            )
        self.identity = f"{identity}_{uuid.uuid4().hex[:8]}"
        self._client = client
        self._namespace = namespace
        self._name = name
        self._retry_period_s = retry_period_s
        self._renew_deadline_s = renew_deadline_s
        self._chance = chance
        self._candidate = LeaseCandidate(
            self.identity, lease_duration_s=lease_duration_s, renew_deadline_s=renew_deadline_s
        )
        self._clock: Callable[[], float] | None = None
        #: False when the lease may have changed since it was last read or written.
        self._up_to_date = False
        self._log = _log.bind(lease=f"{namespace}/{name}", identity=self.identity)
        self._failures = FailureLog(self._log, failed="lease request failed", recovered="lease request recovered")

    def is_leading(self) -> bool:
        """Return whether this process may act as leader now: the fence, to be checked right before each write.

        The event loop must read its clock at each call, as asyncio's own loops do, not once per iteration.
        """
        return self._clock is not None and self._candidate.is_leading(self._clock())

    def term(self, above: int = -1) -> int | None:
        """Return the number of this leader: it grows with each change of leader, and with each restart of one.

        None while this process does not lead, or where the number is not more than `above`: a Lease that was deleted
        counts from 0 again. Then the next renewal of the lease makes it more.
        """
        return self._candidate.transitions(above) if self.is_leading() else None

    @property
    def holder(self) -> str:
        """Holder of the lease when last read, "" if none."""
        lease = self._candidate.lease
        return (lease.spec.holder_identity or "") if lease else ""

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, then run `lead` while renewing it; release it when `lead` has ended.

        Returns when `lead` returns. Cancelling cancels `lead` first, then releases.

        Raises:
            LeadershipLost: leadership was lost and `lead` cancelled; the process must exit, since another leader may
                have changed what this one knew.
            ExceptionGroup: of what `lead` raises.
        """
        self._clock = asyncio.get_running_loop().time
        try:
            await self._acquire()
            self._log.info("leading")
            await self._lead(lead)
        finally:
            await self._release()

    async def _acquire(self) -> None:
        while True:
            self._up_to_date = False  # others write it too
            pause_s = await self._attempt()
            if self.is_leading():
                return
            await asyncio.sleep(pause_s)

    async def _lead(self, lead: Callable[[], Awaitable[None]]) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                renewing = group.create_task(self._renew(), name=f"renew lease {self._name}")
                await lead()
                renewing.cancel()
        except BaseExceptionGroup as group_error:
            lost, rest = group_error.split(LeadershipLost)
            if lost is None:
                raise
            # All other failures are consequences: writes not sent, work cancelled.
            raise LeadershipLost(str(lost.exceptions[0])) from rest

    async def _renew(self) -> None:
        """Renew until that fails for the renew deadline or another process holds the lease; raise LeadershipLost."""
        reason = f"not renewed within {self._renew_deadline_s} s"
        try:
            async with asyncio.timeout_at(self._candidate.lead_until) as limit:
                while self._candidate.holding:
                    await asyncio.sleep(self._pause_s())
                    await self._attempt()
                    if self._candidate.holding:
                        limit.reschedule(self._candidate.lead_until)
            reason = f"held by {self.holder}" if self.holder else "the lease was deleted"
        except TimeoutError:
            pass
        self._log.error("leadership lost", reason=reason, problem=self._failures.problem())
        raise LeadershipLost(f"lease {self._namespace}/{self._name}: {reason}")

    async def _attempt(self) -> float:
        """Read the lease if needed, act on it, and return the seconds until the next attempt."""
        try:
            async with asyncio.timeout(self._renew_deadline_s * _CALL_SHARE):
                pause_s = await self._read_and_write()
        except Conflict:
            # Preceded by another candidate, or by an earlier write of this process whose answer was lost.
            self._up_to_date = False
            return self._pause_s()
        except (KubeError, TimeoutError) as error:
            # Refused or not answered: only the next read shows whether a write succeeded.
            self._up_to_date = False
            self._failures.failed(error)
            return self._pause_s()
        self._failures.recovered()
        return pause_s

    async def _read_and_write(self) -> float:
        if not self._up_to_date:
            lease = await self._read()
            self._candidate.on_read(lease, self._now())
        match self._candidate.attempt(self._now(), _wall()):
            case StandBy(wait_s):
                return min(wait_s, self._pause_s())
            case Write() as write:
                started_at = self._now()
                lease = await self._write(write)
                self._candidate.on_written(lease, started_at, self._now())
                self._up_to_date = True
                return self._pause_s()

    async def _read(self) -> Lease | None:
        try:
            return decode_lease(await self._client.get(LEASES, self._name, self._namespace))
        except NotFound:
            return None

    async def _write(self, write: Write) -> Lease:
        self._up_to_date = False  # until the server has answered, and permanently if this is cancelled
        metadata = {"name": self._name, "namespace": self._namespace}
        body = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": metadata,
            "spec": msgspec.to_builtins(write.spec),
        }
        if write.resource_version is None:
            return decode_lease(await self._client.create(LEASES, body, self._namespace))
        metadata["resourceVersion"] = write.resource_version
        return decode_lease(await self._client.replace(LEASES, self._name, body, self._namespace))

    async def _release(self) -> None:
        """Release the lease if this process holds it. If that fails, the lease expires."""
        try:
            async with asyncio.timeout(self._retry_period_s * _RELEASE_SHARE):
                while not await self._try_release():
                    pass
        except (KubeError, TimeoutError) as error:
            self._log.warning("releasing lease failed, it will expire", error=str(error))

    async def _try_release(self) -> bool:
        """Return False when an earlier renewal of this process, interrupted by shutdown, arrived in between."""
        if not self._up_to_date:
            self._candidate.on_read(await self._read(), self._now())
        write = self._candidate.release(_wall())
        if write is not None:
            try:
                await self._write(write)
            except Conflict:
                return False
            self._log.info("lease released")
        return True

    def _pause_s(self) -> float:
        return self._retry_period_s * (_JITTER_FLOOR + (1 - _JITTER_FLOOR) * self._chance())

    def _now(self) -> float:
        assert self._clock is not None, "set by run"
        return self._clock()


def _wall() -> str:
    """Return the current time in the format of a Lease."""
    return rfc3339(time.time(), "microseconds")
