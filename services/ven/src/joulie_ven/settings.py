"""Settings of the VEN. See docs/settings.md."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from joulie_api.setting_values import Unit
from joulie_api.settings import Addr, PositiveDuration, ServiceSettings
from joulie_core.demand import WorkloadClass
from joulie_core.kinds.power_domain import DomainWatts, ParentName
from joulie_core.kinds.power_event import EventBaseline, SourceLoss
from joulie_ven.urls import SecureUrl

_Watts = Annotated[DomainWatts, Unit("W")]
_Name = Annotated[str, Field(min_length=1, max_length=128)]


class VenSettings(ServiceSettings):
    """Settings of the VEN, read from environment variables."""

    metrics_addr: Addr = ":8087"
    """Where /metrics, /healthz and /readyz are served; with port 0 a free one, which is logged."""
    vtn_url: Annotated[SecureUrl, Field(min_length=1)]
    """Base URL of the VTN, below which are `/programs` and `/events`. Its certificate is always verified; http is taken
    for the loopback interface alone."""
    vtn_token_url: SecureUrl = ""
    """Where tokens are requested; unset: where the VTN's `/auth/server` says."""
    vtn_credentials_dir: str = "/etc/joulie/vtn"
    """Directory with the files `client-id` and `client-secret`. They are read for each token, so that a change needs no
    restart."""
    vtn_ca_file: str = ""
    """File with the certificates (PEM) that verify the VTN and its token server; unset: those of the system."""
    vtn_scope: Annotated[str, Field(max_length=4096)] = ""
    """Scopes of the token, separated by spaces; unset: the server's default."""
    vtn_program: _Name
    """Name or id of the program whose events are followed."""
    vtn_poll_interval: PositiveDuration = 10.0
    """How often events are read, give or take a tenth; what follows from an event is delayed by it."""
    vtn_request_timeout: PositiveDuration = 10.0
    """Deadline of one request to the VTN."""
    ven_name: _Name
    """Name of this VEN, as the administrators of the VTN know it; `clientName` of reports."""
    ven_targets: tuple[_Name, ...] = ()
    """Targets that the VTN has granted: they are requested, and an event with other targets only is ignored. Unset:
    every event counts that the VTN returns."""
    power_domain: ParentName
    """PowerDomain that is limited."""
    site_other_watts: _Watts = 0
    """Watts of the site that are not in the PowerDomain, such as for cooling: taken from each import limit of the site.
    Too low a value lets the site exceed its limit."""
    simple_level_1_watts: _Watts | None = None
    """Limit of the PowerDomain at level 1 of a SIMPLE event; unset: an event with this level is refused."""
    simple_level_2_watts: _Watts | None = None
    """Limit at level 2."""
    simple_level_3_watts: _Watts | None = None
    """Limit at level 3."""
    may_affect: tuple[WorkloadClass, ...] = (WorkloadClass.STANDARD, WorkloadClass.PERFORMANCE)
    """`mayAffect` of the PowerEvents: the workload classes whose nodes may be lowered."""
    baseline: EventBaseline = EventBaseline.NONE
    """`baseline` of the PowerEvents, for reports."""
    if_source_lost: SourceLoss = SourceLoss.KEEP_UNTIL_END
    """`ifSourceLost` of the PowerEvents, while the VTN cannot be read: OpenADR keeps the schedule until its end, and
    then the subscribed capacity. The latter is kept whatever is set here."""
    source_timeout: Annotated[PositiveDuration, Field(ge=30, le=86_400)] = 300.0
    """`sourceTimeoutSeconds` of the PowerEvents; they are renewed three times in it."""
    source_lost_limit_watts: _Watts | None = None
    """`sourceLostLimitWatts` of the PowerEvents, for `IF_SOURCE_LOST=Limit`."""

    @model_validator(mode="after")
    def _loss_has_its_limit(self) -> Self:
        if (self.source_lost_limit_watts is not None) != (self.if_source_lost is SourceLoss.LIMIT):
            raise ValueError("SOURCE_LOST_LIMIT_WATTS belongs to IF_SOURCE_LOST=Limit, which needs it")
        if 3 * self.vtn_poll_interval > self.source_timeout:
            raise ValueError("VTN_POLL_INTERVAL must not be above a third of SOURCE_TIMEOUT")
        if not self.may_affect:
            raise ValueError("MAY_AFFECT must name a workload class")
        return self

    @property
    def simple_limits(self) -> tuple[int | None, int | None, int | None]:
        """Limits of the levels 1 to 3 in watts, None where there is none."""
        return self.simple_level_1_watts, self.simple_level_2_watts, self.simple_level_3_watts
