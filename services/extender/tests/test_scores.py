"""Scores that are kept for the next question, and the guess where a pod goes."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.demand import WorkloadClass
from joulie_core.powerest.demand import PodDemand
from joulie_core.scoring.prepared import AffineRow
from joulie_extender.replies import scores_reply
from joulie_extender.scores import ScoreBoard, likely_node

FOUR = PodDemand(4.0)


@pytest.fixture
def board():
    board = ScoreBoard(WorkloadClass.STANDARD, 100)
    for number, name in enumerate("abc"):
        board.put(name, AffineRow(50.0 + number, 1.0, 0.0, 0.1))
    return board


def scores(board, names="abc", *, demand=FOUR, pressure=0.0):
    return [score for _, score in board.score(list(names), demand, pressure)]


def test_a_question_has_the_same_answer_the_first_the_second_and_every_later_time(board):
    answers = [scores(board) for _ in range(4)]
    assert answers == [[46, 47, 48]] * 4


def test_a_changed_node_is_scored_anew(board):
    for _ in range(3):
        scores(board)
    board.put("b", AffineRow(90.0, 1.0, 0.0, 0.0))
    assert scores(board) == [46, 86, 48]


def test_a_node_that_is_gone_scores_as_an_unknown_one(board):
    for _ in range(3):
        scores(board)
    board.drop("b")
    assert scores(board) == [46, 50, 48]
    board.put("b", AffineRow(60.0, 1.0, 0.0, 0.0))
    assert scores(board) == [46, 56, 48]


def test_other_pods_and_other_pressure_get_other_scores(board):
    for _ in range(3):
        scores(board)
    assert scores(board, demand=PodDemand(8.0)) == [42, 43, 44]
    assert scores(board, pressure=50.0) == [41, 42, 43]
    assert scores(board) == [46, 47, 48]


def test_performance_pods_do_not_feel_the_pressure():
    board = ScoreBoard(WorkloadClass.PERFORMANCE, 100)
    board.put("a", AffineRow(50.0, 1.0, 0.0, 0.0))
    assert [scores(board, "a", pressure=pressure) for pressure in (0.0, 10.0, 20.0)] == [[46]] * 3


def test_a_score_is_rounded_half_away_from_zero_and_stays_within_its_range():
    board = ScoreBoard(WorkloadClass.STANDARD, 10)
    for name, base in {"a": -5.0, "b": 4.9, "c": 5.0, "d": 94.9, "e": 95.0, "f": 200.0}.items():
        board.put(name, AffineRow(base, 0.0, 0.0, 0.0))
    assert scores(board, "abcdef") == [0, 0, 1, 9, 10, 10]


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.none() | st.floats(-50, 150)), max_size=30))
def test_kept_scores_follow_any_changes(changes):
    kept, bases = ScoreBoard(WorkloadClass.STANDARD, 100), {}
    for name, base in changes:
        scores(kept, "abcd")
        if base is None:
            kept.drop(name)
            bases.pop(name, None)
        else:
            kept.put(name, AffineRow(base, 0.5, 0.0, 0.0))
            bases[name] = base
    fresh = ScoreBoard(WorkloadClass.STANDARD, 100)
    for name, base in bases.items():
        fresh.put(name, AffineRow(base, 0.5, 0.0, 0.0))
    question = (list("dcbaa"), FOUR, 0.0)
    assert scores_reply(kept.score(*question)) == scores_reply(fresh.score(*question))
    assert len(kept) == len(bases)


def test_more_questions_than_are_remembered_are_all_answered(board):
    for _ in range(3):
        for cores in range(20):
            assert scores(board, "a", demand=PodDemand(float(cores))) == [50 - cores]


def test_the_best_node_is_the_likely_one():
    assert likely_node(["a", "b", "c"], [(b"", 10), (b"", 90), (b"", 89)], "uid") == "b"


def test_without_candidates_no_node_is_likely():
    assert likely_node([], [], "uid") is None


def test_guesses_among_equals_are_repeatable_and_spread():
    names, scored = list("abcdx"), [(b"", 70)] * 4 + [(b"", 69)]
    guesses = Counter(likely_node(names, scored, f"uid-{number}") for number in range(400))
    assert guesses.keys() == set("abcd")
    assert min(guesses.values()) > 60
    assert guesses == Counter(likely_node(names, scored, f"uid-{number}") for number in range(400))
