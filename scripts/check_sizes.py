"""A file has at most 400 lines and a function 60 (the style page); nothing is exempt."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from tree import ROOT, files, report

__all__ = ["FILE_LINES", "FUNCTION_LINES", "findings"]

FILE_LINES = 400
FUNCTION_LINES = 60


def findings(path: Path) -> Iterator[str]:
    """One line for the file and for each function that is too long."""
    text = path.read_text(encoding="utf-8")
    lines = text.count("\n")
    if lines > FILE_LINES:
        yield f"{path}: {lines} lines, at most {FILE_LINES}: find the second noun"
    for node in ast.walk(ast.parse(text, str(path))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES:
                yield (
                    f"{path}:{node.lineno}: {node.name} has {length} lines, "
                    f"at most {FUNCTION_LINES}"
                )


if __name__ == "__main__":
    found = [f.replace(f"{ROOT}/", "") for path in files("*.py") for f in findings(path)]
    sys.exit(report("sizes", found))
