"""Reading the configuration of a container policy from a document, such as a manifest in a file.

A document is of one of Joulie's kinds, or of the kind of the same name in the group config.nri.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from joulie_core.kinds.base import API_VERSION, NO_EFFECT
from joulie_core.kinds.container_policy import ContainerPolicyResource
from joulie_core.kinds.cpu_class import BUILTIN_CPU_CLASSES

#: The group whose manifests are accepted unchanged.
NRI_API_VERSION: Final = "config.nri/v1alpha1"
#: Defaults of that group's schema that differ from those of the models here: by field of the spec.
_NRI_DEFAULTS: Final[Mapping[str, object]] = {"agent": {"nodeResourceTopology": True}}
#: Fields of a specification with the name of a CPU class; balloon types have one each.
_CLASS_FIELDS: Final = ("idleCPUClass", "sharedPoolCPUClass", "reservedPoolCPUClass", "defaultExclusiveCPUClass")
_LONGEST_VALUE: Final = 80


class PolicyDocumentError(ValueError):
    """A document cannot be used; names every field that is wrong, its value and what is valid."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


class PolicyDocument(NamedTuple):
    """A configuration and what in it changes nothing."""

    policy: ContainerPolicyResource
    #: Paths of fields that are unknown or have no effect.
    ignored: tuple[str, ...]


def load_policy(document: object, kinds: Sequence[type[ContainerPolicyResource]]) -> PolicyDocument:
    """Return the configuration in a document.

    Args:
        document: As parsed from YAML or JSON.
        kinds: The kinds that it may be of.

    Raises:
        PolicyDocumentError: It is of another kind or version, or fields are wrong; all of them are named.
    """
    if not isinstance(document, Mapping):
        raise PolicyDocumentError(
            [f"the document is {_shown(document)}, not a manifest with apiVersion, kind and spec"]
        )
    document = _without_nulls(document)
    model = next((each for each in kinds if each.info.kind == document.get("kind")), None)
    version = document.get("apiVersion")
    problems: list[str] = []
    if version not in (API_VERSION, NRI_API_VERSION):
        problems.append(f"apiVersion: {_shown(version)} is neither {API_VERSION} nor {NRI_API_VERSION}")
    if model is None:
        problems.append(
            f"kind: {_shown(document.get('kind'))} is not one of {', '.join(each.info.kind for each in kinds)}"
        )
    if problems or model is None:
        raise PolicyDocumentError(problems)
    classless: list[str] = []
    if version == NRI_API_VERSION and isinstance(document.get("spec"), dict):
        document["spec"] = {**_NRI_DEFAULTS, **document["spec"]}
        classless = list(_drop_undefined_classes(document["spec"]))
    # The status is what nodes report, and no part of a configuration.
    policy = _validated(model, {name: value for name, value in document.items() if name != "status"})
    return PolicyDocument(policy, (*classless, *_ignored(policy.spec, document["spec"], "spec")))


def _drop_undefined_classes(spec: dict[str, Any]) -> Iterator[str]:
    """Remove the names of CPU classes from a specification that defines none, and return where they were.

    With the policies of that group such a name has no effect, and is no error.
    """
    control = spec.get("control")
    cpu = control.get("cpu") if isinstance(control, Mapping) else None
    if spec.get("cpuClasses") or (isinstance(cpu, Mapping) and cpu.get("classes")):
        return
    yield from _drop(spec, _CLASS_FIELDS, "spec")
    types = spec.get("balloonTypes")
    for index, each in enumerate(types if isinstance(types, list) else ()):
        if isinstance(each, dict):
            yield from _drop(each, ("cpuClass",), f"spec.balloonTypes[{index}]")


def _drop(part: dict[str, Any], fields: Sequence[str], path: str) -> Iterator[str]:
    for field in fields:
        if isinstance(part.get(field), str) and part[field] not in BUILTIN_CPU_CLASSES:
            del part[field]
            yield f"{path}.{field}"


def _validated(model: type[ContainerPolicyResource], document: Mapping[str, Any]) -> ContainerPolicyResource:
    try:
        return model.model_validate(document)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False)
        raise PolicyDocumentError([_problem(each) for each in found]) from error


def _problem(error: ErrorDetails) -> str:
    path = _path(error["loc"])
    if error["type"] == "missing":
        return f"{path} is required and absent"
    return f"{path}: {_shown(error['input'])}: {error['msg'].removeprefix('Value error, ')}"


def _ignored(part: BaseModel, source: Mapping[str, Any], path: str) -> Iterator[str]:
    """Return the fields of a part of the document that change nothing."""
    fields = {info.alias or name: (name, info) for name, info in type(part).model_fields.items()}
    for key, value in source.items():
        below = f"{path}.{key}"
        if key not in fields or NO_EFFECT in fields[key][1].metadata:
            yield below
        else:
            yield from _ignored_below(getattr(part, fields[key][0]), value, below)


def _ignored_below(parsed: object, source: object, path: str) -> Iterator[str]:
    if isinstance(parsed, BaseModel) and isinstance(source, Mapping):
        yield from _ignored(parsed, source, path)
    elif isinstance(parsed, Mapping) and isinstance(source, Mapping):
        for key, value in parsed.items():
            yield from _ignored_below(value, source[key], f"{path}.{key}")
    elif isinstance(parsed, tuple) and isinstance(source, Sequence):
        for index, (value, origin) in enumerate(zip(parsed, source, strict=True)):
            yield from _ignored_below(value, origin, f"{path}[{index}]")


def _without_nulls(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document without fields that are null: they are absent, as at the API server."""
    return {key: _below(value) for key, value in document.items() if value is not None}


def _below(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _without_nulls(value)
    return [_below(each) for each in value] if isinstance(value, list) else value


def _path(location: tuple[int | str, ...]) -> str:
    """Return `spec.balloonTypes[1].name`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).removeprefix(".")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."
