"""The vendor of a GPU by the name of its resource, its DRA driver or its device class."""

from typing import Final

from joulie_core.hardware.gpu_resources import gpu_resource
from joulie_core.powerest.claims import CLASS_RESOURCE

#: Of a device whose name shows no vendor of GPUs.
ANY_VENDOR: Final = ""
_DOMAINS: Final = {"nvidia.com": "NVIDIA", "amd.com": "AMD", "intel.com": "Intel"}


def vendor_of(name: str) -> str:
    """Return the vendor, as the inventory spells it, of a resource, a driver or a class; ANY_VENDOR without one."""
    resource = gpu_resource(name)
    if resource is not None:
        return resource.vendor
    domain = name.removeprefix(CLASS_RESOURCE).partition("/")[0]
    for suffix, vendor in _DOMAINS.items():
        if domain == suffix or domain.endswith(f".{suffix}"):
            return vendor
    return ANY_VENDOR
