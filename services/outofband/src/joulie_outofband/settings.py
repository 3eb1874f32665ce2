"""Settings of the out-of-band service. See docs/settings.md."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from joulie_api.elected import ElectedSettings
from joulie_api.settings import Addr, PositiveDuration
from joulie_core.kinds.node_bmc import GRACEFUL_OFF_S, POWER_REPEAT_S, STATUS_HEARTBEAT_S


class OutOfBandSettings(ElectedSettings):
    """Settings of the out-of-band service, read from environment variables."""

    metrics_addr: Addr = ":8084"
    """Where /metrics, /healthz and /readyz are served; with port 0 a free one, which is logged."""
    bmc_poll_interval: PositiveDuration = 30.0
    """How often a BMC is read. Many have a new power reading once a minute only."""
    bmc_transition_interval: PositiveDuration = 5.0
    """How often a BMC is read while its server powers on or off, or boots."""
    bmc_request_timeout: PositiveDuration = 10.0
    """Deadline of one request to a BMC; some take two seconds for an ordinary one, and few 25 s: then 40 s, with a
    `BMC_PASS_TIMEOUT` of 10 min."""
    bmc_pass_timeout: PositiveDuration = 90.0
    """Deadline of all requests of one pass over a BMC; the first one of a process discovers what the BMC has, by about
    12 requests. The operator takes a reading for unknown after three minutes."""
    bmc_credentials_retry: PositiveDuration = 300.0
    """How long a BMC is left alone after it has refused the credentials, since BMCs lock accounts after a few attempts;
    and the longest `Retry-After` of a busy BMC that is followed."""
    graceful_off_timeout: PositiveDuration = GRACEFUL_OFF_S
    """Time that a server has to shut down before its power is forced off."""
    power_repeat_interval: PositiveDuration = POWER_REPEAT_S
    """Time after which a request to power on, or to force the power off, is repeated if it had no effect."""
    boot_timeout: PositiveDuration = 1200.0
    """Time from the request to power on within which the Node has to be ready; some servers need ten minutes."""
    status_heartbeat: Annotated[PositiveDuration, Field(le=STATUS_HEARTBEAT_S)] = STATUS_HEARTBEAT_S
    """How often the status of a NodeBMC is written when nothing but readings has changed. The operator takes a reading
    for unknown after three of the BMC's intervals, or three minutes if that is longer."""
    pod_namespace: str = "joulie-system"
    """Namespace of the Lease and of the Secrets with the credentials of BMCs."""

    @model_validator(mode="after")
    def _times_in_order(self) -> Self:
        if self.bmc_request_timeout > self.bmc_pass_timeout:
            raise ValueError("BMC_REQUEST_TIMEOUT must not be above BMC_PASS_TIMEOUT, within which all requests are")
        return self
