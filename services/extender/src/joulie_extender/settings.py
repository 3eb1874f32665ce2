"""Settings of the extender. See docs/settings.md."""

from typing import Annotated

from pydantic import AfterValidator, Field

from joulie_api.settings import Addr, Duration, ServiceSettings
from joulie_core.powerest.marginal import Coefficients
from joulie_core.scoring.registry import DEFAULT_SCORE, SCORE_POLICIES

Coefficient = Annotated[float, Field(ge=0, le=10)]
NonNegative = Annotated[float, Field(ge=0)]
_DEFAULTS = Coefficients()


def _known_score(name: str) -> str:
    if name not in SCORE_POLICIES:
        raise ValueError(f"unknown score policy; known: {', '.join(SCORE_POLICIES)}")
    return name


class ExtenderSettings(ServiceSettings):
    """Settings of the extender, read from environment variables."""

    metrics_addr: Addr = ":9877"
    """Where /metrics, /healthz and /readyz are served; port 0 takes a free one, which the log names."""

    extender_addr: Addr = ":9876"
    """Address for kube-scheduler; port 0 takes a free one, which the log names."""

    cache_ttl: Duration = 30.0
    """How old watched data may be while the API server cannot be read, before every node counts as stale and the
    process as not ready. A watch that is open and merely quiet is not old: it has 70 s more, since the API server sends
    nothing but a bookmark a minute when nothing changes."""

    twin_staleness_threshold: Duration = 300.0
    """Age from which a NodeTwin is not believed: its node is scored 50. The operator refreshes twins far more often."""

    marginal_cpu_util_coeff: Coefficient = _DEFAULTS.cpu_util
    """Share of a hardware thread's maximum power that a pod draws on each thread it requests; Kubernetes counts CPU in
    threads."""

    marginal_gpu_util_coeff_standard: Coefficient = _DEFAULTS.gpu_util_standard
    """Share of a GPU's maximum power that a standard pod draws on each of its GPUs."""

    marginal_gpu_util_coeff_performance: Coefficient = _DEFAULTS.gpu_util_performance
    """Share of a GPU's maximum power that a performance pod draws on each of its GPUs; they drive GPUs harder."""

    enable_facility_metrics: bool = False
    """Weight a pod's watts with the estimated PUE of the node's twin, where that is above 1."""

    telemetry_interval: Duration = 20.0
    """Time after which a power measurement surely contains a pod that was bound before: the agent's interval. Until a
    measurement that much younger than the binding arrives, the pod's estimated watts are added to its node."""

    assumed_window: Duration = 2.0
    """How long a pod that was just scored counts on the best node without being seen there. kube-scheduler queries the
    next pods before this binding's watch event is here; that takes milliseconds, on a busy API server up to a second. A
    pod that was bound elsewhere, or not at all, weighs on the wrong node for no longer than this. 0s: wait for the
    event."""

    count_in_flight: bool = True
    """Add the estimated watts of pods that are bound, or about to be, and not in the measurement yet. Without it a
    burst piles up on the nodes that were best when it began."""

    score_policy: Annotated[str, AfterValidator(_known_score)] = DEFAULT_SCORE.name
    """How nodes are scored: `headroom_v1` by the power that is left, `energy_v1` by the joules of the pod's work,
    `energy_v2` by these with the node's idle power, so that nodes fill and others can sleep; see docs/scores.md."""

    score_max: Annotated[int, Field(ge=1, le=1000)] = 100
    """Score of a perfect node. kube-scheduler multiplies an extender's score by 10, so that 10 here weighs as much as
    one of its own plugins; 100 lets power decide."""

    device_class_gpus_json: dict[str, NonNegative] = Field(default_factory=dict)
    """GPUs that a device of a DRA device class counts as in the estimate of a pod's watts, by class:
    {"small-mig": 0.25, "nic": 0}. The classes of NVIDIA's, AMD's and Intel's drivers are known; any other counts as a
    whole GPU for each device, as a pod must not look cheaper than it is."""

    @property
    def coefficients(self) -> Coefficients:
        """The coefficients of the power estimate."""
        return Coefficients(
            cpu_util=self.marginal_cpu_util_coeff,
            gpu_util_standard=self.marginal_gpu_util_coeff_standard,
            gpu_util_performance=self.marginal_gpu_util_coeff_performance,
        )
