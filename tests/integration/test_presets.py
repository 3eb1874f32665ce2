"""Presets are the same in the table, the services, the chart and the simulator's arms."""

import re
from typing import Any

import pytest
import yaml
from experiments.presets import PAGE, measured, presets
from experiments.rows import write_rows
from tests.chart import CHART, SLEEP_PRESET, Helm, HelmError, containers, env_of, find, rules

from joulie_api.presets import DEFAULT_PRESET, PRESETS, PresetName
from joulie_api.settings import read_settings
from joulie_core.policy.registry import build_policy
from joulie_extender.settings import ExtenderSettings
from joulie_operator.settings import settings_model
from joulie_sim.engine.arm import SleepingArm
from joulie_sim.engine.arms import PRESET_ARMS

NODES = 41


def values_of(preset, **more):
    """Return values of the chart with a preset, and with what it needs."""
    return {**(SLEEP_PRESET if PRESETS[preset].sleeps else {}), "preset": str(preset), **more}


def variables(helm: Helm, values) -> dict[str, dict[str, str | None]]:
    """Return the variables of operator and extender in the rendered chart, less those that every release has."""
    manifests = helm.render(values)
    found = {}
    for service, name in (("operator", "joulie-operator"), ("extender", "joulie-scheduler-extender")):
        env = env_of(containers(find(manifests, "Deployment", name))[service])
        found[service] = {
            key: value for key, value in env.items() if not re.fullmatch(r"POD_.*|.*_ADDR|SLEEP_ENABLED", key)
        }
    return found


def performance_nodes(preset) -> int:
    settings = read_settings(settings_model(), PRESETS[preset].operator)
    return build_policy(settings.policy_type, dict(settings)).performance_count(NODES)


@pytest.mark.parametrize("preset", PresetName)
def test_the_services_accept_the_variables_of_a_preset_and_all_of_them_are_settings(preset):
    for model, env in ((settings_model(), PRESETS[preset].operator), (ExtenderSettings, PRESETS[preset].extender)):
        read_settings(model, env)
        assert {name.lower() for name in env} <= set(model.model_fields)


def test_no_node_is_eco_but_with_the_settings_of_the_documents():
    assert {preset: performance_nodes(preset) for preset in PresetName} == {
        PresetName.SCORE: NODES,
        PresetName.SLEEP: NODES,
        PresetName.DOCUMENTS: 21,
    }


def test_documents_are_the_defaults_of_the_services():
    documents = PRESETS[PresetName.DOCUMENTS]
    assert (dict(documents.operator), dict(documents.extender), documents.sleeps) == ({}, {}, False)
    assert read_settings(settings_model(), {}).policy_type == "static_partition"
    assert read_settings(ExtenderSettings, {}).score_policy == "headroom_v1"


@pytest.mark.parametrize("preset", PresetName)
def test_the_arm_of_a_preset_has_the_settings_that_the_services_read(preset):
    arm, operator = PRESET_ARMS[preset], read_settings(settings_model(), PRESETS[preset].operator)
    extender = read_settings(ExtenderSettings, PRESETS[preset].extender)
    assert arm.joulie is not None
    assert arm.joulie.policy == operator.policy_type
    assert build_policy(arm.joulie.policy, arm.joulie.policy_values).performance_count(NODES) == performance_nodes(
        preset
    )
    assert arm.joulie.score is not None
    assert (arm.joulie.score.policy, arm.joulie.score.score_max) == (extender.score_policy, extender.score_max)
    assert isinstance(arm, SleepingArm) == PRESETS[preset].sleeps


@pytest.mark.parametrize("preset", PresetName)
def test_the_chart_sets_the_variables_of_the_preset(helm: Helm, preset):
    assert variables(helm, values_of(preset)) == {
        "operator": dict(PRESETS[preset].operator),
        "extender": dict(PRESETS[preset].extender),
    }


def test_the_chart_and_the_table_have_the_same_default(helm: Helm):
    assert yaml.safe_load((CHART / "values.yaml").read_text())["preset"] == DEFAULT_PRESET
    assert variables(helm, {}) == variables(helm, values_of(DEFAULT_PRESET))


def test_values_of_a_chart_without_presets_change_nothing(helm: Helm):
    assert variables(helm, {"preset": None}) == variables(helm, values_of(PresetName.DOCUMENTS))


def test_a_variable_that_a_user_sets_outranks_the_preset(helm: Helm):
    env = {"operator": {"env": {"STATIC_HP_FRAC": "0.3"}}, "extender": {"env": {"SCORE_POLICY": "energy_v1"}}}
    assert variables(helm, values_of(PresetName.SCORE, **env)) == {
        "operator": {"POLICY_TYPE": "static_partition", "STATIC_HP_FRAC": "0.3"},
        "extender": {"SCORE_POLICY": "energy_v1"},
    }


def test_a_variable_in_extra_env_is_not_there_twice(helm: Helm):
    extra = {"extraEnv": [{"name": "STATIC_HP_FRAC", "value": "0.2"}]}
    operator = find(helm.render(values_of(PresetName.SCORE, operator=extra)), "Deployment", "joulie-operator")
    entries = [each for each in containers(operator)["operator"]["env"] if each["name"] == "STATIC_HP_FRAC"]
    assert entries == extra["extraEnv"]


@pytest.mark.parametrize("preset", PresetName)
def test_a_preset_switches_on_what_it_needs_and_nothing_else(helm: Helm, preset):
    manifests, sleeps = helm.render(values_of(preset)), PRESETS[preset].sleeps
    names = {(each["kind"], each["metadata"]["name"]) for each in manifests}
    operator = env_of(containers(find(manifests, "Deployment", "joulie-operator"))["operator"])
    assert (operator.get("SLEEP_ENABLED") == "true") == sleeps
    assert any("pods/eviction" in rule["resources"] for rule in rules(manifests)) == sleeps
    for each in (
        ("Job", "joulie-restore-wake"),
        ("Deployment", "joulie-outofband"),
        ("ClusterRole", "joulie-outofband"),
        ("ValidatingAdmissionPolicy", "joulie-outofband"),
    ):
        assert (each in names) == sleeps, each


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"preset": "sleep"}, r"outofband\.secrets is empty.*preset: score"),
        ({**SLEEP_PRESET, "operator": {"enabled": False}}, r"set operator\.enabled, or another preset"),
        ({"preset": "caps"}, "'score', 'sleep', 'documents'"),
    ],
    ids=["no credentials of BMCs", "no operator", "one that is not there"],
)
def test_a_preset_that_cannot_work_is_refused_with_the_way_out(helm: Helm, values, message):
    with pytest.raises(HelmError, match=message):
        helm.render(values)


@pytest.mark.parametrize("preset", PresetName)
def test_the_notes_name_the_preset(helm: Helm, preset):
    notes = helm.notes(values_of(preset))
    assert f"Preset {preset}: {PRESETS[preset].summary}" in notes
    assert ("before a NodeSleepPolicy selects it" in notes) == PRESETS[preset].sleeps


def between(name: str) -> str:
    """Return what stands in the page between the comments that name it."""
    found = re.search(f"<!-- begin {name} -->\n(.*?)\n<!-- end {name} -->", PAGE.read_text(), re.DOTALL)
    assert found
    return found[1]


def test_the_page_has_the_tables_of_the_code_and_of_the_experiments():
    assert between("presets") == presets(), "run `python -m experiments.presets`"
    assert between("measured") == measured(), "run `python -m experiments.presets`"


def row(arm: str, seed: int, kwh: float, p95: float) -> dict[str, Any]:
    """Return a row with standard jobs without GPUs, and no others."""
    group = {"done": 5, "stretch_p95": p95}
    figures = {
        "protocol": "steady",
        "load": 0.5,
        "seed": seed,
        "arm": arm,
        "end_s": 100,
        "it_kwh": kwh,
        "core_hours": 1,
    }
    for name in ("performance_cpu", "performance_gpu", "standard_cpu", "standard_gpu"):
        there = name == "standard_cpu"
        figures |= {f"{name}_{key}": value if there else 0 for key, value in group.items()}
    return figures


@pytest.mark.parametrize(
    ("p95", "kept"),
    [((1.005, 1.005), "yes"), ((1.02, 1.02), "no"), ((0.9, 1.1), "not shown")],
    ids=["within", "above", "too few seeds to tell"],
)
def test_a_preset_has_a_line_for_each_experiment_with_its_arm_and_says_who_pays(tmp_path, p95, kept):
    rows = [row("kube_default", seed, 100.0, 1.0) for seed in (0, 1)]
    rows += [row(PRESET_ARMS[PresetName.SCORE].name, seed, 90.0, each) for seed, each in enumerate(p95)]
    directory = tmp_path / "10-some"
    directory.mkdir()
    (directory / "config.toml").write_text("")
    write_rows(directory / "runs.csv", rows)
    (line,) = (line for line in measured(tmp_path).splitlines() if line.startswith("| `"))
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[:4] == ["`score`", "10-some", "0.5", "10.0 ±0.0"]
    assert "(standard, CPU, at 0.5)" in cells[4]
    assert cells[5] == kept
    assert "No experiment has rows of the arm of `sleep`" in measured(tmp_path)
