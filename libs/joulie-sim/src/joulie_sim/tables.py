"""Tables of text, for the terminal and as Markdown. No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich import table as rich_table
from rich.text import Text


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table; the first column is left-aligned, the others are figures."""

    header: Sequence[str]
    rows: Sequence[Sequence[str | Text]]
    title: str = ""

    def rich(self) -> rich_table.Table:
        """Return the table for the terminal."""
        shown = rich_table.Table(title=self.title, title_justify="left", title_style="italic", expand=False)
        for index, column in enumerate(self.header):
            shown.add_column(column, justify="left" if index == 0 else "right")
        for row in self.rows:
            shown.add_row(*row)
        return shown

    def markdown(self) -> str:
        """Return the table in Markdown, without its title."""
        lines = ["| " + " | ".join(map(str, cells)) + " |" for cells in (self.header, *self.rows)]
        aligned = "|".join(("---", *("---:" for _ in self.header[1:])))
        return "\n".join((lines[0], f"|{aligned}|", *lines[1:]))
