"""Where power domains are off: the limits that an earlier operator asked of nodes are withdrawn.

Guarantees that no limit stays in force because nothing looks at it any more: while this process leads, every
NodePowerBudget is deleted on the version that was seen, which is how agents restore their nodes.
"""

import asyncio
from typing import Final

import msgspec
import structlog

from joulie_api.apply import FencedWriter
from joulie_api.client import KubeClient
from joulie_api.errors import Conflict, DecodeError, KubeError, NotFound, NotLeader
from joulie_api.failure_log import FailureLog
from joulie_api.failures import Failures
from joulie_api.resources import NODE_POWER_BUDGETS
from joulie_api.wire import WireIdentity, decode_identity, decode_page

#: Between two looks where none was left: objects come back with a backup, or by a person.
LOOK_S: Final = 600.0
#: Between two looks where some were left.
RETRY_S: Final = 5.0

_log = structlog.get_logger()


class BudgetWithdrawal:
    """The withdrawal of one leader."""

    def __init__(self, client: KubeClient, writer: FencedWriter, failures: Failures) -> None:
        self._client = client
        self._writer = writer
        self._failures = failures
        self._problems = FailureLog(
            _log, failed="power budgets not withdrawn, will be repeated", recovered="power budgets are withdrawn again"
        )

    async def run(self) -> None:
        """Work until cancelled.

        Raises:
            NotLeader: this process must not write any more.
        """
        while True:
            is_done = False
            with self._failures.contained("withdraw power budgets"):
                is_done = await self.withdraw()
            await asyncio.sleep(LOOK_S if is_done else RETRY_S)

    async def withdraw(self) -> bool:
        """Delete every object, one after another; return whether none is left. Raise as `run`."""
        try:
            pages = self._client.list_pages(NODE_POWER_BUDGETS, metadata_only=True)
            items = [each async for page in pages for each in decode_page(page).items or ()]
        except NotFound:
            # The cluster lacks the kind.
            return True
        except KubeError as error:
            self._problems.failed(error)
            return False
        self._problems.recovered()
        found = [self._read(each) for each in items]
        names = {each.name for each in found if each is not None}
        self._problems.retain(lambda subject: subject.get("node") in names)
        deleted = [each is not None and await self._delete(each) for each in found]
        if any(deleted):
            _log.warning("power domains are off: limits of nodes withdrawn", nodes=sum(deleted))
        return all(deleted)

    def _read(self, item: msgspec.Raw) -> WireIdentity | None:
        try:
            return decode_identity(item)
        except DecodeError as error:
            self._failures.invalid_input(NODE_POWER_BUDGETS.full_name, error)
            return None

    async def _delete(self, budget: WireIdentity) -> bool:
        try:
            await self._writer.delete(NODE_POWER_BUDGETS, budget.name, version=budget.resource_version)
        except NotLeader:
            raise
        except Conflict:
            # Its agent has reported meanwhile.
            return False
        except KubeError as error:
            self._problems.failed(error, node=budget.name)
            return False
        self._problems.recovered(node=budget.name)
        return True
