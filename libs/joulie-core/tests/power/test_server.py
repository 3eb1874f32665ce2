from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.hardware.inventory import Inventory
from joulie_core.power.server import ServerBasis, ServerModels, groups, server_power

INVENTORY = Inventory.load()
MODELS = ServerModels.load()
CPUS = [*INVENTORY.cpus.values(), *(INVENTORY.generic_cpu(name) for name in ("AMD", "Intel", "Intel desktop", None))]
cpus = st.sampled_from(CPUS)
sockets = st.integers(1, 8)
memories = st.none() | st.floats(4, 8192)
loads = st.floats(-0.5, 1.5)
XEON = INVENTORY.cpus["intel-xeon-8280"]
EPYC = INVENTORY.cpus["amd-epyc-9654"]


@given(cpus, sockets, memories, loads, loads)
def test_power_never_falls_as_load_grows(cpu, count, memory_gib, one, other):
    server = server_power(cpu, count, memory_gib)
    low, high = sorted((one, other))
    assert 0 < server.wall_at(low) <= server.wall_at(high) + 1e-9
    assert 0 < server.packages_at(low) <= server.packages_at(high) + 1e-9


@given(cpus, sockets, memories, loads)
def test_the_packages_are_a_part_of_the_server_and_stay_within_their_tdp(cpu, count, memory_gib, load):
    server = server_power(cpu, count, memory_gib)
    assert server.packages_at(load) <= cpu.max_watts * count + 1e-9
    assert server.rest_at(load) > 0


@given(cpus, sockets, memories, loads, st.floats(0, 1))
def test_packages_held_lower_take_their_watts_and_losses_off_the_wall(cpu, count, memory_gib, load, share):
    server = server_power(cpu, count, memory_gib)
    natural = server.packages_at(load)
    held = share * natural
    assert server.wall_at(load) - server.wall_with(load, held) == pytest.approx((natural - held) / 0.94)
    assert server.wall_with(load, held) >= server.rest_at(load) - 1e-9


@given(cpus, sockets, memories, st.floats(0.1, 1), st.floats(0, 1))
def test_the_energy_of_the_whole_server_per_unit_of_work_is_least_at_its_knee(cpu, count, memory_gib, load, share):
    server, response = server_power(cpu, count, memory_gib), cpu.curve.response
    idle, natural = server.idle_packages_watts, server.packages_at(load)

    def energy_per_work(watts):
        return server.wall_with(load, watts) / response.retention(watts, natural, idle)

    other = idle + share * (natural - idle)
    if other > idle:
        assert energy_per_work(server.knee_at(load, response)) <= energy_per_work(other) * (1 + 1e-9)


def test_a_measured_model_has_its_published_curve():
    measured = MODELS.measured["intel-xeon-8280", 2]
    server = server_power(XEON, 2, measured.memory_gib)
    assert (server.basis, server.wall_watts) == (ServerBasis.MEASURED, measured.wall_watts)


def test_more_memory_than_was_measured_adds_its_watts_at_every_load():
    measured = MODELS.measured["intel-xeon-8280", 2]
    server = server_power(XEON, 2, measured.memory_gib + 100)
    expected = [watts + 100 * MODELS.rest_watts_per_gib for watts in measured.wall_watts]
    assert server.wall_watts == pytest.approx(expected)


def test_a_known_idle_and_maximum_are_met_and_the_shape_lies_between():
    server = server_power(XEON, 2, idle_watts=70, max_watts=430)
    assert (server.basis, server.wall_at(0), server.wall_at(1)) == (ServerBasis.SHAPE, 70, 430)
    assert server.wall_at(0.5) == pytest.approx(70 + 360 * MODELS.shapes["cascade-lake"][5])


def test_packages_draw_a_fifth_of_an_idle_power_that_is_below_the_usual_rest_of_such_a_server():
    server = server_power(XEON, 2, 4096, idle_watts=60, max_watts=430)
    assert MODELS.rest(4096) > 430
    assert server.packages_at(0) == pytest.approx(0.94 * 0.2 * 60)


@pytest.mark.parametrize(("idle_watts", "max_watts"), [(50, None), (None, 300), (300, 300), (0, 300), (-1, 300)])
def test_an_idle_or_maximum_that_makes_no_range_is_refused(idle_watts, max_watts):
    with pytest.raises(ValueError, match="idle"):
        server_power(XEON, 2, idle_watts=idle_watts, max_watts=max_watts)


def test_another_tdp_than_the_inventorys_is_not_the_measured_model():
    server = server_power(replace(XEON, max_watts=165), 2)
    assert server.basis is ServerBasis.TDP


def test_without_data_a_server_is_in_proportion_to_its_tdp():
    one, two = (server_power(EPYC, count, 384).wall_watts for count in (1, 2))
    rest = MODELS.rest(384)
    assert [watts - rest for watts in two] == pytest.approx([2 * (watts - rest) for watts in one])


def test_a_cpu_later_than_the_data_has_the_shape_of_the_generation_that_stands_for_it():
    assert MODELS.group(EPYC, 2) == "milan"


def test_a_cpu_that_is_not_listed_has_its_vendors_shape_and_entry_servers_have_their_own():
    generic = INVENTORY.generic_cpu("Intel")
    assert MODELS.group(generic, 2) == "Intel"
    assert groups(replace(generic, max_watts=80), 1) == ("Intel entry", "Intel", "any")
    assert groups(replace(generic, max_watts=80), 2) == ("Intel", "any")
    assert MODELS.group(replace(generic, vendor="Ampere"), 1) == "any"
