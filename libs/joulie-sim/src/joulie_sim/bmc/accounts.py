"""Accounts and roles of a simulated BMC. No I/O.

Source: DMTF DSP0266 (Redfish Specification), sections on privileges, roles and PATCH; schemas ManagerAccount and Role.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final

from joulie_sim.bmc.refusals import RefusedError


class Privilege(StrEnum):
    """Privilege of an account."""

    LOGIN = "Login"
    CONFIGURE_MANAGER = "ConfigureManager"
    CONFIGURE_USERS = "ConfigureUsers"
    CONFIGURE_COMPONENTS = "ConfigureComponents"
    CONFIGURE_SELF = "ConfigureSelf"


#: The predefined roles, which cannot be changed.
ROLES: Final[Mapping[str, tuple[Privilege, ...]]] = MappingProxyType(
    {
        "Administrator": tuple(Privilege),
        "Operator": (Privilege.LOGIN, Privilege.CONFIGURE_COMPONENTS, Privilege.CONFIGURE_SELF),
        "ReadOnly": (Privilege.LOGIN, Privilege.CONFIGURE_SELF),
    }
)
_WRITABLE: Final = ("UserName", "Password", "RoleId")


@dataclass(slots=True)
class Account:
    """One account; `identifier` is the last part of its path."""

    identifier: str
    user: str
    password: str
    role: str

    def may(self, privilege: Privilege) -> bool:
        """Return whether the account's role has a privilege."""
        return privilege in ROLES[self.role]


class Accounts:
    """The accounts by their identifier; the first is an administrator's."""

    def __init__(self, user: str, password: str) -> None:
        self._numbers = itertools.count(2)
        self.administrator = Account("1", user, password, "Administrator")
        self.by_id = {"1": self.administrator}

    def log_in(self, user: object, password: object) -> Account | None:
        """Return the account with these credentials."""
        return next((each for each in self.by_id.values() if (each.user, each.password) == (user, password)), None)

    def create(self, body: Mapping[str, Any]) -> Account:
        """Add an account.

        Raises:
            RefusedError: a property is missing, or cannot be used.
        """
        missing = next((name for name in _WRITABLE if name not in body), None)
        if missing is not None:
            raise RefusedError(HTTPStatus.BAD_REQUEST, "CreateFailedMissingReqProperties", missing)
        self._check(body)
        account = Account(str(next(self._numbers)), body["UserName"], body["Password"], body["RoleId"])
        self.by_id[account.identifier] = account
        return account

    def change(self, account: Account, body: Mapping[str, Any]) -> None:
        """Change an account; nothing is changed where a part of the request is refused.

        Raises:
            RefusedError: a property does not exist, or cannot be used; or there is none but annotations.
        """
        wanted = {name: value for name, value in body.items() if "@" not in name}
        if not wanted:
            raise RefusedError(HTTPStatus.BAD_REQUEST, "NoOperation")
        self._check(wanted)
        account.user = wanted.get("UserName", account.user)
        account.password = wanted.get("Password", account.password)
        account.role = wanted.get("RoleId", account.role)

    def _check(self, body: Mapping[str, Any]) -> None:
        for name, value in body.items():
            if name not in _WRITABLE:
                raise RefusedError(HTTPStatus.BAD_REQUEST, "PropertyUnknown", name)
            if not isinstance(value, str) or not value or (name == "RoleId" and value not in ROLES):
                raise RefusedError(HTTPStatus.BAD_REQUEST, "PropertyValueError", name)
        if any(each.user == body.get("UserName") for each in self.by_id.values()):
            raise RefusedError(HTTPStatus.BAD_REQUEST, "ResourceAlreadyExists", body["UserName"])
