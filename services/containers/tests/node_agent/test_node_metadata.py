from joulie_containers.node_agent.node_metadata import annotation_problems, capacity_problems, label_problems


def test_what_is_set_and_removed_at_once_is_a_problem():
    for problems in (label_problems, annotation_problems, capacity_problems):
        (problem,) = problems({"example.com/x": "1"}, ["example.com/x"])
        assert "set and removed at once" in problem


def test_names_of_the_largest_sizes_are_taken():
    label = f"{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 61}/{'n' * 63}"
    assert label_problems({label: "v" * 63}) == []
    assert len(label_problems({f"a{label}": "v"})) == 1
    assert len(label_problems({f"{label}n": "v"})) == 1


def test_letters_beyond_ascii_are_not_taken():
    assert len(label_problems({"größe": "v"})) == 1
    assert len(label_problems({"x": "größe"})) == 1
