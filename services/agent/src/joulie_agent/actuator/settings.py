"""The actuator's settings, read from environment variables without a validation library.

Promises that every invalid value is named at once. Shared by the subcommands that run without the controller:
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
    """Values that cannot be used; the message has a line for each."""


def _sys_root() -> str:
    return str(_MOUNTED_SYS if _MOUNTED_SYS.is_dir() else _OWN_SYS)


class ActuatorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the actuator can be told; the variables are the names in capitals."""

    host_sys_root: Annotated[
        str, Meta(title="path", description="Where the node's /sys is; where there is no /host-sys, /sys is taken.")
    ] = msgspec.field(default_factory=_sys_root)
    host_proc_root: Annotated[
        str, Meta(title="path", description="Where the node's /proc is; read for the model and the memory only.")
    ] = "/proc"
    state_dir: Annotated[
        str,
        Meta(
            title="path",
            description="Where the journals of originals are. It must outlive the container and may be in memory, "
            "since a boot ends every claim.",
        ),
    ] = "/var/lib/joulie"
    actuator_socket: Annotated[
        str, Meta(title="path", description="The socket; the controller sees its directory too.")
    ] = "/run/joulie/actuator.sock"
    actuator_controller_uid: Annotated[
        int, Meta(ge=0, le=_LARGEST_ID, title="uid", description="User of the controller, who is heard besides root.")
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
            description="For how long an ending actuator goes on trying to give back what refuses; keep it below the "
            "pod's termination grace period.",
        ),
    ] = 20.0
    dvfs_min_freq_khz: Annotated[
        int,
        Meta(
            gt=0,
            title="kHz",
            description="Frequency that a throttled policy is held to, raised to what its hardware can run at.",
        ),
    ] = 1_500_000


def read_settings(env: Mapping[str, str]) -> ActuatorSettings:
    """Read the environment; an empty variable counts as unset.

    Raises:
        ActuatorSettingsError: some values cannot be used.
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
    """One variable, for people."""

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
