import yaml
from tools import crds

from joulie_core.kinds.crds import manifests


def test_written_files_hold_the_manifests_and_pass_the_check(tmp_path, capsys):
    assert crds.main([str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == set(manifests())
    for name, manifest in manifests().items():
        assert yaml.safe_load((tmp_path / name).read_text()) == manifest
    assert crds.main([str(tmp_path), "--check"]) == 0


def test_writing_again_changes_nothing(tmp_path, capsys):
    crds.main([str(tmp_path)])
    capsys.readouterr()
    crds.main([str(tmp_path)])
    assert capsys.readouterr().out == ""


def test_the_check_names_what_is_missing_changed_or_left_over(tmp_path, capsys):
    crds.main([str(tmp_path)])
    first, second, *_ = sorted(manifests())
    (tmp_path / first).unlink()
    (tmp_path / second).write_text("kind: Edited\n")
    (tmp_path / "left-over.yaml").write_text("")
    assert crds.main([str(tmp_path), "--check"]) == 1
    err = capsys.readouterr().err
    assert all(name in err for name in (first, second, "left-over.yaml"))
    assert (tmp_path / second).read_text() == "kind: Edited\n"


def test_writing_removes_left_over_manifests_and_nothing_else(tmp_path):
    (tmp_path / "left-over.yaml").write_text("")
    (tmp_path / "README.md").write_text("")
    crds.main([str(tmp_path)])
    assert not (tmp_path / "left-over.yaml").exists()
    assert (tmp_path / "README.md").exists()
