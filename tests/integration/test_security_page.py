"""The page about security, compared with the statements that the end-to-end tests try."""

from tests.chart import ROOT
from tests.token_rights import STATEMENTS, Token, table


def test_the_page_has_every_statement_that_is_tried_and_no_other():
    page = (ROOT / "docs" / "security.md").read_text()
    section = page.partition("## What each token may write\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines(keepends=True) if line.startswith("|")]
    assert "".join(rows) == table(), "write tests.token_rights.table() into the section"


def test_every_token_is_tried_with_what_it_may_and_what_it_may_not():
    for token in Token:
        answers = {each.answer == "permitted" for each in STATEMENTS if each.token is token}
        assert answers == {True, False}, token


def test_a_policys_refusal_is_known_by_the_field_that_it_names():
    for each in STATEMENTS:
        assert bool(each.says) == each.row.endswith("` |"), each.row
