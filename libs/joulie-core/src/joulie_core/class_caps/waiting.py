"""GPU models whose limits are lifted, since performance pods wait for them.

Limited pods hold GPUs for longer, and performance pods would wait for that. Limits of a model are lifted as soon as a
performance pod waits that one of its nodes could take if it were empty, and come back a while after the last one has
gone, so that pods that come one by one do not switch them. The caller leaves out pods that no node could ever take.
Source: docs/decisions/0044-bounded-slowdown.md.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

#: Time without a waiting performance pod until limits come back.
LIFTED_FOR_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class LiftedModels:
    """GPU models without limits, and when a performance pod waited for each last."""

    waited_s: Mapping[str, float] = field(default_factory=dict)

    def __contains__(self, model: object) -> bool:
        """Return whether limits of a model are lifted."""
        return model in self.waited_s

    def step(self, waited_for: Collection[str], now_s: float) -> "LiftedModels":
        """Return the state at a time; `waited_for`: the models that performance pods wait for now."""
        recent = {model: last_s for model, last_s in self.waited_s.items() if now_s - last_s < LIFTED_FOR_S}
        return LiftedModels({**recent, **dict.fromkeys(waited_for, now_s)})
