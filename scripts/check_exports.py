"""Each module of the package says in `__all__` exactly what it makes public, sorted.

Public are its functions and classes, and the constants that another module of it imports. A group's
subcommands are not: the group is what others import.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tree import ROOT, files, report

__all__ = ["findings", "isort_key", "module_name", "taken"]


def isort_key(name: str) -> tuple[int, list[object]]:
    """Ruff's order (RUF022): CONSTANTS, then Classes, then the rest, numbers by value."""
    bare = name.lstrip("_")
    constant = bare.isupper() and len(bare) > 1
    rank = 0 if constant else 1 if bare[:1].isupper() else 2
    parts = [(0, int(p), "") if p.isdigit() else (1, 0, p) for p in re.split(r"(\d+)", name)]
    return rank, [part for part in parts if part[2] or part[0] == 0]


def _targets(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            yield from (n.id for n in ast.walk(target) if isinstance(n, ast.Name))
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id


def _defined(body: Iterable[ast.stmt]) -> set[str]:
    return {name for node in body for name in _targets(node) if not name.startswith("_")}


def _made(body: Iterable[ast.stmt]) -> set[str]:
    made = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return _defined(node for node in body if isinstance(node, made) and not _is_subcommand(node))


def _is_subcommand(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """Whether a click group above it takes it in: the group is what others import."""
    calls = (d.func for d in node.decorator_list if isinstance(d, ast.Call))
    return any(
        isinstance(call, ast.Attribute)
        and call.attr == "command"
        and not (isinstance(call.value, ast.Name) and call.value.id == "click")
        for call in calls
    )


def _imported(body: Iterable[ast.stmt]) -> set[str]:
    names: set[str] = set()
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
    return names


def _exports(body: Iterable[ast.stmt]) -> list[str] | None:
    for node in body:
        targets = list(_targets(node))
        if targets == ["__all__"] and isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
            return [str(name) for name in ast.literal_eval(node.value)]
    return None


def taken(path: Path) -> set[tuple[str, str]]:
    """Modules and the names that one module imports from them."""
    return {
        (node.module, alias.name)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path)))
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


def module_name(path: Path) -> str:
    """The dotted name of a file below a folder `src`."""
    parts = path.with_suffix("").parts
    below = parts[len(parts) - parts[::-1].index("src") :]
    return ".".join(below[:-1] if below[-1] == "__init__" else below)


def findings(path: Path, wanted: Iterable[tuple[str, str]] = ()) -> Iterator[str]:
    """What `__all__` of one module lacks, invents or has out of order."""
    body = ast.parse(path.read_text(encoding="utf-8"), str(path)).body
    here = module_name(path)
    defined = _defined(body)
    public = _made(body) | {name for module, name in wanted if module == here and name in defined}
    listed = _exports(body)
    if listed is None:
        if public or (_imported(body) and path.name == "__init__.py"):
            yield f"{path}: no __all__"
        return
    known = defined | _imported(body) | {"__version__", "__getattr__"}
    if missing := sorted(public - set(listed)):
        yield f"{path}: public but not in __all__: {', '.join(missing)}"
    lazy = any("__getattr__" in _targets(node) for node in body)
    if not lazy and (invented := sorted(set(listed) - known)):
        yield f"{path}: in __all__ but not there: {', '.join(invented)}"
    if listed != sorted(listed, key=isort_key) or len(listed) != len(set(listed)):
        yield f"{path}: __all__ is not sorted, or names something twice"


if __name__ == "__main__":
    package = files("src/*.py", ":!src/patchyard/demo/project/")  # data: the task of the demo
    modules = [path for path in package if path.name != "__main__.py"]
    wanted = {pair for path in modules for pair in taken(path)}
    found = [f.replace(f"{ROOT}/", "") for path in modules for f in findings(path, wanted)]
    sys.exit(report("exports", found))
