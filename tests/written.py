"""Files of a repository that a test writes down."""

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Written"]


@dataclass(frozen=True)
class Written:
    """Texts by their path; links by where they stand."""

    texts: Mapping[str, str] = field(default_factory=dict)
    links: tuple[str, ...] = ()

    def read(self, path: str) -> bytes | None:
        """See domain.features.Files."""
        return self.texts[path].encode() if path in self.texts else None

    def kind(self, path: str) -> str:
        """See domain.features.Files."""
        if path in self.links:
            return "link"
        is_folder = any(each.startswith(f"{path}/") for each in self.texts)
        return "file" if path in self.texts else "folder" if is_folder else ""
