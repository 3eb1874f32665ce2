import pytest

from joulie_actuator.settings import ActuatorSettingsError, help_text, read_settings, rows


def test_without_variables_the_defaults_hold():
    settings = read_settings({"STATE_DIR": "", "UNRELATED": "x"})
    assert (settings.state_dir, settings.dvfs_min_freq_khz) == ("/var/lib/joulie", 1_500_000)


def test_variables_are_read_by_their_types():
    settings = read_settings({"ACTUATOR_CONTROLLER_UID": "1000", "ACTUATOR_STOP_GRACE": "2.5", "STATE_DIR": "/run/x"})
    assert (settings.actuator_controller_uid, settings.actuator_stop_grace, settings.state_dir) == (1000, 2.5, "/run/x")


def test_every_invalid_value_is_named_at_once():
    with pytest.raises(ActuatorSettingsError) as caught:
        read_settings({"ACTUATOR_CONTROLLER_UID": "-1", "DVFS_MIN_FREQ_KHZ": "fast", "ACTUATOR_STOP_GRACE": "1"})
    message = str(caught.value)
    assert "ACTUATOR_CONTROLLER_UID='-1'" in message
    assert "DVFS_MIN_FREQ_KHZ='fast'" in message
    assert "STOP_GRACE" not in message


def test_help_names_every_variable():
    assert all(row.name in help_text() and row.doc for row in rows())
    assert len(rows()) == 9
