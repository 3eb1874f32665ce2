"""The command `doctor`, which changes nothing."""

from pathlib import Path

from joulie_testing.agent.actuator_process import cap


def test_the_doctor_shows_what_works_on_a_two_socket_node(node):
    output = node.run("doctor")
    assert output.returncode == 0
    lines = {line.split("  ")[0]: line for line in output.stdout.splitlines()}
    assert "absent" in lines["actuator"]
    assert "2 packages, 16 cores, 32 threads, 192 GiB" in lines["cpu"]
    assert "works    package-0, package-1" in lines["cpu power reading"]
    assert "works    37.5 to 150 W per package" in lines["cpu power cap"]
    assert "works    32 policies, 1.0 to 3.9 GHz, driver intel_pstate" in lines["cpu throttle"]
    assert "works    min, base and turbo" in lines["class frequencies"]
    assert "absent" in lines["class idle states"]


def test_the_doctor_reads_through_an_actuator_that_runs(node):
    node.start_listening()
    node.request(cap(90))
    output = node.run("doctor").stdout
    assert "read by the actuator" in output
    assert "2 limits managed" in output


def test_the_doctor_names_what_a_machine_lacks_and_why(node, tmp_path):
    bare = tmp_path / "bare"
    bare.mkdir()
    output = node.run("doctor", HOST_SYS_ROOT=str(bare), HOST_PROC_ROOT=str(bare), LD_LIBRARY_PATH="", ROCM_HOME="")
    assert output.returncode == 0
    lines = {line.split("  ")[0]: line for line in output.stdout.splitlines()}
    assert "blocked  NoInterface: no RAPL package zone" in lines["cpu power cap"]
    assert "blocked  NoInterface: no RAPL package zone" in lines["cpu power reading"]
    assert "blocked  NoInterface: no cpufreq policy" in lines["cpu throttle"]
    assert {"nvml", "amdsmi"} <= lines.keys()


def test_the_doctor_changes_nothing(node, tmp_path):
    node.run("doctor")
    assert not Path(node.env["STATE_DIR"]).exists()
