import errno
import fcntl
import os
import stat
import subprocess
import sys
import zlib
from pathlib import Path

import msgspec
import pytest

from joulie_actuator.hardware import journal as journal_module
from joulie_actuator.hardware.journal import BOOT_ID, JOURNAL_FILE, LOCK_FILE, Journal, JournalHeldError, is_held, peek
from joulie_actuator.hardware.journal_file import VERSION, JournalEntry, JournalError
from joulie_actuator.hardware.watch import Watch

ENTRY = JournalEntry(unit="uW", original=250_000_000, written=180_000_000, read_back=180_125_000)


def test_what_was_recorded_is_read_by_the_next_process(tmp_path):
    with Journal.open(tmp_path / "state") as journal:
        journal.change({"rapl/0": ENTRY, "rapl/1": ENTRY})
        journal.change({"rapl/1": None})
    with Journal.open(tmp_path / "state") as journal:
        assert journal.entries == {"rapl/0": ENTRY}
        assert journal.dropped == ()


def test_a_change_to_nothing_writes_nothing(tmp_path):
    with Journal.open(tmp_path) as journal:
        journal.change({"rapl/0": ENTRY})
        before = (tmp_path / JOURNAL_FILE).stat()
        journal.change({"rapl/0": ENTRY, "rapl/1": None})
        assert (tmp_path / JOURNAL_FILE).stat().st_ino == before.st_ino


def test_a_change_to_nothing_makes_no_file(tmp_path):
    with Journal.open(tmp_path) as journal:
        journal.change({})
    assert not (tmp_path / JOURNAL_FILE).exists()


def test_the_file_is_the_one_that_earlier_agents_of_this_format_wrote(tmp_path):
    entries = (
        b'{"rapl/0":{"unit":"uW","original":5},'
        b'"rapl/1":{"unit":"uW","original":9,"asked":7,"got":8,"pending":6,"suspect":4}}'
    )
    untouched = JournalEntry(unit="uW", original=5)
    content = b'{"version":2,"boot_id":"this","crc32":%d,"entries":%s}' % (zlib.crc32(entries), entries)
    path = tmp_path / "journal.json"
    path.write_bytes(content)
    with Journal.open(tmp_path, boot_id="this") as journal:
        written = JournalEntry(unit="uW", original=9, written=7, read_back=8, pending=6, suspect=4)
        assert journal.entries == {"rapl/0": untouched, "rapl/1": written}
        assert journal.entries["rapl/0"].written_values == frozenset()
        assert journal.entries["rapl/0"].suspect is None
        assert journal.entries["rapl/0"].earlier is None
        assert journal.entries["rapl/0"].stands is False
        journal.change({"rapl/0": ENTRY})
        journal.change({"rapl/0": untouched})
    assert path.read_bytes() == content


def test_the_same_entries_make_the_same_file_in_whatever_order_they_came(tmp_path):
    contents = set()
    for keys in (("a", "b"), ("b", "a")):
        with Journal.open(tmp_path / keys[0], boot_id="this") as journal:
            for key in keys:
                journal.change({key: ENTRY})
        contents.add((tmp_path / keys[0] / JOURNAL_FILE).read_bytes())
    assert len(contents) == 1


def test_directory_and_files_are_for_the_owner_only(tmp_path):
    directory = tmp_path / "run" / "state"
    _recorded(directory)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (directory, *directory.iterdir())}
    assert modes == {"state": 0o700, JOURNAL_FILE: 0o600, LOCK_FILE: 0o600}


def test_entries_of_an_earlier_boot_are_dropped_and_named(tmp_path):
    with Journal.open(tmp_path, boot_id="first") as journal:
        journal.change({"rapl/0": ENTRY})
    with Journal.open(tmp_path, boot_id="second") as journal:
        assert not journal.entries
        assert journal.dropped == ("rapl/0",)


def _older(path, entries, boot_id):
    raw = msgspec.json.encode(entries)
    file = {"version": 1, "boot_id": boot_id, "crc32": zlib.crc32(raw), "entries": entries}
    (path / JOURNAL_FILE).write_bytes(msgspec.json.encode(file))


def test_an_older_journal_with_entries_is_refused_and_names_the_command_that_restores_it(tmp_path):
    _older(tmp_path, {"rapl/intel-rapl:0/constraint_0_power_limit_uw": ENTRY}, "this")
    message = rf"^{tmp_path / JOURNAL_FILE} .*version 1.*1 limits.*`joulie-agent restore` of that release"
    with pytest.raises(JournalError, match=message):
        Journal.open(tmp_path, boot_id="this")


def test_what_is_shown_without_a_claim_is_of_this_boot_and_understood(tmp_path):
    _older(tmp_path, {"rapl/intel-rapl:0/constraint_0_power_limit_uw": ENTRY}, "an earlier one")
    assert not peek(tmp_path)
    _older(tmp_path, {"rapl/intel-rapl:0/constraint_0_power_limit_uw": ENTRY}, BOOT_ID.read_text().strip())
    with pytest.raises(JournalError, match=rf"^{tmp_path / JOURNAL_FILE} was written by an older release"):
        peek(tmp_path)


@pytest.mark.parametrize(("entries", "boot_id"), [({}, "this"), ({"rapl/0": ENTRY}, "an earlier one")])
def test_an_older_journal_without_entries_of_this_boot_is_accepted(entries, boot_id, tmp_path):
    _older(tmp_path, entries, boot_id)
    with Journal.open(tmp_path, boot_id="this") as journal:
        assert not journal.entries
        assert journal.dropped == tuple(entries)


def test_two_processes_never_share_a_state_directory(tmp_path):
    with Journal.open(tmp_path), pytest.raises(JournalHeldError, match=rf"pid {os.getpid()}"):
        Journal.open(tmp_path)
    Journal.open(tmp_path).close()


def test_the_claim_of_a_killed_process_ends_with_it(tmp_path):
    hold = (
        "import sys, pathlib, time; from joulie_actuator.hardware.journal import Journal\n"
        "journal = Journal.open(pathlib.Path(sys.argv[1])); print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", hold, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(JournalHeldError, match=f"pid {holder.pid}"):
            Journal.open(tmp_path)
    finally:
        holder.kill()
        holder.communicate()
    Journal.open(tmp_path).close()


@pytest.mark.parametrize(
    ("content", "pid"), [(b"", "unknown"), (b"12345\n", "12345"), (b"\xff\n", "\ufffd")], ids=["empty", "pid", "noise"]
)
def test_the_holder_is_named_as_far_as_it_is_known(tmp_path, content, pid):
    path = tmp_path / LOCK_FILE
    path.write_bytes(content)
    with path.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(JournalHeldError, match=rf"\(pid {pid}\)$"):
            Journal.open(tmp_path)


def test_a_lock_that_cannot_be_had_is_a_journal_error_and_keeps_no_descriptor(tmp_path, monkeypatch):
    def refuse(*_args):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    before = set(Path("/proc/self/fd").iterdir())
    with pytest.raises(JournalError, match=os.strerror(errno.ENOLCK)):
        Journal.open(tmp_path)
    assert set(Path("/proc/self/fd").iterdir()) == before


def test_what_is_no_directory_is_held_by_nobody(tmp_path):
    (tmp_path / "file").touch()
    assert not is_held(tmp_path / "file")
    assert not is_held(tmp_path / "missing")


def _recorded(directory):
    with Journal.open(directory) as journal:
        journal.change({"rapl/0": ENTRY})
    return directory / JOURNAL_FILE


def test_a_torn_journal_is_an_error_at_every_length_and_stays_as_it_is(tmp_path):
    path = _recorded(tmp_path)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(JournalError, match="damaged"):
            Journal.open(tmp_path)
        assert path.read_bytes() == whole[:length]


def test_a_damaged_digit_is_noticed(tmp_path):
    path = _recorded(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"250000000", b"290000000"))
    with pytest.raises(JournalError, match="checksum"):
        Journal.open(tmp_path)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"null", b"[]", b'{"version":0}', b'{"version":"1"}'])
def test_what_is_no_journal_is_an_error_that_names_the_way_out(content, tmp_path):
    (tmp_path / JOURNAL_FILE).write_bytes(content)
    with pytest.raises(JournalError) as raised:
        Journal.open(tmp_path)
    assert str(raised.value).startswith(f"{tmp_path / JOURNAL_FILE} is damaged (")
    assert str(raised.value).endswith(
        "; nothing is changed while the originals are unknown. Correct the limits by hand, which "
        "`joulie-agent doctor` lists, or reboot, then remove the file"
    )


def test_a_journal_of_a_newer_release_is_left_to_that_release(tmp_path):
    path = tmp_path / JOURNAL_FILE
    newer = msgspec.json.encode({"version": VERSION + 1, "knobs": []})
    path.write_bytes(newer)
    with pytest.raises(JournalError, match="newer release"):
        Journal.open(tmp_path)
    assert path.read_bytes() == newer


def test_an_error_on_opening_gives_up_the_claim(tmp_path):
    path = tmp_path / JOURNAL_FILE
    path.write_bytes(b"torn")
    with pytest.raises(JournalError):
        Journal.open(tmp_path)
    path.unlink()
    Journal.open(tmp_path).close()


def test_a_directory_that_cannot_be_made_is_a_journal_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(JournalError, match="cannot keep a journal"):
        Journal.open(tmp_path / "file" / "state")


def test_a_change_that_fails_leaves_the_entries_as_they_were(tmp_path, monkeypatch):
    with Journal.open(tmp_path) as journal:
        journal.change({"rapl/0": ENTRY})

        def full(*_args):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "write", full)
        with pytest.raises(JournalError, match="No space left"):
            journal.change({"rapl/1": ENTRY})
        assert set(journal.entries) == {"rapl/0"}
    monkeypatch.undo()
    with Journal.open(tmp_path) as journal:
        assert set(journal.entries) == {"rapl/0"}


def test_what_is_removed_goes_from_the_file_with_the_next_change_of_anything(tmp_path):
    with Journal.open(tmp_path) as journal:
        journal.change({"rapl/0": ENTRY, "rapl/1": ENTRY})
        journal.remove(["rapl/2"])
        assert not journal.behind
        journal.remove(["rapl/0", "rapl/2"])
        assert (journal.entries.keys(), journal.behind) == ({"rapl/1"}, True)
        assert peek(tmp_path).keys() == {"rapl/0", "rapl/1"}
        journal.change({"rapl/3": ENTRY})
        assert (peek(tmp_path).keys(), journal.behind) == ({"rapl/1", "rapl/3"}, False)
        journal.remove(["rapl/1"])
        journal.change({})
        assert (peek(tmp_path).keys(), journal.behind) == ({"rapl/3"}, False)


def test_what_is_removed_stays_so_where_the_next_change_fails(tmp_path, monkeypatch):
    with Journal.open(tmp_path) as journal:
        journal.change({"rapl/0": ENTRY})
        journal.remove(["rapl/0"])
        monkeypatch.setattr(os, "fsync", _full)
        with pytest.raises(JournalError, match="No space left"):
            journal.change({"rapl/1": ENTRY})
        assert (dict(journal.entries), journal.behind) == ({}, True)
        monkeypatch.undo()
        journal.change({})
        assert (dict(peek(tmp_path)), journal.behind, journal.problem) == ({}, False, None)


def _full(_file):
    raise OSError(28, "No space left on device")


def test_the_file_and_the_directory_are_synced_before_a_change_returns(tmp_path, monkeypatch):
    calls = []
    journal = Journal.open(tmp_path)
    for name in ("fsync", "replace"):
        real = getattr(os, name)

        def spy(*args, name=name, real=real):
            target = Path(f"/proc/self/fd/{args[0]}").readlink() if name == "fsync" else str(args[0])
            calls.append((name, os.path.relpath(target, tmp_path)))
            return real(*args)

        monkeypatch.setattr(os, name, spy)
    journal.change({"rapl/0": ENTRY})
    journal.close()
    new = JOURNAL_FILE + ".new"
    assert calls == [("fsync", new), ("replace", new), ("fsync", ".")]


def test_opening_waits_for_no_disk_and_tries_out_a_file_of_the_same_size(tmp_path, monkeypatch):
    path = _recorded(tmp_path)

    def refuse(*_args):
        raise AssertionError("waits for the disk")

    monkeypatch.setattr(os, "fsync", refuse)
    Journal.open(tmp_path).close()
    assert path.with_name(JOURNAL_FILE + ".new").read_bytes() == path.read_bytes()


def test_a_disk_that_takes_a_little_at_a_time_gets_the_whole_journal(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, content: write(file, content[:7]))
    _recorded(tmp_path)
    assert peek(tmp_path) == {"rapl/0": ENTRY}


def test_the_rest_of_a_longer_file_that_was_never_put_in_place_does_no_harm(tmp_path):
    with Journal.open(tmp_path) as journal:
        (tmp_path / (JOURNAL_FILE + ".new")).write_bytes(b"x" * 10_000)
        journal.change({"rapl/0": ENTRY})
    assert peek(tmp_path) == {"rapl/0": ENTRY}


def test_a_worker_is_watched_in_every_call_to_the_disk(tmp_path, monkeypatch):
    calls = []

    class Recording(Watch):
        def call(self, path, function, *args):
            calls.append(path)
            watched.append(True)
            try:
                return super().call(path, function, *args)
            finally:
                watched.pop()

    watched = []
    with Journal.open(tmp_path) as journal:
        journal.watch = Recording()
        for name in ("write", "fsync", "replace"):
            real = getattr(os, name)

            def checked(*args, real=real):
                assert watched
                return real(*args)

            monkeypatch.setattr(os, name, checked)
        journal.change({"rapl/0": ENTRY})
    assert set(calls) == {str(tmp_path / JOURNAL_FILE)}
    assert peek(tmp_path) == {"rapl/0": ENTRY}


@pytest.fixture
def unwritable(monkeypatch):
    """Make files of any directory unwritable from now on, as the kernel does; what it returns ends that."""

    def make(code):
        opened = os.open

        def refuse(path, flags, *args, **kwargs):
            if flags & (os.O_WRONLY | os.O_RDWR):
                raise OSError(code, os.strerror(code), str(path))
            return opened(path, flags, *args, **kwargs)

        monkeypatch.setattr(os, "open", refuse)
        return lambda: monkeypatch.setattr(os, "open", opened)

    return make


@pytest.mark.parametrize("code", [errno.EROFS, errno.ENOSPC, errno.EACCES, errno.EDQUOT])
def test_a_journal_that_cannot_be_written_is_opened_with_the_cause(tmp_path, unwritable, code):
    _recorded(tmp_path)
    writable = unwritable(code)
    with Journal.open(tmp_path) as journal:
        assert journal.entries == {"rapl/0": ENTRY}
        assert os.strerror(code) in journal.problem
        with pytest.raises(JournalError, match=os.strerror(code)):
            journal.change({"rapl/1": ENTRY})
        assert journal.entries == {"rapl/0": ENTRY}
        writable()
        journal.change({"rapl/1": ENTRY})
        assert journal.problem is None


def test_a_removed_entry_is_not_held_though_the_removal_is_not_recorded(tmp_path, unwritable):
    _recorded(tmp_path)
    writable = unwritable(errno.EROFS)
    with Journal.open(tmp_path) as journal:
        with pytest.raises(JournalError):
            journal.change({"rapl/0": None})
        assert not journal.entries
        writable()
        assert peek(tmp_path)
        journal.change({})
        assert not peek(tmp_path)


@pytest.mark.parametrize("exists", [True, False], ids=["lock file", "directory"])
def test_two_processes_never_share_a_directory_that_cannot_be_written(tmp_path, unwritable, exists):
    _recorded(tmp_path)
    if not exists:
        (tmp_path / LOCK_FILE).unlink()
    unwritable(errno.EROFS)
    assert not is_held(tmp_path)
    with Journal.open(tmp_path):
        assert is_held(tmp_path)
        with pytest.raises(JournalHeldError, match=r"pid (unknown|[0-9]+)"):
            Journal.open(tmp_path)
    assert not is_held(tmp_path)


def test_a_directory_that_is_not_there_and_cannot_be_made_holds_nothing_and_takes_nothing(tmp_path, monkeypatch):
    def refuse(*_args, **_kwargs):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with Journal.open(tmp_path / "state") as journal:
        assert not journal.entries
        with pytest.raises(JournalError, match="cannot be written"):
            journal.change({"rapl/0": ENTRY})


def test_an_unknown_boot_leaves_the_entries_for_restoring_and_takes_no_new_ones(tmp_path, monkeypatch):
    _recorded(tmp_path)
    monkeypatch.setattr(journal_module, "BOOT_ID", tmp_path / "none")
    with Journal.open(tmp_path) as journal:
        assert journal.entries == {"rapl/0": ENTRY}
        assert "none cannot be read" in journal.problem
        with pytest.raises(JournalError, match="this boot"):
            journal.change({"rapl/1": ENTRY})
    assert peek(tmp_path) == {"rapl/0": ENTRY}


def test_a_closed_journal_takes_no_change(tmp_path):
    journal = Journal.open(tmp_path)
    journal.close()
    with pytest.raises(JournalError, match="closed"):
        journal.change({"rapl/0": ENTRY})


def test_closing_twice_closes_once(tmp_path):
    journal = Journal.open(tmp_path)
    journal.close()
    journal.close()
    assert not is_held(tmp_path)
