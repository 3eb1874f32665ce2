"""Settings that other services rely on."""

import pytest

from joulie_api.settings import SettingsError, read_settings
from joulie_outofband.settings import OutOfBandSettings


def test_a_status_is_written_before_the_operator_takes_it_for_unknown():
    with pytest.raises(SettingsError, match=r"STATUS_HEARTBEAT"):
        read_settings(OutOfBandSettings, {"STATUS_HEARTBEAT": "61s"})
    assert read_settings(OutOfBandSettings, {"STATUS_HEARTBEAT": "1m"}).status_heartbeat == 60.0
