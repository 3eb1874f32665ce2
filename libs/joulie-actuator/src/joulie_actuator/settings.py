"""The actuator's settings, read from environment variables without a validation library.

Every invalid value is reported at once. Shared by the subcommands that run without the controller:
`actuator`, `restore` and `doctor`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, get_args

import msgspec
from msgspec import Meta

_MOUNTED_SYS: Final = Path("/host-sys")
_OWN_SYS: Final = Path("/sys")
_LARGEST_ID: Final = 2**32 - 2


class ActuatorSettingsError(Exception):
    """Some values are invalid; the message has a line for each."""


def _sys_root() -> str:
    return str(_MOUNTED_SYS if _MOUNTED_SYS.is_dir() else _OWN_SYS)


class ActuatorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings; the environment variables are the names in capitals."""

    host_sys_root: Annotated[
        str, Meta(title="path", description="Where the node's /sys is mounted; /sys where there is no /host-sys.")
    ] = msgspec.field(default_factory=_sys_root)
    host_proc_root: Annotated[
        str,
        Meta(
            title="path",
            description="Where the node's /proc is mounted; read for the CPU model and the memory size only.",
        ),
    ] = "/proc"
    host_irq_root: Annotated[
        str,
        Meta(
            title="path",
            description="Where the node's /proc/irq is mounted; written where a container policy moves interrupts.",
        ),
    ] = "/proc/irq"
    state_dir: Annotated[
        str,
        Meta(
            title="path",
            description="Directory of the journals of originals. It must outlive the container and may be in memory, "
            "since a boot resets every limit.",
        ),
    ] = "/var/lib/joulie"
    actuator_socket: Annotated[
        str,
        Meta(
            title="path",
            description="Path of the socket; its directory is mounted into the controller's container too.",
        ),
    ] = "/run/joulie/actuator.sock"
    actuator_controller_uid: Annotated[
        int,
        Meta(ge=0, le=_LARGEST_ID, title="uid", description="User of the controller, which is served besides root."),
    ] = 65532
    actuator_controller_gid: Annotated[
        int, Meta(ge=0, le=_LARGEST_ID, title="gid", description="Group of the controller, and of the socket.")
    ] = 65532
    actuator_stop_grace: Annotated[
        float,
        Meta(
            ge=0,
            le=600,
            title="s",
            description="How long a stopping actuator retries limits that cannot be restored; keep it below the "
            "pod's termination grace period.",
        ),
    ] = 20.0
    dvfs_min_freq_khz: Annotated[
        int,
        Meta(
            gt=0,
            title="kHz",
            description="Maximum frequency of a throttled policy, raised to the lowest that its hardware supports.",
        ),
    ] = 1_500_000


def read_settings(env: Mapping[str, str]) -> ActuatorSettings:
    """Read the environment; an empty variable counts as unset.

    Raises:
        ActuatorSettingsError: some values are invalid.
    """
    values: dict[str, Any] = {}
    faults: list[str] = []
    for setting in msgspec.structs.fields(ActuatorSettings):
        name = setting.name.upper()
        if text := env.get(name, ""):
            try:
                values[setting.name] = msgspec.convert(text, setting.type, strict=False)
            except msgspec.ValidationError as error:
                faults.append(f"{name}={text!r}: {error}")
    if faults:
        raise ActuatorSettingsError("\n".join(faults))
    return ActuatorSettings(**values)


class Row(NamedTuple):
    """One variable, as it is documented."""

    name: str
    unit: str
    default: str
    doc: str


def rows() -> list[Row]:
    """Return every variable."""
    return [
        Row(
            setting.name.upper(),
            get_args(setting.type)[1].title,
            str(_MOUNTED_SYS if setting.default is msgspec.NODEFAULT else setting.default),
            get_args(setting.type)[1].description,
        )
        for setting in msgspec.structs.fields(ActuatorSettings)
    ]


def help_text() -> str:
    """Return every variable with its unit, default and meaning."""
    lines = ["Settings are environment variables; an empty one counts as unset.", ""]
    for row in rows():
        lines += [f"{row.name}  <{row.unit}>  default {row.default}", f"    {row.doc}", ""]
    return "\n".join(lines)
