"""Which sensor takes a cap, with packages that tell the sensors (AMD SMI 26.2) and stand-ins for them here.

The pinned package is older than that; its own tests are in test_amdsmi.py.
"""

import pytest

from joulie_agent.hardware.gpu.amdsmi import AmdSmiLibrary
from joulie_agent.hardware.gpu.library import LibraryError
from joulie_agent.reasons import Reason

PPT0, PPT1 = 0, 1


class Package:
    """The part of a package of AMD SMI 26.2 that power needs."""

    class AmdSmiException(Exception):  # noqa: N818 - the package's own name
        pass

    class AmdSmiLibraryException(AmdSmiException):
        pass

    def __init__(self, types):
        self.types = types
        self.caps_uw = dict.fromkeys(types, 500_000_000)

    def amdsmi_get_supported_power_cap(self, handle):
        return {"sensor_inds": list(self.types), "sensor_types": list(self.types.values())}

    def amdsmi_get_power_cap_info(self, handle, sensor):
        return {"power_cap": self.caps_uw[sensor]}

    def amdsmi_set_power_cap(self, handle, sensor, cap_uw):
        self.caps_uw[sensor] = cap_uw


def library_over(package):
    library = AmdSmiLibrary()
    library._amdsmi = package
    return library


@pytest.mark.parametrize(("types", "sensor"), [({0: PPT0, 1: PPT1}, 0), ({0: PPT1, 1: PPT0}, 1), ({2: PPT0}, 2)])
def test_a_cap_goes_to_the_limit_on_filtered_power_wherever_the_device_has_it(types, sensor):
    package = Package(types)
    library = library_over(package)
    library.set_limit_mw(object(), 400_000)
    assert package.caps_uw == dict.fromkeys(types, 500_000_000) | {sensor: 400_000_000}
    assert library.limit_mw(object()) == 400_000


def test_a_device_that_has_only_the_limit_on_raw_power_is_not_capped():
    package = Package({0: PPT1})
    with pytest.raises(LibraryError) as error:
        library_over(package).set_limit_mw(object(), 400_000)
    assert error.value.failure.reason is Reason.NO_INTERFACE
    assert package.caps_uw == {0: 500_000_000}
