"""Tells where GPU_MODEL_CAPS_JSON does not do what its author expects: once at the start, and once for each GPU model.

Nothing is refused here: a name that the inventory does not know may be the driver's own name of a model that it does
not list.
"""

import structlog

from joulie_core.caps import CapIntent, CapSettings
from joulie_core.gpu_model_caps import unknown_models
from joulie_core.hardware.view import GpuView

_log = structlog.get_logger()


class GpuCapsCheck:
    """The warnings of one process."""

    def __init__(self, settings: CapSettings) -> None:
        self._settings = settings
        self._told: set[str] = set()

    def at_start(self) -> None:
        """Look at the setting itself."""
        configured = self._settings.gpu_model_caps_json
        if configured and not self._settings.gpu_write_absolute_caps:
            _log.warning(
                "GPU_MODEL_CAPS_JSON has no effect: GPU_WRITE_ABSOLUTE_CAPS is false", models=sorted(configured)
            )
        for unknown in unknown_models(configured):
            _log.warning(
                "gpu model of GPU_MODEL_CAPS_JSON is not in the inventory; only GPUs of exactly this name are meant",
                model=unknown.name,
                known=list(unknown.known),
            )

    def on_caps(self, gpu: GpuView | None, caps: CapIntent) -> None:
        """Look at the caps of a node."""
        expected = self._settings.gpu_write_absolute_caps and self._settings.gpu_model_caps_json
        if gpu is None or not expected or caps.gpu_watts is not None or gpu.model in self._told:
            return
        self._told.add(gpu.model)
        _log.warning(
            "gpu model has no entry in GPU_MODEL_CAPS_JSON; its cap is published as a percentage only",
            model=gpu.model,
            names=list(gpu.names),
            configured=sorted(self._settings.gpu_model_caps_json),
        )
