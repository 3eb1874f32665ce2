"""A real API server gives label selectors the grammar and the meaning that `joulie_core.label_selector` gives them."""

import asyncio
from http import HTTPStatus
from itertools import product
from typing import Final

import pytest
from tests.e2e.view import ClusterView

from joulie_api.errors import ApiError
from joulie_api.resources import CONFIG_MAPS
from joulie_core.label_selector import parse_label_selector, selects

pytestmark = pytest.mark.e2e

_LABELS: Final = {
    "selected-0": {},
    "selected-1": {"tier": "a", "n": "5"},
    "selected-2": {"tier": "b", "n": "07", "joulie.io/managed": "true"},
    "selected-3": {"tier": "", "n": "5_0", "in": "a"},
}
_FORMS: Final = ("{}", "!{}", "{}={}", "{} == {}", "{}!={}", "{} in ({})", "{} notin({},a)", "{} > {}", "{}<{}")
_KEYS: Final = ("tier", "n", "joulie.io/managed", "in", "gone", "-x", "a..b/c")
_VALUES: Final = ("", "a", "5", "true", "-5", "a b")
_OTHERS: Final = (
    " ",
    ",",
    "tier,",
    "tier,!gone",
    "tier in (a,b),n>4",
    "tier in (a,)",
    "tier in ( a , b )",
    "tier in (a",
    "tier in a",
    "tier in",
    "tierin (a)",
    "in in (a)",
    "!tier=a",
    "! tier",
    "tier>=1",
    "tier=a=b",
    "n>9223372036854775807",
    "n>9223372036854775808",
    "tier=" + "a" * 64,
    "a" * 64,
    "UPPER/tier",
    "/tier",
)


def _ours(text: str) -> set[str] | None:
    try:
        requirements = parse_label_selector(text)
    except ValueError:
        return None
    return {name for name, labels in _LABELS.items() if selects(requirements, labels)}


async def _servers(view: ClusterView, text: str) -> set[str] | None:
    try:
        found = await view.client.list(CONFIG_MAPS, view.namespace, label_selector=text)
    except ApiError as error:
        if error.status != HTTPStatus.BAD_REQUEST:
            raise
        return None
    return {each["metadata"]["name"] for each in found} & _LABELS.keys()


async def test_an_api_server_selects_and_refuses_the_same(bare: ClusterView) -> None:
    for name, labels in _LABELS.items():
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}}
        await bare.client.create(CONFIG_MAPS, body, bare.namespace)
    texts = {form.format(key, value) for form, key, value in product(_FORMS, _KEYS, _VALUES)} | {*_OTHERS}
    ordered = sorted(texts)
    try:
        answers = await asyncio.gather(*(_servers(bare, text) for text in ordered))
    finally:
        for name in _LABELS:
            await bare.client.delete(CONFIG_MAPS, name, bare.namespace)
    expected = {text: _ours(text) for text in ordered}
    assert dict(zip(ordered, answers, strict=True)) == expected
    assert None in answers
    assert len({frozenset(each) for each in answers if each is not None}) > 8, "they are told apart"
