"""The judge of the end-to-end runs of power domains notices a sample above the limit that held."""

import pytest
from tests.e2e.power_feed import FEED, GROUPS
from tests.e2e.power_limits import WrittenLimits, caps, drawn
from tests.e2e.power_observer import PowerObserver, PowerSample


def samples(*feed_w, drawn_w=0.0):
    """Return a sample a second with these caps of the feed."""
    empty = dict.fromkeys(GROUPS, 0.0)
    return [
        PowerSample(float(at_s), float(at_s), empty | {FEED: watts}, empty | {FEED: drawn_w}, empty)
        for at_s, watts in enumerate(feed_w)
    ]


def written(*limits):
    found = WrittenLimits()
    for at_s, watts in limits:
        found.write(FEED, watts, at_s)
    return found


@pytest.mark.parametrize(
    ("limits", "feed_w", "above"),
    [
        (((0.5, 100),), (150, 150, 100, 90), 0),
        (((0.5, 100),), (150, 100, 101, 90), 1),
        # Until the lower one is reached, the one before it holds.
        (((0.5, 100), (2.5, 80)), (90, 90, 90, 95, 80, 80), 0),
        (((0.5, 100), (2.5, 80)), (90, 90, 90, 101, 80, 81), 2),
        # A higher one holds at once.
        (((0.5, 100), (2.5, 120)), (90, 90, 90, 120, 121), 1),
    ],
    ids=["first", "exceeded", "lowered", "exceeded twice", "raised"],
)
def test_samples_above_the_limit_that_holds_are_counted(limits, feed_w, above):
    found = written(*limits).above(samples(*feed_w), caps)
    assert found == dict.fromkeys(GROUPS, 0) | {FEED: above}


def test_drawn_power_is_compared_with_the_limit_that_the_caps_have_reached():
    assert written((0.5, 100)).above(samples(150, 90, 90, drawn_w=101), drawn)[FEED] == 2


def test_a_run_leaves_every_sample_and_a_picture(tmp_path):
    written((0.5, 100)).save(tmp_path / "out", samples(150, 90, 90), [(1.0, "agents killed")])
    lines = (tmp_path / "out" / "sums.csv").read_text().splitlines()
    assert len(lines) == 4
    assert lines[-1].endswith("90,0.0,100")
    assert "<svg" in (tmp_path / "out" / "sums.svg").read_text()


def test_means_are_by_the_energy_counters():
    observer = PowerObserver("http://127.0.0.1:1", GROUPS)
    for at_s, joules in enumerate((0.0, 10.0, 20.0, 50.0, 80.0)):
        each = dict.fromkeys(GROUPS, joules)
        observer.samples.append(PowerSample(float(at_s), 10.0 + at_s, each, each, each))
    assert observer.means_w(FEED, 0.0, 4.0, 2.0) == [10.0, 30.0]
    assert observer.means_w(FEED, 1.0, 4.0, 2.0) == [20.0]
