"""Words in a line that keep a tool, or a test runner, from saying what it finds there."""

import re
from collections.abc import Mapping

from patchyard.domain.patch_lines import Lines

MOST_SHOWN = 100
_WORDS = re.compile(
    r"#\s*(?i:(?:flake8:\s*)?noqa)\b|#\s*type:\s*ignore|#\s*pyright:\s*(?:ignore|basic|\w+=)"
    r"|#\s*nosec\b|#\s*nosemgrep\b|#\s*pragma:\s*(?:no cover|no branch|allowlist)"
    r"|#\s*pylint:\s*(?:disable|skip-file)|#\s*fmt:\s*(?:off|skip)"
    r"|#\s*ruff:\s*(?:noqa|disable|ignore|file-ignore)"
    r"|#\s*mypy:\s*(?:ignore|disable|allow|no-|follow)|\bno_type_check\b"
    r"|eslint-disable|@ts-(?:ignore|nocheck|expect-error)"
    r"|prettier-ignore|istanbul ignore|c8 ignore|v8 ignore|//\s*nolint\b|//\s*nosec\b"
    r"|#!?\[(?:(?:allow|expect)\(|ignore\b|rustfmt::skip|cfg_attr\([^\]]{0,200}?\b(?:allow|ignore)\b)"
    r"|@SuppressWarnings|@(?:Disabled|Ignore)\b|//go:build ignore\b"
    r"|\bpytest\.(?:mark\.)?(?:skip|skipif|xfail|importorskip)\b|\bunittest\.skip"
    r"|\bSkipTest\b|\.skipTest\(|\bt\.Skip(?:f|Now)?\("
    r"|\b(?:test|it|describe|suite|context)\.only\(|\b(?:test|it|describe|suite)\.skip\(|\b(?:xit|xdescribe)\("
    # which tests a runner finds, and what it makes of them
    r"|\bdef (?:load_tests|pytest_\w+)\b|\bcollect_ignore|\bpytest(?:mark|_plugins)\b"
    r"|\b__test__\s*=\s*False|\b__unittest_(?:skip|expecting_failure)__"
    # who runs the tests (Django), and a runner or an assertion of the product's own (Elixir, Rust)
    r"|\bTEST_RUNNER\b|\bdefmodule\s+ExUnit\b|\bmacro_rules!\s*(?:debug_)?assert(?:_eq|_ne)?\b"
    # the end of a process as if all were well, and the insides of a runner
    r"|\b(?:_exit|_Exit|quick_exit|reallyExit)\b|\bos\.(?:exec\w+\(|kill\(\s*os\.getpid)"
    r"|\bsys\.exit\((?:0|None|False)?\)|\bfrom sys import [^#]{0,200}\bexit\b"
    r"|(?<![\w.])(?:exit|quit)\(0?\)|\bSystemExit\b(?!\((?:\w+\(|[1-9]))"
    r"|\bprocess\.(?:exit\(0?\)|exitCode\s*=)|\bsyscall\.(?:Exit|Exec|Kill|RawSyscall)\b"
    r"|\bos\.Exit\(0\)|\bprocess::(?:exit\(0\)|abort)|\bSystem\.exit\(0\)|\.halt\(0\)"
    r"|\b_pytest\b|\bunittest\.(?:case|result|runner|main\b(?!\())\b|\bsys\.settrace\("
)


def silencing(added: Mapping[str, Lines]) -> tuple[str, ...]:
    """Return the added lines that silence a tool, skip a test or end a process, as `path:line`."""
    found = (
        f"{path}:{number}"
        for path, lines in sorted(added.items())
        for number, text in sorted(lines.items())
        if _WORDS.search(text[:5000])
    )
    return tuple(place for place, _ in zip(found, range(MOST_SHOWN), strict=False))


__all__ = ["MOST_SHOWN", "silencing"]
