"""A service of which one replica leads: the settings of its Lease, and the candidate that they make."""

import socket
from typing import Self

from pydantic import model_validator

from joulie_api.client import KubeClient
from joulie_api.election import Elector
from joulie_api.settings import PositiveDuration, ServiceSettings


class ElectedSettings(ServiceSettings):
    """Settings of a service of which one replica leads."""

    pod_name: str = ""
    """Name of the pod, in the lease's identity; empty: the name of the host."""
    pod_namespace: str = "joulie-system"
    """Namespace that the process runs in."""
    lease_duration: PositiveDuration = 15
    """Age of the last renewal from which another replica takes the lease, within two retry periods."""
    lease_renew_deadline: PositiveDuration = 10
    """Time without a renewal after which the leader stops."""
    lease_retry_period: PositiveDuration = 2
    """Interval at which the lease is renewed or tried."""

    @property
    def lease_namespace(self) -> str:
        """Namespace of the lease."""
        return self.pod_namespace

    @model_validator(mode="after")
    def _lease_times_in_order(self) -> Self:
        if not self.lease_duration > self.lease_renew_deadline > self.lease_retry_period:
            raise ValueError("LEASE_DURATION must be above LEASE_RENEW_DEADLINE, and that above LEASE_RETRY_PERIOD")
        return self


def elector_of(settings: ElectedSettings, client: KubeClient, lease: str) -> Elector:
    """Return this process as a candidate for the Lease of that name."""
    return Elector(
        client,
        namespace=settings.lease_namespace,
        name=lease,
        identity=settings.pod_name or socket.gethostname(),
        lease_duration_s=settings.lease_duration,
        renew_deadline_s=settings.lease_renew_deadline,
        retry_period_s=settings.lease_retry_period,
    )
