"""A table in a page that a script writes: puts it between its marks, or says that it is stale."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tree import report

__all__ = ["END", "WrittenTable"]

END = "<!-- end of the table -->"


@dataclass(frozen=True, kw_only=True)
class WrittenTable:
    """The place of one table. `check` is how `make check` calls it."""

    page: Path
    script: str  # that writes it
    check: str

    @property
    def begin(self) -> str:
        """The mark above the table."""
        return f"<!-- written by scripts/{self.script}; `make fix` writes it anew -->"

    def renewed(self, text: str, table: str) -> str:
        """Return the page's text with this table. Raises ValueError where it has no place."""
        before, begin, rest = text.partition(self.begin)
        _, end, after = rest.partition(END)
        if not begin or not end:
            raise ValueError(f"{self.page.name} has no place for it: {self.begin} ... {END}")
        return f"{before}{self.begin}\n\n{table}\n\n{END}{after}"

    def main(self, table: str, arguments: Sequence[str]) -> int:
        """Write the table, or with --check say whether it is true; the exit code."""
        text = self.page.read_text(encoding="utf-8")
        if "--check" not in arguments:
            self.page.write_text(self.renewed(text, table), encoding="utf-8")
            return 0
        stale = f"{self.page.name} has an older table; cure: make fix"
        return report(self.check, [] if self.renewed(text, table) == text else [stale])
