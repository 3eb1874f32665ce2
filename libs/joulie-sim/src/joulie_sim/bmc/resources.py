"""The Redfish resources of one simulated server, as JSON.

Source: DMTF DSP0266 (Redfish Specification) and the schemas ComputerSystem, Chassis, Power, EnvironmentMetrics,
Control, AccountService, ManagerAccount, Role, SessionService and Session.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from joulie_sim.bmc.accounts import ROLES, Account
from joulie_sim.bmc.machine import SimulatedServer
from joulie_sim.bmc.profiles import BmcProfile, LimitPlace

ROOT: Final = "/redfish/v1"
ODATA: Final = f"{ROOT}/odata"
METADATA: Final = f"{ROOT}/$metadata"
SESSIONS: Final = f"{ROOT}/SessionService/Sessions"
ACCOUNT_SERVICE: Final = f"{ROOT}/AccountService"
ACCOUNTS: Final = f"{ACCOUNT_SERVICE}/Accounts"
ROLE_LIST: Final = f"{ACCOUNT_SERVICE}/Roles"
SYSTEM: Final = f"{ROOT}/Systems/Server.1"
RESET: Final = f"{SYSTEM}/Actions/ComputerSystem.Reset"
RESET_INFO: Final = f"{SYSTEM}/ResetActionInfo"
CHASSIS: Final = f"{ROOT}/Chassis/Tray_1"
POWER: Final = f"{CHASSIS}/Power"
ENVIRONMENT: Final = f"{CHASSIS}/EnvironmentMetrics"
CONTROLS: Final = f"{CHASSIS}/Controls"
CONTROL: Final = f"{CONTROLS}/PowerLimit"

Body = dict[str, Any]


def resources(
    profile: BmcProfile, server: SimulatedServer, *, sessions: Mapping[str, str], accounts: Mapping[str, Account]
) -> dict[str, Body]:
    """Return every resource by its path.

    Args:
        profile: the kind of BMC.
        server: its server.
        sessions: user by the name of each session.
        accounts: accounts by identifier.
    """
    found = {
        ROOT: _root(),
        f"{ROOT}/SessionService": _session_service(),
        SESSIONS: _collection(SESSIONS, "SessionCollection", sessions),
        ACCOUNT_SERVICE: _account_service(),
        ACCOUNTS: _collection(ACCOUNTS, "ManagerAccountCollection", accounts),
        ROLE_LIST: _collection(ROLE_LIST, "RoleCollection", ROLES),
        f"{ROOT}/Systems": _collection(f"{ROOT}/Systems", "ComputerSystemCollection", [SYSTEM.rpartition("/")[2]]),
        SYSTEM: _system(profile, server),
        f"{ROOT}/Chassis": _collection(f"{ROOT}/Chassis", "ChassisCollection", [CHASSIS.rpartition("/")[2]]),
        CHASSIS: _chassis(profile),
        **{f"{SESSIONS}/{name}": session(name, user) for name, user in sessions.items()},
        **{f"{ACCOUNTS}/{name}": account(each) for name, each in accounts.items()},
        **{f"{ROLE_LIST}/{name}": _role(name) for name in ROLES},
    }
    if profile.action_info:
        found[RESET_INFO] = _reset_info(profile)
    if profile.limit_place in {LimitPlace.POWER, LimitPlace.NONE}:
        found[POWER] = _power(profile, server)
    else:
        found[ENVIRONMENT] = _environment(profile, server)
    if profile.limit_place is LimitPlace.CONTROL:
        found[CONTROLS] = _collection(CONTROLS, "ControlCollection", [CONTROL.rpartition("/")[2]])
        found[CONTROL] = _control(profile, server)
    return found


def _resource(path: str, kind: str, name: str, **fields: Any) -> Body:
    return {"@odata.id": path, "@odata.type": kind, "Id": path.rpartition("/")[2], "Name": name, **fields}


def _collection(path: str, kind: str, members: Iterable[str]) -> Body:
    links = [{"@odata.id": f"{path}/{member}"} for member in members]
    fields = {"Members": links, "Members@odata.count": len(links)}
    return {"@odata.id": path, "@odata.type": f"#{kind}.{kind}", "Name": kind, **fields}


def _root() -> Body:
    body = _resource(
        ROOT,
        "#ServiceRoot.v1_15_0.ServiceRoot",
        "Root Service",
        RedfishVersion="1.17.0",
        UUID="92384634-2938-2342-8820-489239905423",
        Systems={"@odata.id": f"{ROOT}/Systems"},
        Chassis={"@odata.id": f"{ROOT}/Chassis"},
        SessionService={"@odata.id": f"{ROOT}/SessionService"},
        AccountService={"@odata.id": ACCOUNT_SERVICE},
        Links={"Sessions": {"@odata.id": SESSIONS}},
    )
    return {**body, "@odata.id": f"{ROOT}/", "Id": "RootService"}


def _session_service() -> Body:
    return _resource(
        f"{ROOT}/SessionService",
        "#SessionService.v1_1_9.SessionService",
        "Session Service",
        ServiceEnabled=True,
        SessionTimeout=1800,
        Sessions={"@odata.id": SESSIONS},
    )


def session(name: str, user: str) -> Body:
    """Return the resource of a session."""
    return _resource(f"{SESSIONS}/{name}", "#Session.v1_6_0.Session", "Session", UserName=user)


def _account_service() -> Body:
    return _resource(
        ACCOUNT_SERVICE,
        "#AccountService.v1_15_0.AccountService",
        "Account Service",
        ServiceEnabled=True,
        HTTPBasicAuth="Enabled",
        Accounts={"@odata.id": ACCOUNTS},
        Roles={"@odata.id": ROLE_LIST},
    )


def account(found: Account) -> Body:
    """Return the resource of an account."""
    return _resource(
        f"{ACCOUNTS}/{found.identifier}",
        "#ManagerAccount.v1_12_0.ManagerAccount",
        "Account",
        UserName=found.user,
        Password=None,
        RoleId=found.role,
        Enabled=True,
        AccountTypes=["Redfish"],
        Links={"Role": {"@odata.id": f"{ROLE_LIST}/{found.role}"}},
    )


def _role(name: str) -> Body:
    privileges = [each.value for each in ROLES[name]]
    fields = {"RoleId": name, "IsPredefined": True, "AssignedPrivileges": privileges, "OemPrivileges": []}
    return _resource(f"{ROLE_LIST}/{name}", "#Role.v1_3_2.Role", name, **fields)


def _system(profile: BmcProfile, server: SimulatedServer) -> Body:
    words = (
        {"@Redfish.ActionInfo": RESET_INFO}
        if profile.action_info
        else {"ResetType@Redfish.AllowableValues": _reset_words(profile)}
    )
    reset = {"target": RESET, **words}
    return _resource(
        SYSTEM,
        "#ComputerSystem.v1_20_0.ComputerSystem",
        "Server",
        PowerState=server.power_state,
        Actions={"#ComputerSystem.Reset": reset},
        Links={"Chassis": [{"@odata.id": CHASSIS}]},
    )


def _reset_info(profile: BmcProfile) -> Body:
    parameter = {"Name": "ResetType", "Required": True, "DataType": "String", "AllowableValues": _reset_words(profile)}
    return _resource(RESET_INFO, "#ActionInfo.v1_1_2.ActionInfo", "Reset Action Info", Parameters=[parameter])


def _reset_words(profile: BmcProfile) -> list[str]:
    return list(profile.reset_types if profile.reset_words is None else profile.reset_words)


def _chassis(profile: BmcProfile) -> Body:
    links: Body = {}
    if profile.limit_place in {LimitPlace.POWER, LimitPlace.NONE}:
        links["Power"] = {"@odata.id": POWER}
    else:
        links["EnvironmentMetrics"] = {"@odata.id": ENVIRONMENT}
    if profile.limit_place is LimitPlace.CONTROL:
        links["Controls"] = {"@odata.id": CONTROLS}
    return _resource(CHASSIS, "#Chassis.v1_23_0.Chassis", "Chassis", ChassisType="RackMount", **links)


def _power(profile: BmcProfile, server: SimulatedServer) -> Body:
    element: Body = {
        "@odata.id": f"{POWER}#/PowerControl/0",
        "MemberId": "0",
        "Name": "System Power Control",
        "PowerConsumedWatts": server.reading(),
        "PowerCapacityWatts": profile.max_watts,
        "PowerMetrics": {"IntervalInMin": profile.reading_interval_s / 60, "AverageConsumedWatts": server.reading()},
    }
    if profile.limit_place is LimitPlace.POWER:
        limit: Body = {"LimitInWatts": server.limit_watts}
        if profile.limit_exception is not None:
            limit |= {"LimitException": profile.limit_exception, "CorrectionInMs": 0}
        element["PowerLimit"] = limit
    return _resource(POWER, "#Power.v1_7_1.Power", "Power", PowerControl=[element])


def _environment(profile: BmcProfile, server: SimulatedServer) -> Body:
    body = _resource(
        ENVIRONMENT,
        "#EnvironmentMetrics.v1_3_1.EnvironmentMetrics",
        "Environment",
        PowerWatts={"Reading": server.reading(), "DataSourceUri": f"{CHASSIS}/Sensors/TotalPower"},
    )
    if profile.limit_place is LimitPlace.ENVIRONMENT:
        body["PowerLimitWatts"] = _set_point(profile, server)
    return body


def _control(profile: BmcProfile, server: SimulatedServer) -> Body:
    fields = {"ControlType": "Power", "SetPointUnits": profile.unit, **_set_point(profile, server)}
    return _resource(CONTROL, "#Control.v1_5_0.Control", "System Power Limit", **fields)


def _set_point(profile: BmcProfile, server: SimulatedServer) -> Body:
    off = server.limit_watts is None
    body: Body = {
        "SetPoint": profile.max_watts if off else server.limit_watts,
        "AllowableMax": profile.max_watts,
        "ControlMode": "Disabled" if off else "Automatic",
    }
    return body if profile.min_watts is None else body | {"AllowableMin": profile.min_watts}
