"""A Redfish service as a dictionary of resources; what is requested of it is recorded."""

from http import HTTPStatus
from typing import Any

from joulie_outofband.reasons import BmcError, BmcReason
from joulie_outofband.redfish.connection import BmcAnswer

ROOT = "/redfish/v1"
SYSTEM, CHASSIS = f"{ROOT}/Systems/1", f"{ROOT}/Chassis/1"
POWER, ENVIRONMENT, SENSOR = f"{CHASSIS}/Power", f"{CHASSIS}/EnvironmentMetrics", f"{ROOT}/Sensors/1"
CONTROLS, CONTROL = f"{CHASSIS}/Controls", f"{CHASSIS}/Controls/PowerLimit"
RESET = f"{SYSTEM}/Actions/ComputerSystem.Reset"


def link(path: str) -> dict[str, str]:
    """Return a link."""
    return {"@odata.id": path}


def members(*paths: str) -> dict[str, Any]:
    """Return a collection."""
    return {"Members": [link(each) for each in paths]}


class Tree:
    """Stands for a RedfishConnection."""

    def __init__(self, resources: dict[str, Any]) -> None:
        self.resources = resources
        self.failures: dict[str, BmcReason] = {}
        self.asked: list[tuple[Any, ...]] = []

    async def get(self, path: str) -> BmcAnswer:
        """Return a resource; a missing one is refused."""
        self.asked.append(("GET", path))
        if path in self.failures or path not in self.resources:
            raise BmcError(self.failures.get(path, BmcReason.REFUSED), path)
        return BmcAnswer(HTTPStatus.OK, {}, self.resources[path])

    async def patch(self, path: str, body: Any) -> None:
        """Record a change."""
        self.asked.append(("PATCH", path, body))

    async def post(self, path: str, body: Any) -> None:
        """Record an action."""
        self.asked.append(("POST", path, body))

    async def close(self) -> None:
        """Record the end."""
        self.asked.append(("close",))


def plain() -> dict[str, Any]:
    """Return the resources of a server with a reading and a limit in Power."""
    return {
        f"{ROOT}/Systems": members(SYSTEM),
        SYSTEM: {
            "PowerState": "On",
            "Links": {"Chassis": [link(CHASSIS)]},
            "Actions": {
                "#ComputerSystem.Reset": {"target": RESET, "ResetType@Redfish.AllowableValues": ["On", "ForceOff"]}
            },
        },
        CHASSIS: {"Power": link(POWER)},
        POWER: {
            "PowerControl": [
                {
                    "PowerConsumedWatts": 344,
                    "PowerCapacityWatts": 800,
                    "PowerLimit": {"LimitInWatts": 500, "LimitException": "LogEventOnly"},
                    "PowerMetrics": {"IntervalInMin": 2},
                }
            ]
        },
    }
