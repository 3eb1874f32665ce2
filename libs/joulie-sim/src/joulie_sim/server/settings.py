"""What the simulator can be told."""

from typing import Annotated

from pydantic import Field

from joulie_api.settings import Addr, Duration, ServiceSettings


class SimSettings(ServiceSettings):
    """Settings of joulie-sim."""

    sim_addr: Addr = ":18080"
    """Where telemetry, controls, state, faults, metrics and health are served."""

    metrics_addr: Addr = "127.0.0.1:0"
    """A second place for metrics and health; they are at SIM_ADDR too, so that one port is enough for everything."""

    sim_speed: Annotated[float, Field(gt=0, le=10_000)] = 1.0
    """Simulated seconds in a second: work and energy run that much faster, watts stay what they are."""

    sim_node_selector: str = ""
    """Label selector of the nodes to simulate; the default is all of them."""

    sim_pod_ttl: Duration | None = None
    """How long a pod that has done its work is kept; unset keeps it. It holds no resources either way."""
