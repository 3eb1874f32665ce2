import pytest

from joulie_api.settings import SettingsError, read_settings
from joulie_ven.settings import VenSettings

GOOD = {"VTN_URL": "https://vtn.example.org/openadr3/3.1", "VTN_PROGRAM": "p", "VEN_NAME": "v", "POWER_DOMAIN": "site"}


def refusal(**env):
    with pytest.raises(SettingsError) as caught:
        read_settings(VenSettings, GOOD | env)
    return str(caught.value)


def test_four_settings_are_enough():
    settings = read_settings(VenSettings, GOOD)
    assert (settings.vtn_poll_interval, settings.if_source_lost, settings.site_other_watts) == (10, "KeepUntilEnd", 0)


@pytest.mark.parametrize("name", sorted(GOOD))
def test_each_of_them_is_required(name):
    assert f"{name}: required but not set" in refusal(**{name: ""})


@pytest.mark.parametrize("name", ["VTN_URL", "VTN_TOKEN_URL"])
@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://vtn.example.org", "must be https"),
        ("http://127.0.0.1.example.org", "must be https"),
        ("http://10.0.0.1", "must be https"),
        ("https://user:pw@vtn.example.org", "neither a user"),
        ("https://vtn.example.org/?a=b", "nor a query"),
        ("https://vtn.example.org/#a", "nor a fragment"),
        ("ftp://vtn.example.org", "not a URL"),
    ],
)
def test_a_url_to_which_no_credentials_may_be_sent_is_refused(name, url, why):
    assert why in refusal(**{name: url})


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8080", "http://[::1]:8080/x", "http://localhost", "https://10.0.0.1"]
)
def test_https_and_the_loopback_interface_are_taken(url):
    assert read_settings(VenSettings, GOOD | {"VTN_URL": url}).vtn_url == url


@pytest.mark.parametrize(
    ("env", "why"),
    [
        ({"IF_SOURCE_LOST": "Limit"}, "SOURCE_LOST_LIMIT_WATTS belongs to IF_SOURCE_LOST=Limit"),
        ({"SOURCE_LOST_LIMIT_WATTS": "5"}, "SOURCE_LOST_LIMIT_WATTS belongs to IF_SOURCE_LOST=Limit"),
        ({"SOURCE_TIMEOUT": "29s"}, "SOURCE_TIMEOUT"),
        ({"SOURCE_TIMEOUT": "31s", "VTN_POLL_INTERVAL": "11s"}, "a third of SOURCE_TIMEOUT"),
        ({"MAY_AFFECT": ","}, "MAY_AFFECT must name"),
        ({"MAY_AFFECT": "all"}, "MAY_AFFECT"),
        ({"SITE_OTHER_WATTS": "-1"}, "SITE_OTHER_WATTS"),
        ({"POWER_DOMAIN": "Site"}, "POWER_DOMAIN"),
    ],
)
def test_settings_that_do_not_fit_are_refused(env, why):
    assert why in refusal(**env)
