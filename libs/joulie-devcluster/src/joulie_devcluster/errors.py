"""What can go wrong with a development cluster; every message names the way out."""


class DevClusterError(Exception):
    """Base of everything this package raises on purpose."""


class BinaryError(DevClusterError):
    """A control-plane binary is missing, of the wrong version, or could not be built."""


class StartError(DevClusterError):
    """A process did not become ready."""


class PortTakenError(StartError):
    """Somebody else took the port between its choice and its use; a start with other ports may work."""


class NodeClassError(DevClusterError):
    """A file of node classes is not valid; the message lists field and value of every mistake."""


class StateError(DevClusterError):
    """A cluster directory is not what was expected: in use, missing, or not a cluster's."""


class EngineError(DevClusterError):
    """There is no container engine, or it could not build what was asked for."""


class RealNodeError(DevClusterError):
    """This machine cannot run a real node, or the node's runtime refused what it was asked."""
