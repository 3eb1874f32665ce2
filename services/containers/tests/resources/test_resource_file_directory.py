"""The directories of containers and the file in each, and names that lead elsewhere."""

from pathlib import Path

import pytest

from joulie_containers.resources.resource_file_directory import InvalidContainerIdError, ResourceFileDirectory

HOSTILE = ("..", ".", "", "../other", "a/b", "/etc", "-rf", ".hidden", "a\n", "a\0b", "ä", "a" * 129, "a b", "$(id)")


@pytest.fixture
def directory(tmp_path):
    return ResourceFileDirectory(tmp_path)


@pytest.mark.parametrize("name", HOSTILE)
def test_names_that_are_not_plain_are_refused(directory, tmp_path, name):
    with pytest.raises(InvalidContainerIdError):
        directory.write(name, b"x")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a", "0" * 64, "crio-1.2_3", "a" * 128])
def test_plain_names_are_written(directory, tmp_path, name):
    directory.write(name, b"one")
    directory.write(name, b"two")
    assert (tmp_path / "exported" / name / "resources.sh").read_bytes() == b"two"
    assert directory.names() == [name]


def other_directory(tmp_path: Path) -> Path:
    other = tmp_path / "other"
    other.mkdir()
    (other / "resources.sh").write_text("mine")
    return other


def test_no_link_is_followed_to_a_container(directory, tmp_path):
    other = other_directory(tmp_path)
    (tmp_path / "exported").mkdir()
    (tmp_path / "exported" / "c").symlink_to(other)
    with pytest.raises(OSError, match="c"):
        directory.write("c", b"x")
    directory.remove("c")
    assert directory.names() == []
    assert (other / "resources.sh").read_text() == "mine"


def test_no_link_is_followed_to_all_containers(directory, tmp_path):
    other = other_directory(tmp_path)
    (tmp_path / "exported").symlink_to(tmp_path)
    for step in (lambda: directory.write("other", b"x"), directory.names, lambda: directory.remove("other")):
        with pytest.raises(NotADirectoryError):
            step()
    assert (other / "resources.sh").read_text() == "mine"


@pytest.mark.parametrize("file", ["resources.sh", "resources.sh.new"])
def test_no_link_is_followed_to_a_file(directory, tmp_path, file):
    other = other_directory(tmp_path)
    (tmp_path / "exported" / "c").mkdir(parents=True)
    (tmp_path / "exported" / "c" / file).symlink_to(other / "resources.sh")
    directory.write("c", b"x")
    assert (other / "resources.sh").read_text() == "mine"
    assert not (tmp_path / "exported" / "c" / "resources.sh").is_symlink()


def test_what_is_gone_is_removed_without_a_failure(directory, tmp_path):
    assert directory.names() == ()
    directory.remove("gone")
    assert list(tmp_path.iterdir()) == []
    directory.write("c", b"x")
    directory.remove("gone")
    assert directory.names() == ["c"]


def test_a_directory_with_files_of_others_stays_and_says_so(directory, tmp_path):
    directory.write("c", b"x")
    (tmp_path / "exported" / "c" / "else").write_text("mine")
    with pytest.raises(OSError, match="not empty"):
        directory.remove("c")
    assert (tmp_path / "exported" / "c" / "else").read_text() == "mine"
