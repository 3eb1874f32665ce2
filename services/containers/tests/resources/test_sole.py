"""Two resource managers on one state directory or one runtime: the second does not start."""

import os
import stat

import pytest

from joulie_containers.resources.sole import NotAloneError, sole_user


@pytest.fixture
def socket(tmp_path):
    (tmp_path / "nri").mkdir()
    return tmp_path / "nri" / "nri.sock"


def test_a_second_process_with_the_state_directory_is_refused_until_the_first_ends(tmp_path, socket):
    other = tmp_path / "other" / "nri.sock"
    with (
        sole_user(tmp_path / "state", socket),
        pytest.raises(NotAloneError, match=r"STATE_DIR: .*/state is held by another process"),
        sole_user(tmp_path / "state", other),
    ):
        pytest.fail("two processes have the state directory")
    with sole_user(tmp_path / "state", socket):
        pass


def test_a_second_process_on_the_runtime_s_socket_is_refused_and_leaves_its_own_state_directory_free(tmp_path, socket):
    with sole_user(tmp_path / "a", socket):
        with (
            pytest.raises(NotAloneError, match=r"NRI_SOCKET: .*/nri/nri\.sock is used by another resource manager"),
            sole_user(tmp_path / "b", socket),
        ):
            pytest.fail("two plugins are on one runtime")
        with sole_user(tmp_path / "b", None):
            pass


def test_processes_of_two_runtimes_run_side_by_side(tmp_path, socket):
    (tmp_path / "nri2").mkdir()
    with sole_user(tmp_path / "a", socket), sole_user(tmp_path / "b", tmp_path / "nri2" / "nri.sock"):
        pass


def test_a_runtime_that_is_not_there_yet_locks_nothing(tmp_path):
    absent = tmp_path / "absent" / "nri.sock"
    with sole_user(tmp_path / "a", absent), sole_user(tmp_path / "b", absent):
        assert not absent.parent.exists()


def test_what_is_not_a_directory_locks_nothing(tmp_path, socket):
    (tmp_path / "state").touch()
    with sole_user(tmp_path / "state", None), sole_user(tmp_path / "state", socket):
        assert (tmp_path / "state").is_file()


def test_the_lock_leaves_no_file_and_the_directory_is_not_for_others(tmp_path, socket):
    with sole_user(tmp_path / "new" / "state", socket):
        pass
    assert list((tmp_path / "new" / "state").iterdir()) == list(socket.parent.iterdir()) == []
    assert stat.S_IMODE((tmp_path / "new" / "state").stat().st_mode) & 0o007 == 0


def test_the_lock_ends_with_a_process_that_is_killed(tmp_path, socket):
    ready, release = os.pipe()
    child = os.fork()
    if child == 0:
        with sole_user(tmp_path / "state", socket):
            os.write(release, b"x")
            os.kill(os.getpid(), 9)
    assert os.read(ready, 1) == b"x"
    os.waitpid(child, 0)
    os.close(ready)
    os.close(release)
    with sole_user(tmp_path / "state", socket):
        pass
