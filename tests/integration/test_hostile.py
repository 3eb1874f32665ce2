"""A short campaign of `just hostile`: the real processes, an API server in this process, a fixed seed."""

import json
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from tools.hostile.api import RESOURCES, ForgedApi
from tools.hostile.campaign import SUBJECTS, Campaign, describe
from tools.hostile.documents import good_objects, kinds
from tools.hostile.grammar import Grammar
from tools.hostile.services import SERVICES, memory_limits_mib
from tools.hostile.site import run_site

from joulie_api.json_slices import members
from joulie_api.wire import decode_kind
from joulie_core import kinds as models
from joulie_testing.api.devices import dra_definitions

pytestmark = pytest.mark.timeout(540)

_SEED = 1
_DOCUMENT = {"metadata": {"name": "a", "labels": {"b": "c"}}, "spec": {"watts": 3.5, "names": ["d", "e"]}}


async def test_poison_in_everything_that_is_read_leaves_the_good_ones_served(tmp_path) -> None:
    async with run_site(tmp_path, real=False) as site:
        outcome = await Campaign(site, seed=_SEED).run(600, search=False)
    assert not outcome.violations, "\n".join(describe(each, _SEED) for each in outcome.violations)
    assert {subject for subject, _ in outcome.cases} == set(SUBJECTS)
    assert {name.partition(" ")[0] for name in outcome.set_aside} == set(SERVICES)


def test_a_seed_gives_the_same_poison_again() -> None:
    first, second = (Grammar(Random(4)) for _ in range(2))
    assert [first.draw(_DOCUMENT) for _ in range(100)] == [second.draw(_DOCUMENT) for _ in range(100)]


def test_every_family_of_poison_is_drawn_and_most_of_it_differs_from_the_document() -> None:
    grammar = Grammar(Random(4))
    drawn = [grammar.draw(_DOCUMENT) for _ in range(500)]
    assert {each.family for each in drawn} == {
        *("depth", "size", "encoding", "number", "control", "missing", "doubled", "type", "foreign")
    }
    same = [each for each in drawn if each.raw == json.dumps(_DOCUMENT, separators=(",", ":")).encode()]
    assert len(same) < 10, same


def test_poison_that_an_api_server_could_send_is_an_object_with_its_name() -> None:
    grammar = Grammar(Random(4))
    for _ in range(500):
        poison = grammar.draw(_DOCUMENT, well_formed=True)
        # Also where it is nested too deeply for any decoder.
        meta = members(members(poison.raw)["metadata"])
        assert json.loads(meta["name"]) == "a", poison.label


@pytest.mark.parametrize("kind", sorted(kinds()))
def test_what_poison_is_made_from_is_valid(kind: str) -> None:
    for document in kinds()[kind]:
        model = getattr(models, kind, None)
        if model is not None:
            meta = {**document["metadata"], "uid": "1", "resourceVersion": "1"}
            decode_kind(model)(json.dumps({**document, "metadata": meta}).encode())
        assert document["kind"] in RESOURCES


async def test_a_forged_object_is_served_as_the_bytes_that_it_is() -> None:
    document = next(each for each in good_objects() if each["kind"] == "ResourceClaim")
    api = ForgedApi()
    api.put_all(dra_definitions())
    poison, planted = await api.plant(_Fixed(b"1e400"), document)
    assert planted
    assert poison.raw in _listed(api, "ResourceClaim")
    await api.remove(document)
    assert api.count("ResourceClaim") == 0


def test_the_limits_are_those_of_the_chart() -> None:
    assert {name.removeprefix("joulie-"): limit for name, limit in memory_limits_mib().items()} == {
        "operator": 1024,
        "agent": 256,
        "extender": 1024,
        "outofband": 512,
    }


class _Fixed(Grammar):
    """Puts one value everywhere."""

    def __init__(self, value: bytes) -> None:
        super().__init__(Random(0))
        self._value = value

    def draw(self, document: Mapping[str, Any], *, well_formed: bool = False) -> Any:
        poison = super().draw(dict(document), well_formed=well_formed)
        return type(poison)("number", "fixed", b'{"metadata":%b,"spec":%b}' % (_meta(document), self._value), True)


def _meta(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document["metadata"]).encode()


def _listed(api: ForgedApi, kind: str) -> bytes:
    return b"{" + b"".join(each.tail for each in api.stored(kind))
