"""Scores that are kept for the next question, the reply that tells them, and the guess where a pod goes."""

import gc
from collections import Counter
from dataclasses import dataclass, replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.demand import WorkloadClass
from joulie_core.powerest.pod_demand import PodDemand
from joulie_core.scoring.headroom_v1 import HeadroomScore
from joulie_core.scoring.prepared import AffineRow
from joulie_core.scoring.state import ClusterTerms
from joulie_extender.scores import SCORE_PROFILES, ScoreTable

FOUR = PodDemand(4.0)


def put(table, name, *row):
    table.put(name, lambda _profile: AffineRow(*row))


@pytest.fixture
def table():
    table = ScoreTable(100)
    for number, name in enumerate("abc"):
        put(table, name, 50.0 + number, 1.0, 0.0, 0.1)
    return table


def scores(table, names="abc", *, demand=FOUR, pressure=0.0):
    told = msgspec.json.decode(table.answer(list(names), demand, ClusterTerms(perf_pressure=pressure)).body)
    assert [each["Host"] for each in told] == list(names)
    return [each["Score"] for each in told]


def test_a_question_has_the_same_answer_the_first_the_second_and_every_later_time(table):
    assert [scores(table) for _ in range(4)] == [[46, 47, 48]] * 4


def test_candidates_are_answered_in_their_order_and_as_often_as_they_are_named(table):
    for _ in range(3):
        assert scores(table, "cab") == [48, 46, 47]
        assert scores(table, "bb") == [47, 47]
        assert scores(table, "") == []


def test_a_changed_node_is_scored_anew(table):
    for _ in range(3):
        scores(table)
    put(table, "b", 90.0, 1.0, 0.0, 0.0)
    assert scores(table) == [46, 86, 48]


def test_a_node_that_is_gone_scores_as_an_unknown_one_and_its_place_is_used_again(table):
    for _ in range(3):
        scores(table)
    table.drop("b")
    assert scores(table) == [46, 50, 48]
    put(table, "new", 80.0, 1.0, 0.0, 0.0)
    assert scores(table, ["a", "b", "new"]) == [46, 50, 76]
    assert len(table) == 3


def test_a_name_that_json_has_to_escape_is_returned_unchanged(table):
    assert scores(table, ['"\\\n', "a"]) == [50, 46]


def test_a_reply_is_written_without_more_than_its_scores_need():
    table = ScoreTable(10)
    put(table, "a", 50.0, 0.0, 0.0, 0.0)
    put(table, "b", 100.0, 0.0, 0.0, 0.0)
    answer = table.answer(["a", "b"], FOUR, ClusterTerms())
    assert answer.body == b'[{"Score": 5,"Host":"a"},{"Score":10,"Host":"b"}]'


def test_other_pods_and_other_pressure_get_other_scores(table):
    for _ in range(3):
        scores(table)
    assert scores(table, demand=PodDemand(8.0)) == [42, 43, 44]
    assert scores(table, pressure=50.0) == [41, 42, 43]
    assert scores(table) == [46, 47, 48]


def test_every_aspect_has_rows_of_its_own():
    table = ScoreTable(100)
    rows = {aspect: AffineRow(10.0 * number, 0.0, 0.0, 0.0) for number, aspect in enumerate(SCORE_PROFILES, 1)}
    table.put("a", rows.__getitem__)
    bodies = {
        table.answer(["a"], PodDemand(1.0, workload_class=workload_class), ClusterTerms(trend_w_per_min=trend)).body
        for workload_class in WorkloadClass
        for trend in (0.0, 1_000.0)
    }
    assert {msgspec.json.decode(body)[0]["Score"] for body in bodies} == {10, 20, 30, 40}


def covered_scores(table, covered, names="abc", *, scale=6.0):
    terms = ClusterTerms(trend_w_per_min=1_000.0 if scale == 2.0 else 0.0)
    told = msgspec.json.decode(table.answer(list(names), FOUR, terms, covered).body)
    assert [each["Host"] for each in told] == list(names)
    return [each["Score"] for each in told]


def put_by_profile(table, name, made=None):
    """Enter a node that has ten points for each ninth that is covered, and one for another trend scale or class."""

    def row(profile):
        if made is not None:
            made.append(profile)
        workload_class, scale, covered = profile
        points = 10.0 * covered + (scale == 2.0) + 2.0 * (workload_class is WorkloadClass.PERFORMANCE)
        return AffineRow(points, 0.0, 0.0, 0.0)

    table.put(name, row)


def test_each_node_is_scored_by_what_it_covers_in_the_order_of_the_request():
    table = ScoreTable(100)
    for name in "abc":
        put_by_profile(table, name)
    for _ in range(2):
        assert covered_scores(table, {"a": 3, "c": 9}) == [30, 0, 90]
        assert covered_scores(table, {"a": 3, "c": 9}, "cabac") == [90, 30, 0, 30, 90]
        assert covered_scores(table, {"b": 3}, scale=2.0) == [1, 31, 1]
        assert covered_scores(table, {}) == [0, 0, 0]
    assert covered_scores(table, {"b": 5, "ghost": 5}, ["b", "ghost", "new"]) == [50, 50, 50]
    performance = replace(FOUR, workload_class=WorkloadClass.PERFORMANCE)
    body = table.answer(["a", "b"], performance, ClusterTerms(), {"a": 1}).body
    assert [each["Score"] for each in msgspec.json.decode(body)] == [12, 2]


def test_rows_of_covered_times_are_made_when_they_are_needed_and_kept_until_the_node_changes():
    table, made = ScoreTable(100), []
    for name in "abc":
        put_by_profile(table, name, made)
    covered_scores(table, {"b": 4})
    assert [profile.covered for profile in made].count(4) == 1
    before = len(made)
    covered_scores(table, {"b": 4})
    assert len(made) == before
    table.forget("b")
    covered_scores(table, {"b": 4})
    assert [profile.covered for profile in made[before:]] == [4]
    put_by_profile(table, "new", made)
    assert covered_scores(table, {"new": 4, "a": 4}, ["a", "new"]) == [40, 40]
    put(table, "a", 77.0, 0.0, 0.0, 0.0)
    table.drop("b")
    assert covered_scores(table, {"b": 4, "a": 4}) == [77, 50, 0]


def test_the_best_of_nodes_that_cover_unlike_parts_is_the_likely_one():
    table = ScoreTable(100)
    for name in "abc":
        put_by_profile(table, name)
    assert table.answer(list("abc"), FOUR, ClusterTerms(), {"a": 3, "b": 8}).likely_node("uid") == "b"


def test_a_score_is_rounded_half_away_from_zero_and_stays_within_its_range():
    table = ScoreTable(10)
    for name, base in {"a": -5.0, "b": 4.9, "c": 5.0, "d": 94.9, "e": 95.0, "f": 200.0}.items():
        put(table, name, base, 0.0, 0.0, 0.0)
    assert scores(table, "abcdefg") == [0, 0, 1, 9, 10, 10, 5]


@pytest.mark.parametrize(("score_max", "score"), [(10, 5), (1000, 500)])
def test_every_figure_of_a_row_counts_in_points_of_the_highest_score(score_max, score):
    table = ScoreTable(score_max)
    put(table, "a", 90.0, 2.5, 10.0, 0.2)
    assert scores(table, "a", demand=PodDemand(4.0, gpus=2.0), pressure=50.0) == [score]


def test_half_a_point_of_an_unknown_node_is_rounded_up():
    assert scores(ScoreTable(11), "a") == [6]


def test_performance_pods_do_not_compete_for_performance_nodes():
    table = ScoreTable(100)
    put(table, "a", 60.0, 0.0, 0.0, 1.0)
    demand = PodDemand(4.0, workload_class=WorkloadClass.PERFORMANCE)
    assert [scores(table, "a", demand=demand, pressure=pressure) for pressure in (0.0, 50.0)] == [[60], [60]]


def test_a_node_is_scored_anew_for_every_request_key_that_has_it(table):
    scores(table, "ab", demand=PodDemand(8.0))
    scores(table, "b")
    scores(table, "a", demand=PodDemand(2.0))
    put(table, "b", 90.0, 1.0, 0.0, 0.0)
    assert [scores(table, "b", demand=PodDemand(cores)) for cores in (8.0, 4.0, 2.0)] == [[82], [86], [88]]


WEIGHTS = {"a": 0.0, "b": 0.1, "c": 0.3, "d": -0.2}
NODE_CHANGES = st.tuples(st.sampled_from("abcd"), st.none() | st.floats(-50, 150))
PRESSURES = st.sampled_from([0.0, 0.1, 20.0, 20.01, 20.4, 21.0, 99.9, 100.0]) | st.floats(0.0, 100.0)


@given(st.lists(NODE_CHANGES | PRESSURES, max_size=30), st.sampled_from(WorkloadClass))
def test_kept_scores_follow_any_changes(changes, workload_class):
    kept, bases, pressure = ScoreTable(100), {}, 0.0
    demand = PodDemand(4.0, workload_class=workload_class)
    for change in changes:
        scores(kept, "abcd", demand=demand, pressure=pressure)
        if isinstance(change, float):
            pressure = change
            continue
        name, base = change
        if base is None:
            kept.drop(name)
            bases.pop(name, None)
        else:
            put(kept, name, base, 0.5, 0.0, WEIGHTS[name])
            bases[name] = base
    fresh = ScoreTable(100)
    for name, base in bases.items():
        put(fresh, name, base, 0.5, 0.0, WEIGHTS[name])
    kept_scores = scores(kept, "dcbaa", demand=demand, pressure=pressure)
    assert kept_scores == scores(fresh, "dcbaa", demand=demand, pressure=pressure)
    assert len(kept) == len(bases)


@pytest.mark.parametrize(
    ("row", "before", "after", "expected"),
    [
        ((50.2, 0.1), 0.0, 7.1, 49),
        ((50.8, 0.1), 10.0, 2.9, 51),
        ((1.2, 1.0), 0.0, 1.0, 0),
        ((100.4, 1.0), 1.0, 0.0, 100),
        ((50.0, -1.0), 10.0, 5.0, 55),
        ((50.0, -1.0), 5.0, 10.0, 60),
    ],
)
def test_a_score_follows_the_pressure(*, row, before, after, expected):
    table = ScoreTable(100)
    base, weight = row
    put(table, "a", base, 0.0, 0.0, weight)
    scores(table, "a", pressure=before)
    assert scores(table, "a", pressure=after) == [expected]


class CountedCores(float):
    """Cores of a pod that count how often a row takes them."""

    taken = 0

    def __rmul__(self, points):
        CountedCores.taken += 1
        return float(self) * points


@dataclass(frozen=True, slots=True)
class CountingScore(HeadroomScore):
    """A score that takes cores which count."""

    def size(self, demand):
        return CountedCores(demand.cpu_cores), demand.gpus


def scored_rows(table, cores, names="abc", *, pressure=0.0):
    before = CountedCores.taken
    scores(table, names, demand=PodDemand(cores), pressure=pressure)
    return CountedCores.taken - before


def test_a_pod_is_scored_once_for_each_unlike_row_and_not_again_for_the_next_like_it():
    table = ScoreTable(100, CountingScore())
    for name, base in {"a": 50.0, "b": 50.0, "c": 60.0, "d": 50.0}.items():
        put(table, name, base, 1.0, 0.0, 0.0)
    assert [scored_rows(table, cores, "abcd") for cores in (4.0, 4.0, 8.0, 4.0)] == [2, 0, 2, 0]
    put(table, "d", 60.0, 1.0, 0.0, 0.0)
    assert scored_rows(table, 4.0, "abcd") == 0
    put(table, "d", 70.0, 1.0, 0.0, 0.0)
    assert scored_rows(table, 4.0, "abcd") == 1


def test_the_pressure_counts_only_where_a_row_depends_on_it():
    table = ScoreTable(100, CountingScore())
    put(table, "a", 50.0, 1.0, 0.0, 0.0)
    assert [scored_rows(table, 4.0, "a", pressure=pressure) for pressure in (0.0, 10.0)] == [1, 0]
    put(table, "b", 50.0, 1.0, 0.0, 0.5)
    assert [scored_rows(table, 4.0, "ab", pressure=pressure) for pressure in (10.0, 20.0, 20.0)] == [2, 2, 0]


def test_the_32_requests_that_were_used_last_are_remembered():
    table = ScoreTable(100, CountingScore())
    put(table, "a", 50.0, 1.0, 0.0, 0.0)
    for cores in range(32):
        assert scored_rows(table, cores, "a") == 1
    assert [scored_rows(table, cores, "a") for cores in (*range(1, 32), 0)] == [0] * 32
    assert [scored_rows(table, cores, "a") for cores in (32, 0, 1)] == [1, 0, 1]


def test_rows_of_nodes_as_they_were_are_not_kept_for_long(table):
    weight = 0.517  # of no row of another test: those may still be in memory
    for number in range(1_000):
        put(table, "a", 50.0 + number / 100, 1.0, 0.0, weight)
        scores(table)
    rows = [each for each in gc.get_objects() if isinstance(each, AffineRow) and each.pressure_weight == weight]
    assert 0 < len(rows) < 40


def test_more_questions_than_are_remembered_are_all_answered(table):
    for _ in range(3):
        for cores in range(40):
            assert scores(table, "a", demand=PodDemand(float(cores))) == [50 - cores]


def likely(table, names, uid="uid"):
    return table.answer(list(names), FOUR, ClusterTerms()).likely_node(uid)


@pytest.mark.parametrize("bases", [(14, 94, 93), (4, 104, 103.4), (4, 13, 12), (-9, 5, 4)])
def test_the_best_node_is_the_likely_one_however_many_digits_scores_have(table, bases):
    for name, base in zip("abc", bases, strict=True):
        put(table, name, float(base), 1.0, 0.0, 0.0)
    for names in ("abc", "cba"):
        assert likely(table, names) == "b"


def test_without_candidates_no_node_is_likely(table):
    assert likely(table, "") is None


def test_a_name_that_json_has_to_escape_is_a_likely_node_as_any_other(table):
    put(table, '"},\n', 99.0, 0.0, 0.0, 0.0)
    assert likely(table, ["a", '"},\n']) == '"},\n'


def test_guesses_among_equals_are_repeatable_and_spread(table):
    for name in "abcdx":
        put(table, name, 70.0 - (name == "x"), 0.0, 0.0, 0.0)
    guesses = Counter(likely(table, "abcdx", f"uid-{number}") for number in range(400))
    assert guesses.keys() == set("abcd")
    assert min(guesses.values()) > 60
    assert guesses == Counter(likely(table, "abcdx", f"uid-{number}") for number in range(400))


def test_guesses_are_spread_over_equals_whose_names_have_commas(table):
    for name in ("x,1", "y,1"):
        put(table, name, 70.0, 0.0, 0.0, 0.0)
    assert {likely(table, ["x,1", "y,1"], f"uid-{number}") for number in range(50)} == {"x,1", "y,1"}


def test_a_row_is_made_when_a_request_needs_it_and_only_for_its_profile():
    made = []
    table = ScoreTable(100)
    for _ in range(3):
        table.put("a", lambda profile: made.append(profile) or AffineRow(10.0, 0.0, 0.0, 0.0))
    assert not made
    for cores in (1.0, 1.0, 2.0):
        table.answer(["a"], PodDemand(cores, workload_class=WorkloadClass.PERFORMANCE), ClusterTerms())
    assert made == [(WorkloadClass.PERFORMANCE, 6.0, 0)]
