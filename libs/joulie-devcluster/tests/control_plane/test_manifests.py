"""The manifests that come with the control plane."""

from joulie_devcluster.control_plane.manifests import DATA, load_manifests


def test_kwok_is_bound_to_its_own_user():
    role, binding = load_manifests(DATA / "kwok-rbac.yaml")
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"][0]["name"] == "system:kwok"
