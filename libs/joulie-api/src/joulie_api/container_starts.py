"""Messages between the start hook of a node and the agent's controller: one line of JSON each, on a UNIX socket.

The start hook sends its state when the controller connects and whenever it changes, a question for each pod whose
sandbox was made, and one for each container that is about to be created. The controller answers when the container may
start. Either side bounds what it reads.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from joulie_api.decoding import decode

#: Of one message, in bytes; the names of Kubernetes have 253 characters at most.
LINE_LIMIT: Final = 1 << 14
#: Questions that wait for an answer.
MOST_WAITING: Final = 256
#: From a question or a look on, for how long limits stay away that were lifted for it.
LIFTED_FOR_S: Final = 5.0
_Name = Annotated[str, Meta(max_length=512)]
_Number = Annotated[int, Meta(ge=0, le=1 << 62)]


class HookState(msgspec.Struct, frozen=True, tag="state"):
    """State of the start hook."""

    #: Whether the container runtime asks it before it creates containers.
    registered: bool
    #: How long a container waits for an answer, in seconds.
    deadline_s: Annotated[float, Meta(gt=0, le=60)]


class ContainerStart(msgspec.Struct, frozen=True, tag="start"):
    """A container is about to be created, or the sandbox of its pod was made."""

    number: _Number
    namespace: _Name
    pod: _Name
    #: As the container runtime has it.
    uid: _Name
    #: When the runtime asked, in seconds of the machine's CLOCK_MONOTONIC.
    asked_at_s: float
    #: No container is created by the answer alone: if the limits are not lifted then, each one is asked about.
    early: bool = False


class StartAnswer(msgspec.Struct, frozen=True):
    """The container of that question may start."""

    number: _Number
    #: Whether no limit that is not the pod's is left on its GPUs.
    lifted: bool = False


_ENCODER: Final = msgspec.json.Encoder()
_TO_CONTROLLER: Final[msgspec.json.Decoder[HookState | ContainerStart]] = msgspec.json.Decoder(
    HookState | ContainerStart
)
_TO_HOOK: Final = msgspec.json.Decoder(StartAnswer)


def encode_line(message: HookState | ContainerStart | StartAnswer) -> bytes:
    """Return a message as it is sent."""
    return _ENCODER.encode(message) + b"\n"


def decode_for_controller(line: bytes) -> HookState | ContainerStart:
    """Read a message of the start hook.

    Raises:
        DecodeError: it is none.
    """
    return decode(_TO_CONTROLLER.decode, line, "message of the start hook")


def decode_for_hook(line: bytes) -> StartAnswer:
    """Read a message of the controller.

    Raises:
        DecodeError: it is none.
    """
    return decode(_TO_HOOK.decode, line, "answer of the controller")
