"""Reasons are what Kubernetes takes, and each is used."""

import re
from pathlib import Path

import pytest

import joulie_operator
from joulie_operator.reasons import ConditionReason, EventReason

ALL = [*EventReason, *ConditionReason]
SOURCE = "".join(
    path.read_text() for path in Path(joulie_operator.__file__).parent.rglob("*.py") if path.name != "reasons.py"
)


@pytest.mark.parametrize("reason", ALL)
def test_a_reason_is_one_word_in_camel_case(reason):
    assert re.fullmatch(r"([A-Z][a-z]+)+", reason)


@pytest.mark.parametrize("reason", ALL, ids=str)
def test_a_reason_is_used_by_its_name_and_nowhere_as_text(reason):
    assert f"{type(reason).__name__}.{reason.name}" in SOURCE
    assert f'"{reason}"' not in SOURCE
