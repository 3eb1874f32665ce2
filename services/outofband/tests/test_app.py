"""How the parts of the process are put together: which BMC is connected how, and with which times."""

import asyncio
import json
import ssl
from types import SimpleNamespace

import pytest
from services.outofband.tests.conftest import secret
from services.outofband.tests.doubles import node_bmc

from joulie_api.settings import read_settings
from joulie_outofband import app as service
from joulie_outofband.ipmi.bmc import IpmiBmc
from joulie_outofband.parts import WorkerTimes
from joulie_outofband.power import PowerTimeouts
from joulie_outofband.reasons import BmcError, BmcReason
from joulie_outofband.redfish.bmc import RedfishBmc
from joulie_outofband.settings import OutOfBandSettings
from joulie_outofband.wol import WolServer

SETTINGS = read_settings(OutOfBandSettings, {"BMC_REQUEST_TIMEOUT": "7s", "POD_NAMESPACE": "here"})


class Client:
    def __init__(self):
        self.read = []

    async def get(self, res, name, namespace=None):
        self.read.append((res.full_name, name, namespace))
        entries = {"username": "root", "password": "calvin", "addresses": "https://10.0.0.0/24 ipmi://bmc-17"}
        return json.dumps(secret(name, **entries)).encode()


async def connect(**spec):
    """Return what is connected, and what was read."""
    client = Client()
    part = SimpleNamespace(_settings=SETTINGS, _client=client, _session="session")
    return await service.OutOfBand._connect(part, node_bmc(**spec).model.spec), client.read


async def test_a_redfish_bmc_has_its_credentials_its_system_and_its_deadline():
    system = "/redfish/v1/Systems/2"
    bmc, read = await connect(address="https://10.0.0.17:8443", system=system)
    assert isinstance(bmc, RedfishBmc)
    connection = bmc._connection
    assert (bmc._system, connection._address, connection._session) == (system, "https://10.0.0.17:8443", "session")
    assert (connection._access.username, connection._access.password) == ("root", "calvin")
    assert connection._access.tls.verify_mode is ssl.CERT_REQUIRED
    assert (connection._timeout_s, read) == (7.0, [("secrets", "bmc", "here")])


async def test_an_ipmi_bmc_has_its_credentials_and_its_deadline():
    bmc, read = await connect(protocol="ipmi", address="ipmi://bmc-17")
    assert isinstance(bmc, IpmiBmc)
    assert bmc._open.args == ("bmc-17", 623, "root", "calvin")
    assert (bmc._open.keywords, read) == ({"request_timeout_s": 7.0}, [("secrets", "bmc", "here")])
    await bmc.close()


async def test_a_server_that_is_woken_needs_no_credentials():
    mac = "52:54:00:12:34:56"
    bmc, read = await connect(protocol="wol", address="wol://10.0.0.255", mac=mac, credentialsSecretRef=None)
    assert isinstance(bmc, WolServer)
    assert (bmc._target, bmc._mac, read) == (("10.0.0.255", 9), mac, [])


@pytest.mark.parametrize(
    ("spec", "reason", "secrets"),
    [
        ({"address": "https://h:99999"}, BmcReason.INVALID_ADDRESS, 0),
        ({"address": "https://10.0.1.17"}, BmcReason.ADDRESS_NOT_APPROVED, 1),
        ({"protocol": "ipmi", "address": "ipmi://10.0.0.17"}, BmcReason.ADDRESS_NOT_APPROVED, 1),
    ],
)
async def test_an_address_that_is_invalid_or_not_approved_is_not_connected_to(spec, reason, secrets):
    client = Client()
    part = SimpleNamespace(_settings=SETTINGS, _client=client, _session=None)
    with pytest.raises(BmcError) as caught:
        await service.OutOfBand._connect(part, node_bmc(**spec).model.spec)
    assert (caught.value.reason, len(client.read)) == (reason, secrets)


def test_the_times_of_workers_are_those_of_the_settings():
    names = [
        "BMC_POLL_INTERVAL",
        "BMC_TRANSITION_INTERVAL",
        "BMC_REQUEST_TIMEOUT",
        "BMC_PASS_TIMEOUT",
        "BMC_CREDENTIALS_RETRY",
        "GRACEFUL_OFF_TIMEOUT",
        "POWER_REPEAT_INTERVAL",
        "BOOT_TIMEOUT",
    ]
    settings = read_settings(OutOfBandSettings, {name: f"{number}s" for number, name in enumerate(names, 1)})
    assert service._times(settings) == WorkerTimes(
        poll_s=1.0,
        transition_s=2.0,
        close_timeout_s=3.0,
        pass_timeout_s=4.0,
        credentials_retry_s=5.0,
        boot_timeout_s=8.0,
        power=PowerTimeouts(graceful_s=6.0, repeat_s=7.0),
    )


async def test_the_process_watches_nodebmcs_and_ends_with_its_tasks(cluster, serve):
    cluster.put_bmc(await serve())
    app = cluster.start()
    await cluster.until(lambda: cluster.condition("Reachable") == ("True", "Answers"))
    text = (await app.registry.render()).decode()
    assert 'joulie_bmc_reachable{node="n1"} 1.0' in text
    assert 'joulie_outofband_writes_total{kind="NodeBMC",result="applied"}' in text
    await asyncio.wait_for(cluster.stop(), 20)
    assert cluster.api.get("Lease", "joulie-outofband", "joulie-system")["spec"]["holderIdentity"] == ""
