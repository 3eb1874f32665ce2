"""Settings that other services rely on."""

import re
from pathlib import Path

import pytest

from joulie_api.settings import SettingsError, describe, read_settings
from joulie_outofband.settings import OutOfBandSettings


def test_a_status_is_written_before_the_operator_takes_it_for_unknown():
    with pytest.raises(SettingsError, match=r"STATUS_HEARTBEAT"):
        read_settings(OutOfBandSettings, {"STATUS_HEARTBEAT": "61s"})
    assert read_settings(OutOfBandSettings, {"STATUS_HEARTBEAT": "1m"}).status_heartbeat == 60.0


@pytest.mark.parametrize(
    ("env", "named"),
    [
        ({"BMC_REQUEST_TIMEOUT": "91s"}, "BMC_REQUEST_TIMEOUT must not be above BMC_PASS_TIMEOUT"),
        ({"BMC_PASS_TIMEOUT": "9s"}, "BMC_REQUEST_TIMEOUT must not be above BMC_PASS_TIMEOUT"),
        ({"LEASE_DURATION": "10s"}, "LEASE_DURATION must be above LEASE_RENEW_DEADLINE"),
        ({"LEASE_RENEW_DEADLINE": "2s"}, "LEASE_RETRY_PERIOD"),
    ],
)
def test_times_that_cannot_work_together_end_the_process_and_are_named(env, named):
    with pytest.raises(SettingsError, match=named):
        read_settings(OutOfBandSettings, env)


def test_times_that_work_together_start():
    assert read_settings(OutOfBandSettings, {"BMC_REQUEST_TIMEOUT": "90s"}).bmc_pass_timeout == 90.0


@pytest.mark.parametrize("name", ["BMC_POLL_INTERVAL", "BMC_PASS_TIMEOUT", "BOOT_TIMEOUT", "STATUS_HEARTBEAT"])
def test_a_time_of_zero_is_refused(name):
    with pytest.raises(SettingsError, match=name):
        read_settings(OutOfBandSettings, {name: "0s"})


def test_the_defaults_are_those_that_the_page_of_settings_names():
    rows = {row.name: row.default for row in describe(OutOfBandSettings)}
    page = (Path(__file__).parents[3] / "docs/settings.md").read_text()
    section = page.partition("## joulie-outofband")[2].partition("\n## ")[0]
    documented = dict(re.findall(r"^\| `(\w+)` \| (?:`([^`]*)`)?", section, re.MULTILINE))
    assert documented
    assert rows == documented


def test_a_time_just_above_zero_is_taken():
    assert read_settings(OutOfBandSettings, {"BMC_POLL_INTERVAL": "1ms"}).bmc_poll_interval == 0.001
