from joulie_core.containers.differences import changed_keys, changes


def test_keys_with_another_object_are_changed_and_those_with_the_same_are_not():
    kept, equal = object(), [1]
    before = {"kept": kept, "equal": equal, "gone": 1}
    assert list(changed_keys({"new": 2, "kept": kept, "equal": [1]}, before)) == ["new", "equal"]


def test_changes_are_grouped_by_what_keys_had_and_have():
    old, other, new = [0], [0], [0]
    before = {"a": old, "b": other, "c": old, "kept": old, "gone": old}
    now = {"a": new, "b": new, "c": new, "kept": old, "added": new}
    assert [(was is old, was is other, has is new, keys) for was, has, keys in changes(now, before)] == [
        (True, False, True, ["a", "c"]),
        (False, True, True, ["b"]),
        (False, False, True, ["added"]),
    ]
    assert not changes(before, before)
