import pytest

from joulie_api import elected
from joulie_api.elected import ElectedSettings, elector_of
from joulie_api.settings import SettingsError, read_settings

TIMES = {"LEASE_DURATION": "30s", "LEASE_RENEW_DEADLINE": "20s", "LEASE_RETRY_PERIOD": "5s"}


@pytest.mark.parametrize(("pod", "identity"), [("pod-1", "pod-1"), ("", "host-1")])
def test_the_lease_is_the_services_in_its_namespace(monkeypatch, pod, identity):
    made = []
    monkeypatch.setattr(elected, "Elector", lambda *args, **how: made.append((args, how)))
    monkeypatch.setattr(elected.socket, "gethostname", lambda: "host-1")
    elector_of(read_settings(ElectedSettings, TIMES | {"POD_NAMESPACE": "here", "POD_NAME": pod}), "client", "lease-1")
    assert made == [
        (
            ("client",),
            {
                "namespace": "here",
                "name": "lease-1",
                "identity": identity,
                "lease_duration_s": 30.0,
                "renew_deadline_s": 20.0,
                "retry_period_s": 5.0,
            },
        )
    ]


@pytest.mark.parametrize(
    "times", [{"LEASE_DURATION": "20s"}, {"LEASE_RENEW_DEADLINE": "5s"}, {"LEASE_RENEW_DEADLINE": "31s"}]
)
def test_times_that_cannot_work_are_no_settings(times):
    with pytest.raises(SettingsError, match="LEASE_DURATION must be above LEASE_RENEW_DEADLINE"):
        read_settings(ElectedSettings, TIMES | times)
