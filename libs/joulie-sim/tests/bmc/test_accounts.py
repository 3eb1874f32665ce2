"""Accounts of the simulated BMC, and what their roles may do."""

import aiohttp
import pytest

from joulie_sim.bmc.resources import ACCOUNTS, POWER, RESET, SESSIONS, SYSTEM

CAP_300 = {"PowerControl": [{"PowerLimit": {"LimitInWatts": 300}}]}
OFF = {"ResetType": "ForceOff"}


@pytest.fixture
async def served(serve):
    return await serve("plain")


@pytest.fixture
def ask(served, requests_to):
    """Send a request as the administrator."""
    return requests_to(served)


@pytest.fixture
def add(ask):
    """Add an account of a role, and return its path and how to send requests as it."""

    async def create(role):
        body = {"UserName": role.lower(), "Password": "secret", "RoleId": role}
        status, headers, _ = await ask("POST", ACCOUNTS, body)
        assert status == 201

        async def as_role(method, path, body=None, password="secret"):
            credentials = aiohttp.encode_basic_auth(role.lower(), password)
            return (await ask(method, path, body, Authorization=credentials))[0]

        return headers["Location"], as_role

    return create


async def test_an_operator_powers_and_caps_but_makes_no_accounts(served, ask, add):
    _, operator = await add("Operator")
    assert await operator("PATCH", POWER, CAP_300) == 204
    assert await operator("POST", RESET, OFF) == 204
    assert await operator("POST", ACCOUNTS, {"UserName": "x", "Password": "y", "RoleId": "Administrator"}) == 403
    assert (served.bmc.server.limit_watts, served.bmc.server.power_state) == (300, "Off")


async def test_a_read_only_account_reads(served, ask, add):
    _, reader = await add("ReadOnly")
    assert await reader("GET", SYSTEM) == 200
    assert [await reader("PATCH", POWER, CAP_300), await reader("POST", RESET, OFF)] == [403, 403]
    assert (served.bmc.server.limit_watts, served.bmc.server.power_state) == (None, "On")


async def test_an_account_changes_its_own_password_and_nothing_else(served, ask, add):
    path, reader = await add("ReadOnly")
    assert await reader("PATCH", path, {"RoleId": "Administrator"}) == 403
    assert await reader("PATCH", f"{ACCOUNTS}/1", {"Password": "mine"}) == 403
    assert await reader("PATCH", path, {"Password": "new"}) == 204
    assert [await reader("GET", SYSTEM), await reader("GET", SYSTEM, password="new")] == [401, 200]


async def test_a_deleted_account_has_no_access_and_the_administrators_stays(served, ask, add):
    path, reader = await add("ReadOnly")
    assert (await ask("DELETE", path))[0] == 204
    assert await reader("GET", SYSTEM) == 401
    assert (await ask("DELETE", f"{ACCOUNTS}/1"))[0] == 405


async def test_the_session_of_another_account_cannot_be_deleted(served, ask, add):
    _, reader = await add("ReadOnly")
    location = (await ask("POST", SESSIONS, {"UserName": "root", "Password": "calvin"}))[1]["Location"]
    assert await reader("DELETE", location) == 403
    assert len(served.bmc.sessions) == 1


@pytest.mark.parametrize(
    "body",
    [
        {"UserName": "x", "Password": "y"},
        {"UserName": "x", "Password": "y", "RoleId": "None"},
        {"UserName": "root", "Password": "y", "RoleId": "ReadOnly"},
        {"UserName": "x", "Password": "y", "RoleId": "ReadOnly", "Shell": "sh"},
    ],
    ids=["no role", "unknown role", "same name", "unknown property"],
)
async def test_an_account_that_cannot_be_is_refused(served, ask, body):
    assert (await ask("POST", ACCOUNTS, body))[0] == 400
    assert list(served.bmc.accounts.by_id) == ["1"]
