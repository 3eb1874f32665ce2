"""Exceptions that this package raises. Every message states what the user can do."""


class DevClusterError(Exception):
    """Base class of the errors that this package raises."""


class BinaryError(DevClusterError):
    """A control-plane binary that is missing, has the wrong version, or cannot be downloaded or built."""


class StartError(DevClusterError):
    """A process that did not become ready."""


class PortTakenError(StartError):
    """A port that another process bound after it was chosen. A start with other ports can succeed."""


class NodeClassError(DevClusterError):
    """An invalid file of node classes. The message lists field and value of every mistake."""


class StateError(DevClusterError):
    """A cluster directory in an unexpected state: in use, missing, or not created by this package."""


class EngineError(DevClusterError):
    """A container engine that is missing or failed to run a command."""


class RealNodeError(DevClusterError):
    """A host that cannot run a real node, or a container runtime that rejected a command."""


class DownloadError(DevClusterError):
    """A published file that cannot be downloaded. What it contains can still be built."""


class ServerUnavailableError(DownloadError):
    """A server that cannot be reached, does not answer, or cuts the connection."""


class ChecksumError(DownloadError):
    """A server that sent another file than the pinned one."""
