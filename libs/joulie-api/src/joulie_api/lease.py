"""What one replica knows of a Lease, and what it may do. Pure: monotonic times and what was read are arguments.

A `LeaseCandidate` considers itself leading only until a moment that is earlier, by the margin between renew deadline
and lease duration, than any moment at which another candidate takes the lease, as long as their clocks run at
nearly the same rate and nobody deletes the Lease. The clocks need not agree on the time.

Why that holds: the holder counts from before it sent its renewal, others from after they saw it, and both for the
duration written in it; a lease is taken by replacing exactly the version that ran out, which fails if it was renewed.
"""

import math
from dataclasses import dataclass
from typing import Final

import msgspec

from joulie_api.errors import DecodeError


class LeaseSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """``spec`` of a Lease; times are RFC 3339 with microseconds, in UTC, and are only for people to read."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str


class Lease(msgspec.Struct, frozen=True):
    """A Lease as read."""

    metadata: _Meta
    spec: LeaseSpec = LeaseSpec()


_LEASE: Final = msgspec.json.Decoder(Lease)


def decode_lease(raw: bytes) -> Lease:
    """A Lease. Raises DecodeError."""
    try:
        return _LEASE.decode(raw)
    except msgspec.MsgspecError as error:
        raise DecodeError(f"not a Lease: {error}") from error


@dataclass(frozen=True, slots=True)
class Write:
    """Attempt: create the lease (``resource_version`` None) or replace exactly that version of it."""

    spec: LeaseSpec
    resource_version: str | None


@dataclass(frozen=True, slots=True)
class StandBy:
    """Somebody else leads, at least for another ``wait_s``."""

    wait_s: float


class LeaseCandidate:
    """One replica. ``now`` is always its own monotonic clock, ``wall`` the text that goes into the Lease."""

    def __init__(self, identity: str, *, lease_duration_s: float, renew_deadline_s: float) -> None:
        self.identity = identity
        self._lease_duration_s = lease_duration_s
        self._renew_deadline_s = renew_deadline_s
        #: The lease as last read or written, None when there is none or it is unknown.
        self.lease: Lease | None = None
        #: When this process first saw that version, by its own clock: expiry counts from here, not from renewTime.
        self._seen_at = 0.0
        #: Start of the last write of ours that the server took; None while not holding.
        self._renewed_at: float | None = None

    @property
    def holding(self) -> bool:
        """Whether the last thing known is that the lease is ours, expired or not."""
        return self._renewed_at is not None

    @property
    def lead_until(self) -> float:
        """Until when this process may act as leader; in the past while it does not hold the lease.

        Earlier than the lease's end by what is between renew deadline and duration: time for requests under way to land
        and for clocks that run at slightly different rates.
        """
        return float("-inf") if self._renewed_at is None else self._renewed_at + self._renew_deadline_s

    def is_leading(self, now: float) -> bool:
        """Whether this process may act as leader at ``now``."""
        return now < self.lead_until

    def on_read(self, lease: Lease | None, now: float) -> None:
        """The lease was read from the server."""
        if lease is None or self.lease is None or lease.metadata != self.lease.metadata:
            self._seen_at = now
        self.lease = lease
        if lease is None or lease.spec.holder_identity != self.identity:
            self._renewed_at = None  # deleted or taken: in both cases somebody else may be leading

    def on_written(self, lease: Lease, started_at: float, now: float) -> None:
        """A write of ours, sent at ``started_at``, was taken: the lease runs from then, the earliest it can have."""
        self.on_read(lease, now)
        self._renewed_at = started_at

    def attempt(self, now: float, wall: str) -> Write | StandBy:
        """What to do about the lease as last read: renew, take it, or wait for it to run out."""
        if self.lease is None:
            return Write(self._claim(wall, acquired=wall, transitions=0), None)
        spec, version = self.lease.spec, self.lease.metadata.resource_version
        transitions = spec.lease_transitions or 0
        if spec.holder_identity == self.identity:
            # Ours, perhaps by a write whose answer was lost: renewing makes it certain.
            return Write(self._claim(wall, acquired=spec.acquire_time or wall, transitions=transitions), version)
        if spec.holder_identity:
            expires_in_s = self._seen_at + (spec.lease_duration_seconds or self._lease_duration_s) - now
            if expires_in_s > 0:
                return StandBy(expires_in_s)
        return Write(self._claim(wall, acquired=wall, transitions=transitions + 1), version)

    def release(self, wall: str) -> Write | None:
        """Stop leading; what to write so that others need not wait, None when the lease is not ours."""
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
            lease_transitions=transitions,
        )
