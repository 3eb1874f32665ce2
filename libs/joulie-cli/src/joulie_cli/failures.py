"""Sentences for errors of the API server: what failed, and the way out."""

from joulie_api.errors import ApiError, ConfigError, Forbidden, KubeError, NotFound, TransportError, Unauthorized
from joulie_api.resources import Resource
from joulie_cli.outcome import CliError

_GROUP = "joulie.io"
NO_CRDS_WAY_OUT = "install Joulie with its CRDs: helm install joulie helm/joulie (docs/install.md)"
_VIEWER_WAY_OUT = "bind the ClusterRole joulie-viewer to this user (docs/kubectl-joulie.md, Permissions)"


def describe_failure(error: KubeError, server: str) -> CliError:
    """Return the error for the user.

    Args:
        error: what a request raised.
        server: URL of the API server.
    """
    if isinstance(error, ConfigError):
        return CliError(error.message, "choose a file with --kubeconfig or KUBECONFIG, and a context with --context")
    if isinstance(error, Forbidden):
        return CliError(f"forbidden: {error.message}", _VIEWER_WAY_OUT)
    if isinstance(error, Unauthorized):
        return CliError(
            f"the API server {server} does not accept the credentials: {error.message}",
            "renew them, or choose another user with --context",
        )
    if isinstance(error, TransportError):
        return CliError(
            f"cannot reach the API server {server}: {error.message}",
            "check the address in the kubeconfig, the network and any VPN; --context chooses another cluster",
        )
    if isinstance(error, ApiError):
        return CliError(f"the API server {server} answered {error.status}: {error.message}", "try again later")
    return CliError(error.message, "an object is not as this version expects it: update kubectl-joulie")


def missing_kind(resource: Resource, server: str) -> CliError:
    """Return the error for a kind that the API server does not have."""
    problem = f"the API server {server} has no {resource.full_name}"
    return CliError(f"{problem}: Joulie's CRDs are not installed", NO_CRDS_WAY_OUT)


def is_missing_kind(error: KubeError, resource: Resource) -> bool:
    """Return whether a list failed because the server does not have the kind."""
    return isinstance(error, NotFound) and resource.group == _GROUP
