"""The mounted machine and the libraries of the system."""

import pytest

from joulie_testing.agent.kernel.mount import mounted, why_not
from joulie_testing.agent.machine_spec import PLATFORMS

pytestmark = pytest.mark.skipif(bool(why_not()), reason=str(why_not()))


def test_libfuse_3_is_used_whatever_else_is_installed_or_configured(tmp_path, monkeypatch):
    monkeypatch.setenv("FUSE_LIBRARY_PATH", "libfuse.so.2")
    with mounted(PLATFORMS["xeon-small"], tmp_path) as machine:
        assert (machine.sys / "devices/system/cpu/online").read_text()
