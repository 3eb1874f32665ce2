"""State of one candidate for a Lease, and its decisions. No I/O: monotonic times and what was read are arguments.

A `LeaseCandidate` considers itself leading only until a moment that is earlier, by the margin between renew deadline
and lease duration, than any moment at which another candidate takes the lease, as long as their clocks run at
nearly the same rate and the Lease is not deleted. The clocks need not agree on the time.

Reason: the holder counts from before it sent its renewal, others from after they saw it, and both for the duration in
the Lease; a candidate takes a lease by replacing exactly the version that expired, which fails if it was renewed.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec

from joulie_api.decoding import decode

_MOST: Final = 2**31 - 1
#: An integer of a Lease, as an API server stores it.
Int32 = Annotated[int, msgspec.Meta(ge=-_MOST - 1, le=_MOST)]


class LeaseSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """`spec` of a Lease; times are RFC 3339 with microseconds, in UTC, and are informative only."""

    holder_identity: str | None = None
    lease_duration_seconds: Int32 | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: Int32 | None = None


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    #: Required: a write without a version would replace the Lease of another holder.
    resource_version: str


class Lease(msgspec.Struct, frozen=True):
    """A Lease as read."""

    metadata: _Meta
    spec: LeaseSpec = LeaseSpec()


_LEASE: Final = msgspec.json.Decoder(Lease)


def decode_lease(raw: bytes) -> Lease:
    """Decode a Lease.

    Raises:
        DecodeError: not a Lease.
    """
    return decode(_LEASE.decode, raw, "Lease")


@dataclass(frozen=True, slots=True)
class Write:
    """Attempt: create the lease (`resource_version` None) or replace exactly that version of it."""

    spec: LeaseSpec
    resource_version: str | None


@dataclass(frozen=True, slots=True)
class StandBy:
    """Another process leads, at least for another `wait_s`."""

    wait_s: float


class LeaseCandidate:
    """One candidate. `now` is always its own monotonic clock, `wall` the time that is written to the Lease."""

    def __init__(self, identity: str, *, lease_duration_s: float, renew_deadline_s: float) -> None:
        self.identity = identity
        self._lease_duration_s = lease_duration_s
        self._renew_deadline_s = renew_deadline_s
        #: The lease as last read or written, None when there is none or it is unknown.
        self.lease: Lease | None = None
        #: When this process first read that version, by its own clock: expiry counts from here, not from renewTime.
        self._seen_at = 0.0
        #: Start of the last write by this process that the server accepted; None while not holding.
        self._renewed_at: float | None = None
        self._least_transitions = 0

    @property
    def holding(self) -> bool:
        """Whether this process holds the lease as far as it knows, expired or not."""
        return self._renewed_at is not None

    @property
    def lead_until(self) -> float:
        """End of the time in which this process may act as leader; in the past while it does not hold the lease.

        Earlier than the lease's end by the difference of renew deadline and duration, which leaves time for requests in
        flight to complete and for clocks that run at slightly different rates.
        """
        return float("-inf") if self._renewed_at is None else self._renewed_at + self._renew_deadline_s

    def is_leading(self, now: float) -> bool:
        """Return whether this process may act as leader at `now`."""
        return now < self.lead_until

    def transitions(self, above: int) -> int | None:
        """Return `leaseTransitions` of the lease that is held, where it is more than `above`.

        Else None; where the lease is held, the next renewal makes it so much, up to the most that a Lease can have.
        """
        if self.lease is None or not self.holding:
            return None
        found = self.lease.spec.lease_transitions or 0
        if found <= above:
            self._least_transitions = above + 1
            return None
        return found

    def on_read(self, lease: Lease | None, now: float) -> None:
        """Record the lease as read from the server."""
        if lease is None or self.lease is None or lease.metadata != self.lease.metadata:
            self._seen_at = now
        self.lease = lease
        if lease is None or lease.spec.holder_identity != self.identity:
            self._renewed_at = None  # deleted or taken: in both cases another process may be leading

    def on_written(self, lease: Lease, started_at: float, now: float) -> None:
        """Record an accepted write, sent at `started_at`: the lease counts from then, its earliest possible start."""
        self.on_read(lease, now)
        self._renewed_at = started_at

    def attempt(self, now: float, wall: str) -> Write | StandBy:
        """Decide what to do about the lease as last read: renew it, take it, or wait for it to expire."""
        if self.lease is None:
            return Write(self._claim(wall, acquired=wall, transitions=0), None)
        spec, version = self.lease.spec, self.lease.metadata.resource_version
        transitions = spec.lease_transitions or 0
        if spec.holder_identity == self.identity:
            # Held, perhaps by a write whose answer was lost: a renewal makes it certain.
            return Write(self._claim(wall, acquired=spec.acquire_time or wall, transitions=transitions), version)
        if spec.holder_identity:
            expires_in_s = self._seen_at + (spec.lease_duration_seconds or self._lease_duration_s) - now
            if expires_in_s > 0:
                return StandBy(expires_in_s)
        return Write(self._claim(wall, acquired=wall, transitions=transitions + 1), version)

    def release(self, wall: str) -> Write | None:
        """Stop leading; return the write that releases the lease, None when this process does not hold it."""
        self._renewed_at = None
        if self.lease is None or self.lease.spec.holder_identity != self.identity:
            return None
        spec = msgspec.structs.replace(self.lease.spec, holder_identity="", lease_duration_seconds=1, renew_time=wall)
        return Write(spec, self.lease.metadata.resource_version)

    def _claim(self, wall: str, *, acquired: str, transitions: int) -> LeaseSpec:
        return LeaseSpec(
            holder_identity=self.identity,
            lease_duration_seconds=math.ceil(self._lease_duration_s),
            acquire_time=acquired,
            renew_time=wall,
            lease_transitions=min(max(transitions, self._least_transitions), _MOST),
        )
