from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from joulie_containers.resources.ledger import MOST_PER_BATCH, Ledger
from joulie_containers.resources.values import UNSET, ContainerValues
from joulie_core.containers.container import ContainerId
from joulie_core.containers.idset import EMPTY, Cpus


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def cpus(text):
    return ContainerValues(cpus=Cpus.parse(text))


def ledger(**in_force):
    """A ledger whose containers have what they are to have."""
    result = Ledger(Clock())
    for name, text in in_force.items():
        result.want(ContainerId(name), cpus(text))
        result.report(ContainerId(name), cpus(text))
    return result


def want(book, name, text, exclusive=""):
    book.want(ContainerId(name), cpus(text), Cpus.parse(exclusive))


def sent(updates):
    return {update.container: str(update.values.cpus) for update in updates}


def test_nothing_is_sent_where_all_is_in_force():
    book = ledger(a="0-3", b="0-3")
    assert (sent(book.batch()), sent(book.reply()), dict(book.pending)) == ({}, {}, {})


def test_exclusive_cpus_that_a_container_may_still_be_running_on_are_left_over_until_it_was_moved():
    book = ledger(a="0-3", b="0-3")
    want(book, "b", "2-3", exclusive="2-3")
    assert book.left_over == EMPTY
    want(book, "a", "0-1")
    assert str(book.left_over) == "2-3"
    batch = book.batch()
    book.settle(batch, {"a"})
    assert str(book.left_over) == "2-3"
    book.settle(book.batch(), ())
    book.report(ContainerId("a"), cpus("0-1"))
    assert book.left_over == EMPTY


def test_a_container_that_is_being_created_runs_nowhere_and_one_that_runs_unplaced_runs_anywhere():
    book = ledger(b="2-3")
    want(book, "b", "2-3", exclusive="2-3")
    new = ContainerId("new")
    book.not_running(new)
    want(book, "new", "0-1")
    assert book.left_over == EMPTY
    book.running(new)
    assert str(book.left_over) == "2-3"


def test_what_the_runtime_reports_besides_is_no_difference():
    book = Ledger(Clock())
    book.want(ContainerId("a"), cpus("0-3"))
    book.report(ContainerId("a"), ContainerValues(cpus=Cpus.parse("0-3"), cpu_shares=512, cpu_quota_us=-1))
    assert not book.pending


def test_the_reply_to_a_creation_updates_others_and_fails_with_those_in_the_way():
    book = ledger(a="0-3", b="0-3")
    want(book, "new", "3", exclusive="3")
    want(book, "a", "0-2")
    book.want(ContainerId("b"), ContainerValues(cpus=Cpus.parse("0-3"), cpu_shares=7))
    updates = book.reply_to_creation(ContainerId("new"))
    # b still holds CPU 3: the policy has not taken it, so it is not in the way by the ledger's word
    assert {update.container: update.must_succeed for update in updates} == {"a": True, "b": False}
    assert not book.pending


def test_updates_of_a_creation_that_never_started_are_sent_again():
    book = ledger(a="0-3")
    want(book, "new", "3", exclusive="3")
    want(book, "a", "0-2")
    book.reply_to_creation(ContainerId("new"))
    book.forget(ContainerId("new"))
    assert sent(book.batch()) == {"a": "0-2"}


def test_updates_of_a_creation_that_started_are_in_force():
    book = ledger(a="0-3")
    want(book, "new", "3", exclusive="3")
    want(book, "a", "0-2")
    book.reply_to_creation(ContainerId("new"))
    book.started(ContainerId("new"))
    book.forget(ContainerId("new"))
    assert sent(book.batch()) == {}


def test_what_a_reply_changes_in_a_container_that_does_not_run_yet_is_sent_again_when_it_runs():
    book = ledger(a="0-3", b="0-3")
    book.not_running(ContainerId("a"))
    for name in ("a", "b"):
        want(book, name, "0-2")
    assert sent(book.reply()) == {"a": "0-2", "b": "0-2"}
    assert sent(book.batch()) == {}
    book.running(ContainerId("a"))
    again = book.batch()
    assert sent(again) == {"a": "0-2"}
    book.settle(again, failed=())
    assert not book.pending


def test_what_a_creation_changes_in_a_container_that_does_not_run_yet_is_sent_again_when_it_runs():
    book = ledger(a="0-3")
    book.not_running(ContainerId("a"))
    want(book, "new", "3", exclusive="3")
    want(book, "a", "0-2")
    assert sent(book.reply_to_creation(ContainerId("new"))) == {"a": "0-2"}
    book.started(ContainerId("new"))
    book.running(ContainerId("a"))
    assert sent(book.batch()) == {"a": "0-2"}


def test_a_container_that_is_listed_as_not_running_is_updated_when_it_runs():
    book = Ledger(Clock())
    book.list_not_running([ContainerId("a")])
    book.clear()
    book.report(ContainerId("a"), cpus("0-3"))
    want(book, "a", "0-2")
    assert sent(book.batch()) == {}
    book.running(ContainerId("a"))
    assert sent(book.batch()) == {"a": "0-2"}


def test_no_container_is_moved_to_exclusive_cpus_that_one_may_be_started_on():
    book = ledger(a="0-3", b="0-3")
    book.not_running(ContainerId("a"))
    want(book, "a", "0-2")
    book.reply()
    want(book, "b", "3", exclusive="3")
    assert sent(book.batch()) == {}
    book.running(ContainerId("a"))
    first = book.batch()
    assert sent(first) == {"a": "0-2"}
    book.settle(first, failed=())
    assert sent(book.batch()) == {"b": "3"}


def test_a_container_gets_exclusive_cpus_after_the_update_that_takes_them():
    book = ledger(a="0-3", b="0-3")
    want(book, "b", "3", exclusive="3")
    want(book, "a", "0-2")
    first = book.batch()
    assert sent(first) == {"a": "0-2"}
    book.settle(first, failed=())
    second = book.batch()
    assert sent(second) == {"b": "3"}
    book.settle(second, failed=())
    assert not book.pending


def test_a_failed_update_keeps_its_cpus_from_others_until_a_repetition_succeeds():
    book = ledger(a="0-3", b="0-3")
    want(book, "b", "3", exclusive="3")
    want(book, "a", "0-2")
    book.settle(book.batch(), failed=["a"])
    assert (book.batch(), book.next_retry_s()) == ([], 1.0)
    book._clock.now += 1
    book.settle(book.batch(), failed=["a"])
    assert book.next_retry_s() == 2.0
    book._clock.now += 2
    book.settle(book.batch(), failed=())
    assert sent(book.batch()) == {"b": "3"}


def test_a_creation_repeats_a_failed_update_that_is_in_its_way():
    book = ledger(a="0-3")
    want(book, "a", "0-2")
    book.settle(book.batch(), failed=["a"])
    want(book, "new", "3", exclusive="3")
    (update,) = book.reply_to_creation(ContainerId("new"))
    assert (update.container, update.must_succeed) == ("a", True)


def test_a_batch_that_another_message_has_overtaken_is_sent_again():
    book = ledger(a="0-3")
    want(book, "a", "0-2")
    batch = book.batch()
    want(book, "a", "0-1")
    assert sent(book.reply()) == {"a": "0-1"}
    book.settle(batch, failed=())
    assert sent(book.batch()) == {"a": "0-1"}, "the runtime may have carried out the older update last"


def test_an_update_in_another_reply_that_takes_exclusive_cpus_is_sent_once_more():
    book = ledger(a="0-3", b="0-3")
    want(book, "a", "0-2")
    want(book, "b", "3", exclusive="3")
    assert sent(book.reply()) == {"a": "0-2", "b": "3"}
    assert sent(book.batch()) == {"a": "0-2"}


def test_containers_that_exchange_exclusive_cpus_are_updated_together():
    book = ledger(a="0", b="1")
    want(book, "a", "1", exclusive="1")
    want(book, "b", "0", exclusive="0")
    assert sent(book.batch()) == {"a": "1", "b": "0"}


def test_of_containers_that_are_to_have_the_same_only_those_without_it_are_updated():
    book = ledger(a="0-3", b="0-2", c="0-3")
    book.want_all([ContainerId("a"), ContainerId("b"), ContainerId("c"), ContainerId("new")], cpus("0-2"))
    assert sent(book.reply()) == {"a": "0-2", "c": "0-2", "new": "0-2"}


def test_what_another_program_overwrites_is_sent_again():
    book = ledger()
    book.want(ContainerId("a"), ContainerValues(cpu_shares=500))
    book.report(ContainerId("a"), ContainerValues(cpu_shares=500))
    book.overwrite(ContainerId("a"), ContainerValues(cpu_shares=1000))
    (update,) = book.reply_to_update()
    assert update.values.cpu_shares == 500


def test_a_container_without_a_set_of_its_own_is_in_no_ones_way():
    book = ledger()
    book.want(ContainerId("free"), ContainerValues())
    book.report(ContainerId("free"), ContainerValues())
    want(book, "a", "3", exclusive="3")
    assert sent(book.batch()) == {"a": "3"}


def test_a_container_whose_set_is_not_known_is_in_the_way():
    book = ledger()
    book.report(ContainerId("old"), ContainerValues())
    want(book, "old", "0-2")
    want(book, "a", "3", exclusive="3")
    assert sent(book.batch()) == {"old": "0-2"}


def test_a_container_may_be_where_a_batch_without_a_result_was_to_move_it():
    book = ledger(a="0-1")
    want(book, "a", "3")
    assert sent(book.batch()) == {"a": "3"}
    want(book, "a", "0-1")
    want(book, "new", "3", exclusive="3")
    (update,) = book.reply_to_creation(ContainerId("new"))
    assert (update.container, update.must_succeed) == ("a", True)


def test_the_exclusive_cpus_of_a_container_that_has_ended_are_in_no_ones_way():
    book = ledger(a="3", b="0-3")
    want(book, "a", "3", exclusive="3")
    want(book, "b", "0-2")
    book.forget(ContainerId("a"))
    (update,) = book.reply_to_update()
    assert (update.container, update.must_succeed) == ("b", False)


def test_a_container_that_might_be_anywhere_still_might_after_a_creation_that_never_started():
    book = ledger()
    book.report(ContainerId("a"), ContainerValues())
    want(book, "a", "0-2")
    want(book, "new", "3", exclusive="3")
    book.reply_to_creation(ContainerId("new"))
    book.forget(ContainerId("new"))
    want(book, "other", "5", exclusive="5")
    (update,) = book.reply_to_creation(ContainerId("other"))
    assert (update.container, update.must_succeed) == ("a", True)


def test_a_batch_is_limited():
    book = ledger(**{f"c{number}": "0" for number in range(2 * MOST_PER_BATCH)})
    for number in range(2 * MOST_PER_BATCH):
        want(book, f"c{number}", "1")
    assert len(book.batch()) == MOST_PER_BATCH


CPU_COUNT = 6
NAMES = [ContainerId(name) for name in "abcd"]
FAILS = st.lists(st.booleans(), min_size=4, max_size=4)


class RuntimeMachine(RuleBasedStateMachine):
    """A runtime that fails updates at will, and a policy that moves containers at will."""

    @initialize()
    def start(self):
        self.book = Ledger(Clock())
        #: CPUs that the containers really use.
        self.used = {}
        #: Updates on their way, with the exclusive CPUs of each.
        self.flight = []

    def plan(self, seed):
        """Move all containers, some to exclusive CPUs and the others to the rest."""
        names = sorted(self.used)
        free = sorted(range(CPU_COUNT), key=lambda cpu: (seed * (cpu + 3)) % 7)
        single = {name: Cpus([free.pop()]) for place, name in enumerate(names) if seed >> place & 1}
        for name in names:
            exclusive = single.get(name, EMPTY)
            self.book.want(name, ContainerValues(cpus=exclusive or Cpus(free)), exclusive)

    def exclusive(self, name):
        return self.book._exclusive.get(name, EMPTY)

    @precondition(lambda self: not self.flight)
    @rule(name=st.sampled_from(NAMES), seed=st.integers(0, 255), fails=FAILS)
    def create(self, name, seed, fails):
        if name in self.used:
            return
        self.used[name] = EMPTY
        self.plan(seed)
        updates = self.book.reply_to_creation(name)
        # A failure that the runtime ignores leaves a container on fewer CPUs than it is to have, which harms no other.
        failing = zip((update for update in updates if update.must_succeed), fails, strict=False)
        failed = {update.container for update, fail in failing if fail}
        for update in updates:
            if update.container not in failed:
                self.used[update.container] = update.values.cpus
        if failed:
            del self.used[name]
            self.book.forget(name)
            self.plan(seed)
            return
        self.used[name] = self.book.wanted(name).cpus
        for other in self.used.keys() - {name}:
            assert self.used[other].isdisjoint(self.exclusive(name)), f"{name} is not alone on its CPUs"
        self.book.started(name)

    @precondition(lambda self: self.used)
    @rule(seed=st.integers(0, 255))
    def move(self, seed):
        self.plan(seed)

    @precondition(lambda self: self.used and not self.flight)
    @rule(seed=st.integers(0, 255), data=st.data())
    def end(self, seed, data):
        name = data.draw(st.sampled_from(sorted(self.used)))
        del self.used[name]
        self.book.forget(name)
        self.plan(seed)

    @precondition(lambda self: not self.flight)
    @rule()
    def send(self):
        self.book._clock.now += 100
        self.flight = [(update, self.exclusive(update.container)) for update in self.book.batch()]

    @precondition(lambda self: self.flight)
    @rule(fails=FAILS)
    def receive(self, fails):
        members = {update.container for update, _ in self.flight}
        failed = {update.container for (update, _), fail in zip(self.flight, fails, strict=False) if fail}
        for update, exclusive in self.flight:
            if update.container in failed:
                continue
            self.used[update.container] = update.values.cpus
            for other in self.used.keys() - {update.container}:
                # Members of an exchange need each other's CPUs.
                assert other in members or self.used[other].isdisjoint(exclusive), f"{update.container} is not alone"
        self.book.settle([update for update, _ in self.flight], failed)
        self.flight = []

    def teardown(self):
        if self.flight:
            self.receive(fails=[False] * 4)
        for _ in range(2 * len(NAMES)):
            self.send()
            self.receive(fails=[False] * 4)
        assert {name: self.book.wanted(name).cpus for name in self.used} == self.used


TestRuntimeMachine = RuntimeMachine.TestCase
TestRuntimeMachine.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)


def test_what_is_in_force_is_what_the_runtime_has_reported_or_accepted():
    book = ledger(a="0-3")
    want(book, "a", "0-1")
    assert book.in_force(ContainerId("a")) == cpus("0-3")
    assert book.has_pending
    book.settle(book.batch(), failed=())
    assert book.in_force(ContainerId("a")) == cpus("0-1")
    assert not book.has_pending
    assert book.in_force(ContainerId("unknown")) == book.wanted(ContainerId("unknown")) == UNSET


def failing(book, times):
    """Let the update of `a` fail; return how long the ledger waits after each time, in seconds."""
    waits = []
    for _ in range(times):
        (update,) = book.batch()
        book.settle([update], {update.container})
        waits.append(book.next_retry_s())
        book._clock.now += waits[-1]
    return waits


def test_a_failed_update_is_repeated_after_times_that_double_up_to_a_minute():
    book = ledger(a="0-3")
    want(book, "a", "0-1")
    assert failing(book, 8) == [1, 2, 4, 8, 16, 32, 60, 60]
    assert dict(book.pending) == {"a": 8}


def test_other_values_are_sent_at_once_after_a_failure_and_equal_ones_are_not():
    book = ledger(a="0-3")
    want(book, "a", "0-1")
    failing(book, 3)
    book._clock.now -= 1
    want(book, "a", "0-1")
    assert book.batch() == []
    want(book, "a", "0-2")
    assert sent(book.batch()) == {"a": "0-2"}
    assert dict(book.pending) == {"a": 0}


def test_a_success_ends_the_series_of_failures():
    book = ledger(a="0-3")
    want(book, "a", "0-1")
    failing(book, 4)
    book.settle(book.batch(), failed=())
    assert book.next_retry_s() is None
    want(book, "a", "0-2")
    assert failing(book, 1) == [1]


def test_without_failures_there_is_no_time_of_repetition():
    book = ledger(a="0-3")
    assert book.next_retry_s() is None
    want(book, "a", "0-1")
    assert book.next_retry_s() is None


def test_a_repetition_that_is_due_is_due_now():
    book = ledger(a="0-3")
    want(book, "a", "0-1")
    failing(book, 1)
    book._clock.now += 100
    assert book.next_retry_s() == 0


def test_updates_in_the_reply_to_an_update_must_succeed_where_they_take_exclusive_cpus_and_in_other_replies_not():
    for reply, strict in ((Ledger.reply_to_update, True), (Ledger.reply, False)):
        book = ledger(a="0-3", b="4-7")
        want(book, "g", "3", exclusive="3")
        want(book, "a", "0-2")
        want(book, "b", "4-6")
        found = {update.container: update.must_succeed for update in reply(book)}
        assert (found["a"], found["b"]) == (strict, False)


def test_updates_on_its_own_initiative_must_succeed():
    book = ledger(a="0-3")
    want(book, "a", "0-1")
    (update,) = book.batch()
    assert update.must_succeed is True


def test_a_message_between_a_batch_and_its_result_leaves_the_container_unknown():
    book = ledger(a="0-3")
    want(book, "a", "0-1")
    batch = book.batch()
    book.report(ContainerId("a"), cpus("0-3"))
    book.settle(batch, failed=())
    assert dict(book.pending) == {"a": 0}
    assert sent(book.batch()) == {"a": "0-1"}


def test_the_result_of_an_older_batch_does_not_count_for_a_newer_one():
    book = ledger(a="0-3")
    want(book, "a", "0-1")
    older, newer = book.batch(), book.batch()
    book.settle(older, failed=())
    assert book.has_pending
    book.settle(newer, failed=())
    assert book.in_force(ContainerId("a")) == cpus("0-1")
    assert not book.has_pending


def test_the_result_of_a_container_that_has_ended_does_not_stop_that_of_others():
    book = ledger(a="0-3", b="0-3")
    want(book, "a", "0-1")
    want(book, "b", "0-1")
    batch = book.batch()
    book.forget(ContainerId("a"))
    book.settle(batch, failed=())
    assert book.in_force(ContainerId("b")) == cpus("0-1")


def test_a_container_that_has_ended_leaves_nothing():
    book = ledger(a="0-3")
    want(book, "g", "3", exclusive="3")
    book.not_running(ContainerId("g"))
    book.reply_to_creation(ContainerId("g"))
    book.forget(ContainerId("g"))
    book.forget(ContainerId("g"))
    assert book.wanted(ContainerId("g")) == UNSET
    want(book, "g", "2")
    book.report(ContainerId("g"), cpus("0-3"))
    assert sent(book.batch()) == {"g": "2"}, "a container of the same name is not one that does not run yet"
    want(book, "a", "0-2")
    (update,) = [each for each in book.reply_to_update() if each.container == "a"]
    assert not update.must_succeed, "CPU 3 is no one's any more"


def test_cpus_that_a_failed_creation_was_to_take_may_still_be_in_use():
    book = ledger(a="0-3")
    want(book, "new", "3", exclusive="3")
    want(book, "a", "0-2")
    book.reply_to_creation(ContainerId("new"))
    book.forget(ContainerId("new"))
    want(book, "g", "3", exclusive="3")
    assert sent(book.batch()) == {"a": "0-2"}, "g waits for what a may not have left"


def test_cpus_that_a_container_is_known_not_to_use_are_free_at_once():
    book = ledger(a="0-2")
    want(book, "new", "2", exclusive="2")
    want(book, "a", "0-1")
    book.reply_to_creation(ContainerId("new"))
    book.forget(ContainerId("new"))
    want(book, "g", "3", exclusive="3")
    assert sent(book.batch()) == {"a": "0-1", "g": "3"}, "a has never had CPU 3"


def test_a_batch_has_as_many_updates_as_a_runtime_carries_out_in_a_tenth_of_a_second():
    book = ledger(**{f"c{number}": "0-3" for number in range(40)})
    for number in range(40):
        want(book, f"c{number}", "0-1")
    assert len(book.batch()) == 32


def test_a_start_that_was_not_created_here_changes_nothing():
    book = ledger(a="0-3")
    book.started(ContainerId("a"))
    assert not book.has_pending
