"""Jobs whose GPUs are limited a while after their start."""

from math import inf

from joulie_core.class_caps.enforced_limit import SETTLED_S, STEP_S
from joulie_sim.engine.settling_jobs import SET_AFTER_S, SettlingJobs


def test_the_time_is_that_of_a_node_and_half_of_a_step():
    assert SET_AFTER_S == SETTLED_S + STEP_S / 2.0


def test_jobs_are_limited_in_order_of_start_each_after_the_same_time():
    jobs = SettlingJobs()
    assert jobs.next_s() == inf
    jobs.started(7, 1.0)
    jobs.started(3, 2.0)
    assert (jobs.first(), jobs.next_s()) == (7, 1.0 + SET_AFTER_S)
    jobs.ended(7)
    assert (jobs.first(), jobs.next_s()) == (3, 2.0 + SET_AFTER_S)
    assert (7 in jobs, 3 in jobs) == (False, True)


def test_a_job_that_is_started_anew_has_its_time_from_then_on():
    jobs = SettlingJobs()
    jobs.started(7, 1.0)
    jobs.started(3, 2.0)
    jobs.ended(7)
    jobs.started(7, 4.0)
    jobs.ended(3)
    jobs.ended(3)
    assert (jobs.first(), jobs.next_s()) == (7, 4.0 + SET_AFTER_S)
