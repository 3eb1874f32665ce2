"""YAML as people write it in annotations: mappings, lists and texts.

Any user who may create a pod writes these texts, so their size is limited and aliases, which multiply content, are
refused.
"""

from functools import lru_cache
from typing import Any, Final

import yaml

#: Characters; parsing takes about 10 microseconds for each.
LONGEST_TEXT: Final = 8192
#: Levels of collections in each other. The time of the scanner grows with their square.
DEEPEST: Final = 32


class PlainYamlError(ValueError):
    """A text is no YAML that can be used; the message has the reason."""


class _Loader(yaml.BaseLoader):
    """Makes every scalar a text, and knows neither aliases nor tags nor deep nesting."""

    def fetch_flow_collection_start(self, TokenClass: type[yaml.Token]) -> None:  # noqa: N803 - named by the base class
        if self.flow_level >= DEEPEST:
            raise PlainYamlError("it is nested too deeply")
        super().fetch_flow_collection_start(TokenClass)

    def add_indent(self, column: int) -> bool:
        if len(self.indents) >= DEEPEST:
            raise PlainYamlError("it is nested too deeply")
        return super().add_indent(column)

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise PlainYamlError("aliases are not supported")
        return super().compose_node(parent, index)


@lru_cache(maxsize=1024)
def parse_yaml(text: str) -> Any:
    """Return nested dictionaries, lists and texts, which the caller must not change; None for an empty text.

    Raises:
        PlainYamlError: The text is too long, malformed or nested too deeply, or has aliases.
    """
    if len(text) > LONGEST_TEXT:
        raise PlainYamlError(f"it is longer than {LONGEST_TEXT} characters")
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - of BaseLoader, which constructs texts only
    except yaml.MarkedYAMLError as error:
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise PlainYamlError(f"it is no YAML: {error.problem}{line}") from error
    except yaml.YAMLError as error:
        raise PlainYamlError("it is no YAML: it has characters that YAML does not allow") from error
