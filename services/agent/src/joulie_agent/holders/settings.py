"""Settings of the process that asks the kubelet, from environment variables."""

from typing import Annotated

from pydantic import Field

from joulie_api.settings import Addr, ProcessSettings


class HoldersSettings(ProcessSettings):
    """Settings of `joulie-agent holders`."""

    metrics_addr: Addr = ":8086"
    """Address of /metrics, /healthz and /readyz; port 0 takes a free port, which the log names."""

    kubelet_socket: str = "/var/lib/kubelet/pod-resources/kubelet.sock"
    """Socket of the kubelet's pod-resources API."""

    holders_socket: str = "/run/joulie/holders.sock"
    """Socket on which the controller gets the kubelet's last answer."""

    holders_controller_uid: Annotated[int, Field(ge=0)] = 65532
    """User of the controller, which is served besides root."""

    holders_controller_gid: Annotated[int, Field(ge=0)] = 65532
    """Group of the controller, and of the socket."""
