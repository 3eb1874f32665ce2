import asyncio
import json

import pytest
from structlog.testing import capture_logs

from joulie_containers.resources.configuration import (
    Configuration,
    ConfigurationSource,
    InvalidConfigurationError,
    PolicyDefinition,
    parse_document,
)
from joulie_core.containers.policy import PolicyConfigError
from joulie_core.kinds.container_policy import ContainerPolicyResource, ContainerPolicySpec, policy_kind


class ExamplePolicy(ContainerPolicyResource):
    info = policy_kind("ExamplePolicy", "example", ContainerPolicySpec)
    spec: ContainerPolicySpec


class Policy:
    name = "example"

    def __init__(self, spec, topology):
        self.cpu = spec.available_resources.cpu
        if self.cpu == "cpuset:99":
            raise PolicyConfigError(f"availableResources.cpu: {self.cpu!r} is not online; online are {topology}")


DEFINITION = PolicyDefinition(
    kind=ExamplePolicy, build=Policy, default_spec={"availableResources": {"cpu": "cpuset:0"}}
)


def manifest(cpu, **more):
    spec = {"availableResources": {"cpu": f"cpuset:{cpu}"}}
    return {"apiVersion": "config.nri/v1alpha1", "kind": "ExamplePolicy", "spec": spec, **more}


class Applied:
    def __init__(self):
        self.cpus = []
        self.changed = asyncio.Event()

    async def __call__(self, configured, active):
        assert configured.manifest == active.manifest
        self.cpus.append(configured.policy.cpu.removeprefix("cpuset:"))
        self.changed.set()

    async def next(self):
        async with asyncio.timeout(10):
            await self.changed.wait()
        self.changed.clear()


@pytest.fixture
def applied():
    return Applied()


def configuration(applied, file=None):
    return Configuration(DEFINITION, "0-7", applied, file=file)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(json.dumps(manifest(1)))
    return path


def replace(file, text):
    new = file.with_suffix(".new")
    new.write_text(text)
    new.rename(file)


async def test_the_file_takes_precedence(applied, file):
    config = configuration(applied, file)
    await config.start(manifest(2))
    assert (applied.cpus, config.active.source, config.problem) == (["1"], ConfigurationSource.FILE, None)
    with pytest.raises(InvalidConfigurationError, match="taken from the file"):
        await config.push(ConfigurationSource.CLUSTER, json.dumps(manifest(3)))
    assert applied.cpus == ["1"]


async def test_without_a_file_the_cached_one_applies_until_one_is_pushed(applied):
    config = configuration(applied)
    await config.start(manifest(2))
    assert config.active.source is ConfigurationSource.CACHE
    await config.push(ConfigurationSource.CLUSTER, json.dumps(manifest(3)))
    assert (applied.cpus, config.active.source) == (["2", "3"], ConfigurationSource.CLUSTER)
    assert config.active.resource.spec.available_resources.cpu == "cpuset:3"


def test_the_sources_have_the_names_that_users_read():
    assert [str(each) for each in ConfigurationSource] == ["file", "runtime", "cluster", "cache", "default"]


@pytest.mark.parametrize("cached", [None, {"kind": "Other"}, manifest(99)])
async def test_without_a_usable_configuration_the_default_applies(applied, cached):
    config = configuration(applied)
    await config.start(cached)
    assert (applied.cpus, config.active.source) == (["0"], ConfigurationSource.DEFAULT)


async def test_a_first_file_with_an_error_is_reported_and_the_cached_one_applies(applied, file):
    file.write_text(json.dumps(manifest(99)))
    config = configuration(applied, file)
    await config.start(manifest(2))
    assert applied.cpus == ["2"]
    assert config.problem == f"{file}: availableResources.cpu: 'cpuset:99' is not online; online are 0-7"


async def test_a_missing_file_is_reported_and_the_default_applies(applied, tmp_path):
    config = configuration(applied, tmp_path / "none.yaml")
    await config.start(None)
    assert applied.cpus == ["0"]
    assert "cannot be read" in config.problem


async def test_a_default_that_cannot_be_used_is_an_error(applied):
    definition = PolicyDefinition(kind=ExamplePolicy, build=Policy, default_spec=manifest(99)["spec"])
    with pytest.raises(InvalidConfigurationError):
        await Configuration(definition, "0-7", applied, file=None).start(None)


async def test_a_changed_file_applies_and_a_bad_one_is_refused_as_a_whole(applied, file):
    config = configuration(applied, file)
    await config.start(None)
    applied.changed.clear()
    watching = asyncio.create_task(config.watch(0.005))
    replace(file, json.dumps(manifest(2)))
    await applied.next()
    for bad in ("{", "kind: Other", json.dumps(manifest(99)), "- a", "a: 1\n---\nb: 2"):
        replace(file, bad)
        async with asyncio.timeout(10):
            while config.problem is None:  # noqa: ASYNC110 - a refused file changes nothing
                await asyncio.sleep(0.005)
        replace(file, json.dumps(manifest(2)))
        async with asyncio.timeout(10):
            while config.problem is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
    file.unlink()
    async with asyncio.timeout(10):
        while config.problem is None:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    file.write_text(json.dumps(manifest(3)))
    await applied.next()
    watching.cancel()
    assert applied.cpus == ["1", "2", "3"]


async def test_a_bad_configuration_that_is_pushed_leaves_the_earlier_one(applied):
    config = configuration(applied)
    await config.start(manifest(2))
    with pytest.raises(InvalidConfigurationError, match="online are 0-7"):
        await config.push(ConfigurationSource.CLUSTER, json.dumps(manifest(99)))
    assert (applied.cpus, config.active.manifest) == (["2"], manifest(2))
    assert "cpuset:99" in config.problem
    await config.push(ConfigurationSource.CLUSTER, json.dumps(manifest(3)))
    assert config.problem is None


async def test_the_same_configuration_is_not_applied_twice(applied):
    config = configuration(applied)
    await config.start(None)
    for _ in range(2):
        await config.push(ConfigurationSource.CLUSTER, json.dumps(manifest(3)))
    assert applied.cpus == ["0", "3"]


async def test_fields_without_effect_are_returned_and_logged(applied):
    config = configuration(applied)
    with capture_logs() as logs:
        await config.start(None)
        ignored = await config.push(
            ConfigurationSource.CLUSTER,
            json.dumps({**manifest(3), "spec": {**manifest(3)["spec"], "pinCpu": True}}),
        )
    assert ignored == ("spec.pinCpu",)
    assert any(line["event"] == "fields of the configuration ignored" for line in logs)


async def test_changed_hardware_applies_the_configuration_again_where_it_can(applied):
    config = configuration(applied)
    await config.start(manifest(2))
    await config.use_host("0-3")
    assert applied.cpus == ["2", "2"]


# A tab before the document is valid in JSON alone.
@pytest.mark.parametrize("text", ['{"a": 1}', '\n\t{"a": 1}\n', "a: 1\n---\n"])
def test_yaml_and_json_are_parsed(text):
    assert parse_document(text) == {"a": 1}


DEEP = '{"a":' * 900 + "1" + "}" * 900


@pytest.mark.parametrize(
    "text",
    [
        '{"spec":' + "[" * 100_000,
        "a: " + "[" * 100_000,
        "a: " + "1" * 5000,
        "a: 2001-99-99",
        '{"a":1e999999}',
        '{"a":"\\ud800"}',
        "\ud800",
        "a: !!python/object:os.system x",
    ],
    ids=lambda text: text[:20],
)
def test_a_document_that_no_parser_takes_is_refused(text):
    with pytest.raises(InvalidConfigurationError):
        parse_document(text)


async def test_a_configuration_that_is_nested_deeply_is_refused_and_the_earlier_one_stays(applied):
    config = configuration(applied)
    await config.start(None)
    text = json.dumps(manifest("1"))[:-1] + f', "extra": {DEEP}}}'
    with pytest.raises(InvalidConfigurationError, match="nested too deeply"):
        await config.push(ConfigurationSource.CLUSTER, text)
    assert "nested too deeply" in config.problem
    assert applied.cpus == ["0"]


async def test_a_file_that_is_nested_deeply_leaves_the_default(applied, file):
    file.write_text(json.dumps(manifest("1"))[:-1] + f', "extra": {DEEP}}}')
    config = configuration(applied, file)
    await config.start(None)
    assert "nested too deeply" in config.problem
    assert applied.cpus == ["0"]


async def test_changed_hardware_on_which_the_configuration_is_wrong_changes_nothing(applied):
    hosts = []

    def build(spec, host):
        hosts.append(host)
        if host == "0-1":
            raise PolicyConfigError("CPU 2 is not online")
        return Policy(spec, host)

    definition = PolicyDefinition(kind=ExamplePolicy, build=build, default_spec={})
    config = Configuration(definition, "0-7", applied, file=None)
    await config.start(manifest(2))
    await config.use_host("0-1")
    assert (applied.cpus, config.problem) == (["2"], "on changed hardware: CPU 2 is not online")
    assert config.active.source is ConfigurationSource.CACHE
    await config.push(ConfigurationSource.CLUSTER, json.dumps(manifest(3)))
    assert (applied.cpus, config.problem) == (["2", "3"], None)
    assert hosts == ["0-7", "0-1", "0-7"]


async def test_changed_hardware_is_what_later_configurations_are_built_for(applied):
    config = configuration(applied)
    await config.start(manifest(2))
    await config.use_host("0-3")
    assert (config.active.source, config.active.manifest) == (ConfigurationSource.CACHE, manifest(2))
    with pytest.raises(InvalidConfigurationError, match="online are 0-3"):
        await config.push(ConfigurationSource.CLUSTER, json.dumps(manifest(99)))


async def test_the_same_configuration_of_another_source_is_applied(applied):
    config = configuration(applied)
    await config.start(manifest(2))
    await config.push(ConfigurationSource.RUNTIME, json.dumps(manifest(2)))
    assert (applied.cpus, config.active.source) == (["2", "2"], ConfigurationSource.RUNTIME)


async def test_a_push_where_a_file_takes_precedence_is_no_problem_of_the_file(applied, file):
    config = configuration(applied, file)
    await config.start(None)
    with pytest.raises(InvalidConfigurationError, match=str(file)):
        await config.push(ConfigurationSource.RUNTIME, "{")
    assert config.problem is None


MOST = 1 << 20


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it has 0 documents"),
        ("---\n---\n", "it has 0 documents"),
        ("a: 1\n---\nb: 2", "it has 2 documents; write one manifest"),
        (" " * (MOST + 1), f"{MOST + 1} characters are more than an object may have"),
        ("a: [", "not YAML or JSON"),
    ],
)
def test_what_is_not_one_document_of_the_size_of_an_object_is_refused_with_the_reason(text, problem):
    with pytest.raises(InvalidConfigurationError, match=problem):
        parse_document(text)


def test_a_document_of_the_size_of_an_object_is_parsed():
    document = '{"a": 1}'
    assert parse_document(document + " " * (MOST - len(document))) == {"a": 1}


async def test_a_file_that_is_larger_than_an_object_is_refused(applied, file):
    file.write_text(json.dumps(manifest(1)) + " " * MOST)
    config = configuration(applied, file)
    await config.start(None)
    assert "more than an object may have" in config.problem
    assert applied.cpus == ["0"]


async def test_a_file_that_is_no_text_is_refused(applied, file):
    file.write_bytes(b"\xff")
    config = configuration(applied, file)
    await config.start(None)
    assert config.problem.startswith(f"{file}: it cannot be read: ")
    assert applied.cpus == ["0"]
