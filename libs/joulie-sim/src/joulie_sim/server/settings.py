"""Settings of the simulator."""

from typing import Annotated

from pydantic import Field

from joulie_api.settings import Addr, Duration, ServiceSettings


class SimSettings(ServiceSettings):
    """Settings of joulie-sim."""

    metrics_addr: Addr = ":18080"
    """Where everything is served: telemetry, controls, state, faults, metrics and health."""

    sim_addr: Addr | None = None
    """A second address for telemetry, controls, state and faults, where metrics are not to be on the same port."""

    sim_speed: Annotated[float, Field(gt=0, le=10_000)] = 1.0
    """Simulated seconds in a second: work and energy run that much faster, watts stay what they are."""

    sim_node_selector: str = ""
    """Label selector of the nodes to simulate; the default is all of them."""

    sim_pod_ttl: Duration | None = None
    """How long a pod that has done its work is kept; unset keeps it. It holds no resources either way."""
