"""Warnings where GPU_MODEL_CAPS_JSON has no effect on a GPU: at the start, and once for each GPU model.

Nothing is refused: a name that the inventory does not know may be the driver's own name of a model that it does not
list.
"""

import structlog

from joulie_core.caps import CapIntent, CapSettings
from joulie_core.gpu_model_caps import unknown_models
from joulie_core.hardware.view import GpuView

_log = structlog.get_logger()


def is_unlisted(caps: CapIntent, settings: CapSettings) -> bool:
    """Return whether absolute caps are configured, but none for the GPU model of these caps."""
    return bool(settings.gpu_write_absolute_caps and settings.gpu_model_caps_json) and caps.gpu_watts is None


class GpuCapsCheck:
    """The warnings of one process."""

    def __init__(self, settings: CapSettings) -> None:
        self._settings = settings
        self._warned: set[str] = set()

    def at_start(self) -> None:
        """Check the setting itself."""
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

    def on_unlisted(self, gpu: GpuView) -> None:
        """Warn about a model for which `is_unlisted`, unless it was warned about."""
        if gpu.model in self._warned:
            return
        self._warned.add(gpu.model)
        _log.warning(
            "gpu model has no entry in GPU_MODEL_CAPS_JSON; its cap is published as a percentage only",
            model=gpu.model,
            names=list(gpu.names),
            configured=sorted(self._settings.gpu_model_caps_json),
        )
