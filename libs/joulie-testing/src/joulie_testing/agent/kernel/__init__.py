"""A machine whose /sys behaves as the kernel's: in memory, below a `SysfsTree` or mounted by FUSE.

Ordinary files hold what was written last, and so share the assumption of code that treats them so. Here an attribute is
computed when it is read, a write is parsed and may be refused, clamped or rounded, and what others request (a thermal
or platform limit, another user, firmware) is state of its own. What is modelled, from which documentation, and what is
not: docs/decisions/0006-kernel-semantics.md.
"""

from joulie_testing.agent.kernel.behaviour import Behaviour, Maximum, OfflinePolicy, PolicyReturn
from joulie_testing.agent.kernel.faults import KernelFault
from joulie_testing.agent.kernel.machine import KernelMachine
from joulie_testing.agent.kernel.tree import KernelTree

__all__ = ["Behaviour", "KernelFault", "KernelMachine", "KernelTree", "Maximum", "OfflinePolicy", "PolicyReturn"]
