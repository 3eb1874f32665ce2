"""UID of a pod in the name of its cgroup, by the systemd and by the cgroupfs driver.

Source: Kubernetes, pkg/kubelet/cm (cgroup_manager_linux.go, pod_container_manager_linux.go).
"""

import re
from typing import Final

#: A UID as the API server makes it, in which systemd's names have underscores, or the hash of a static pod.
_UID: Final = r"[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32}"
_POD: Final = re.compile(rf"(?:[a-z-]+-)?pod({_UID})(?:\.slice)?")


def pod_uid_of(directory: str) -> str | None:
    """Return the UID in the name of a pod's cgroup; None for a name that is not one."""
    found = _POD.fullmatch(directory)
    return None if found is None else found[1].replace("_", "-")
