from joulie_core.containers.differences import changed_keys


def test_keys_with_another_object_are_changed_and_those_with_the_same_are_not():
    kept, equal = object(), [1]
    before = {"kept": kept, "equal": equal, "gone": 1}
    assert list(changed_keys({"new": 2, "kept": kept, "equal": [1]}, before)) == ["new", "equal"]
