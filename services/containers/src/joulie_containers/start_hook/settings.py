"""Settings of the start hook, from environment variables."""

from typing import Annotated

from pydantic import Field

from joulie_api.settings import Addr, Duration, ProcessSettings


class StartHookSettings(ProcessSettings):
    """Settings of `joulie-containers start-hook`."""

    metrics_addr: Addr = ":8087"
    """Address of /metrics, /healthz and /readyz; port 0 takes a free port, which the log names."""

    nri_socket: str = "/var/run/nri/nri.sock"
    """Socket of the container runtime. Where it is not there, as while NRI is off, it is tried again and again, and
    limits are lifted by polling."""

    plugin_name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.+-]+$")] = "joulie-start-hook"
    """Name of the plugin at the runtime."""

    plugin_index: Annotated[str, Field(pattern=r"^[0-9]{2}$")] = "95"
    """Two digits: the order in which the runtime calls its plugins."""

    start_hook_socket: str = "/run/joulie/start-hook.sock"
    """Socket on which the controller is asked before a container is created."""

    start_hook_controller_uid: Annotated[int, Field(ge=0)] = 65532
    """User of the controller, which is served besides root."""

    start_hook_controller_gid: Annotated[int, Field(ge=0)] = 65532
    """Group of the controller, and of the socket."""

    start_deadline: Annotated[Duration, Field(ge=0.05, le=1.5)] = 0.5
    """How long a container waits until limits are lifted; then it starts. At most half of what the runtime allows its
    plugins, which it disconnects after 2 s by default."""
