import pytest

from joulie_api.container_memory import memory_limit_bytes


@pytest.mark.parametrize(
    ("texts", "limit"),
    [
        (["1073741824\n"], 1 << 30),
        (["max\n"], None),
        (["max\n", "536870912\n"], 1 << 29),
        (["1\n", "536870912\n"], 1),
        (["9223372036854771712\n"], None),
        (["0\n"], None),
        (["-1\n"], None),
        ([], None),
    ],
)
def test_the_limit_is_that_of_the_first_file_that_states_one(tmp_path, texts, limit):
    files = [tmp_path / "absent"]
    for number, text in enumerate(texts):
        files.append(tmp_path / str(number))
        files[-1].write_text(text)
    assert memory_limit_bytes(*files) == limit
