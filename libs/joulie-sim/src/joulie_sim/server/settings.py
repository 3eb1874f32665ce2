"""Settings of the simulator, read from environment variables."""

from typing import Annotated

from pydantic import Field

from joulie_api.settings import Addr, Duration, ServiceSettings


class SimSettings(ServiceSettings):
    """Settings of joulie-sim."""

    metrics_addr: Addr = ":18080"
    """Where telemetry, controls, state, faults, metrics and health are served."""

    sim_addr: Addr | None = None
    """A second address for telemetry, controls, state and faults, if metrics need a port of their own."""

    sim_speed: Annotated[float, Field(gt=0, le=10_000)] = 1.0
    """Simulated seconds per second: work and energy progress faster by this factor, watts do not change."""

    sim_node_selector: str = ""
    """Label selector of the nodes to simulate; the default is all of them."""

    sim_pod_ttl: Duration | None = None
    """Time after which a completed pod is deleted; unset keeps it. It holds no resources either way."""
