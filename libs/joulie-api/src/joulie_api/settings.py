"""Settings from environment variables: typed, documented, and all errors reported at once.

A service declares one frozen model. Each field is read from the variable of its name in upper case (or of its alias),
and has its unit, its default and the reason for it in the docstring under it; `--help` and the reference in the docs
are generated from the same text. The environment is an argument, so that tests pass a dict.
Does not read files or command lines. Variables that no field names are ignored: Kubernetes adds its own.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from joulie_api.addresses import parse_addr
from joulie_api.checked_texts import redacted
from joulie_api.setting_values import Unit, format_default, hint, read_text, unit
from joulie_core.durations import DurationError, parse_duration
from joulie_core.text import printable

#: Characters of an invalid value that are shown.
_LONGEST_SHOWN = 200


def _read_duration(value: object) -> object:
    try:
        return parse_duration(value) if isinstance(value, str) else value
    except DurationError as error:
        raise ValueError("not a duration") from error


Duration = Annotated[float, BeforeValidator(_read_duration), Field(ge=0), Unit("duration")]
"""Seconds, written as a Go duration: `30s`, `5m`, `1h30m`."""
PositiveDuration = Annotated[Duration, Field(gt=0)]


def _check_addr(text: str) -> str:
    parse_addr(text)
    return text


Addr = Annotated[str, AfterValidator(_check_addr), Unit("HOST:PORT")]
"""A listening address as text; `parse_addr` parses it."""


class LogLevel(StrEnum):
    """The least severe event that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        lower = value.lower() if isinstance(value, str) else value
        return next((member for member in cls if member.value == lower), None)


class LogFormat(StrEnum):
    """Format of log lines."""

    JSON = "json"
    CONSOLE = "console"


class Settings(BaseModel):
    """Base of every service's settings."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, use_attribute_docstrings=True, extra="forbid", allow_inf_nan=False, populate_by_name=True
    )


class ProcessSettings(Settings):
    """Settings that every Joulie process has."""

    metrics_addr: Addr = ":8080"
    """Where /metrics, /healthz and /readyz are served; with port 0 a free one, which is logged."""

    log_level: LogLevel = LogLevel.INFO
    """The least severe event logged; `info` has every decision that changes something, `debug` those that do not."""

    log_format: LogFormat = LogFormat.JSON
    """`json` for log collectors, one object per line; `console` for people."""


class ServiceSettings(ProcessSettings):
    """Settings of a process that uses the API server."""

    kubeconfig: str = ""
    """Path of a kubeconfig file; unset inside a cluster, where the pod's service account is used."""


S = TypeVar("S", bound=Settings)


@dataclass(frozen=True, slots=True)
class InvalidSetting:
    """One variable that cannot be used."""

    name: str
    value: str | None
    """None when it is not set."""
    why: str
    hint: str

    def __str__(self) -> str:
        shown = self.name if self.value is None else f"{self.name}={printable(redacted(self.value), _LONGEST_SHOWN)}"
        return f"{shown}: {self.why}; {self.hint}"


class SettingsError(Exception):
    """The environment is not a valid configuration; `problems` has every error."""

    def __init__(self, problems: Iterable[InvalidSetting]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting as the documentation shows it."""

    name: str
    default: str
    """As written in the environment; empty when the default is unset."""
    required: bool
    unit: str
    doc: str


def read_settings(model: type[S], env: Mapping[str, str]) -> S:
    """Read a model from environment variables; an empty variable counts as unset.

    Raises:
        SettingsError: some variables are invalid or missing; it has all of them.
    """
    raw: dict[str, str] = {}
    parsed: dict[str, Any] = {}
    problems: list[InvalidSetting] = []
    for field, info in model.model_fields.items():
        name = env_name(field, info)
        text = env.get(name, "").strip()
        if not text:
            continue
        raw[field] = text
        try:
            parsed[field] = read_text(text, info.annotation)
        except ValueError as error:
            problems.append(InvalidSetting(name, text, str(error), hint(info)))
    try:
        result = model.model_validate(parsed, by_alias=False, by_name=True)
    except ValidationError as error:
        reported = {problem.name for problem in problems}
        problems += [problem for problem in _explain(model, raw, error) if problem.name not in reported]
    else:
        if not problems:
            return result
    raise SettingsError(problems)


def env_name(field: str, info: FieldInfo) -> str:
    """Return the name of the variable that a field is read from."""
    return info.alias or field.upper()


def describe(model: type[Settings]) -> list[SettingRow]:
    """Return every setting of a model, in the order of declaration."""
    return [
        SettingRow(
            name=env_name(field, info),
            default="" if info.is_required() else format_default(info.get_default(call_default_factory=True), info),
            required=info.is_required(),
            unit=unit(info),
            doc=" ".join((info.description or "").split()),
        )
        for field, info in model.model_fields.items()
    ]


def _explain(model: type[Settings], raw: Mapping[str, str], error: ValidationError) -> list[InvalidSetting]:
    problems = []
    for fault in error.errors(include_url=False):
        why = str(fault["msg"]).removeprefix("Value error, ")
        field = str(fault["loc"][0]) if fault["loc"] else ""
        info = model.model_fields.get(field)
        if info is None:
            problems.append(InvalidSetting("settings", None, why, "change one of these variables"))
        elif fault["type"] == "missing":
            problems.append(InvalidSetting(env_name(field, info), None, "required but not set", hint(info)))
        else:
            inner = ".".join(str(part) for part in fault["loc"][1:])
            why = f"{inner}: {why}" if inner else why
            problems.append(InvalidSetting(env_name(field, info), raw.get(field), why, hint(info)))
    return problems
