from types import SimpleNamespace

from joulie_actuator.frequency_sampler import FrequencySampler
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.reasons import Reason


class Machine:
    """Policies whose current frequency takes a while to read."""

    def __init__(self, count, read_s):
        self.now = 0.0
        self.read_s = read_s
        self.reads = []
        self.policies = [
            SimpleNamespace(name=f"policy{n}", current_khz=lambda n=n: self._read(n)) for n in range(count)
        ]
        self.rota = FrequencySampler(lambda: self.now)

    def _read(self, number):
        self.now += self.read_s
        self.reads.append(number)
        return 1_000_000 + number


def test_where_reading_is_fast_every_sample_has_every_policy():
    machine = Machine(128, read_s=0.00001)
    assert list(machine.rota.sample(machine.policies).values()) == [1_000_000 + number for number in range(128)]


def test_where_reading_is_slow_a_sample_keeps_to_its_budget_and_the_next_goes_on():
    machine = Machine(5, read_s=0.01)
    assert list(machine.rota.sample(machine.policies).values()) == [1_000_000, 1_000_001, None, None, None]
    machine.rota.sample(machine.policies)
    machine.rota.sample(machine.policies)
    assert machine.reads == [0, 1, 2, 3, 4, 0]
    assert machine.now < 0.07


def test_a_removed_policy_is_dropped_and_one_that_fails_is_unknown():
    machine = Machine(3, read_s=0.0)
    machine.rota.sample(machine.policies)
    mute = SimpleNamespace(name="policy1", current_khz=lambda: HardwareFailure(Reason.NO_INTERFACE))
    assert machine.rota.sample([machine.policies[0], mute]) == {"policy0": 1_000_000, "policy1": None}


def test_a_machine_without_policies_has_no_frequencies():
    assert Machine(0, read_s=0.0).rota.sample([]) == {}
