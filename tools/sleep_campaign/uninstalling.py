"""The hook of the chart that wakes all nodes before an uninstall, on the API server of a campaign."""

import asyncio
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Final

from tools.sleep_campaign.api import CampaignApi
from tools.sleep_campaign.virtual_time import WallClock

_HOOK: Final = Path(__file__).resolve().parents[2] / "helm/joulie/files/restore.py"
_KINDS: Final = {"nodes": "Node", "nodebmcs": "NodeBMC"}
_POLL_S, _TIMEOUT_S = 10.0, 1800.0
_AWAKE: Final = timedelta(hours=4)


@cache
def _hook() -> Any:
    """Return the program of the chart's hooks, which is in no package."""
    spec = spec_from_file_location("chart_restore", _HOOK)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class _HookApi:
    """The requests that the hook makes."""

    def __init__(self, api: CampaignApi) -> None:
        self._api = api

    def items(self, path: str) -> list[dict[str, Any]]:
        """Return the objects of a collection."""
        return self._api.objects(_KINDS[path.rpartition("/")[2]])

    def annotate(self, path: str, key: str, value: str) -> None:
        """Set an annotation."""
        *_, plural, name = path.split("/")
        self._api.patch(_KINDS[plural], name, {"metadata": {"annotations": {key: value}}})


async def awake_by_hook(api: CampaignApi, wall: WallClock) -> frozenset[str] | None:
    """Wait as the hook does; return the servers that it names as off when it lets the uninstall go on, None if not."""
    hook, clean = _hook(), 0
    until = datetime.fromtimestamp(wall.time(), UTC) + _AWAKE
    deadline_s = asyncio.get_running_loop().time() + _TIMEOUT_S
    while asyncio.get_running_loop().time() < deadline_s:
        if not api.away:
            sleeping, broken, kept = hook._request_awake(_HookApi(api), until)  # noqa: SLF001 - it is a program, and no library
            clean = 0 if sleeping else clean + 1
            if clean == hook._CLEAN_CHECKS:  # noqa: SLF001 - as above
                return frozenset((*broken, *kept))
        await asyncio.sleep(_POLL_S)
    return None
