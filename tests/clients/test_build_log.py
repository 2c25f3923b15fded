"""A build that failed: which step, its last words, and a cure that fits them."""

import json
import tracemalloc
from collections.abc import AsyncIterator

import pytest

from patchyard.clients import build_log
from patchyard.clients.build_log import KEPT_CHARS, LAST_LINES, LINE_CHARS, BuildLog
from patchyard.domain.errors import EnvironmentUnavailable
from patchyard.domain.machine import ENGINE_ROOM

NETWORK = "a build has no network here"


def failed(*said: str, error: str = "it returned a non-zero code: 1") -> EnvironmentUnavailable:
    log = BuildLog("Dockerfile")
    log.take(b"no JSON\n")
    log.take(b"[" * 100_000)
    for text in said:
        log.take(json.dumps({"stream": f"{text}\n"}).encode())
    with pytest.raises(EnvironmentUnavailable) as refused:
        log.take(json.dumps({"errorDetail": {"message": error}, "error": error}).encode())
    return refused.value


def test_the_step_and_its_last_lines_are_said() -> None:
    many = [f"line {number}" for number in range(20)]
    error = failed(
        "Step 1/2 : FROM x",
        "could not resolve, long ago",
        "Step 2/2 : RUN make",
        " ---> 1a2b",
        *many,
    )
    assert error.message.splitlines() == [
        "Dockerfile does not build: `RUN make`: it returned a non-zero code: 1",
        *many[-LAST_LINES:],
    ]
    assert error.hint == "mend that step; what it printed last stands above"
    assert "Step 1/2" in error.details["output"]


def test_the_engines_colours_and_its_own_words_are_no_last_lines() -> None:
    red, plain = "\x1b[91m", "\x1b[0m"
    error = failed(
        "Step 1/2 : FROM x",
        f"{plain}Step 2/2 : RUN make",
        f"{red}make: no rule\n{plain}{red}\n{plain}Removing intermediate container 1a2b",
    )
    assert error.message.splitlines()[1:] == ["make: no rule"]
    assert "`RUN make`" in error.message


def test_a_build_that_prints_without_end_is_not_kept_whole() -> None:
    flood = ["y" * 1000] * (20 * KEPT_CHARS // 1000)
    tracemalloc.start()
    try:
        error = failed("Step 1/1 : RUN yes", *flood)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    first, *last = error.message.splitlines()
    assert first == "Dockerfile does not build: `RUN yes`: it returned a non-zero code: 1"
    assert last == ["y" * LINE_CHARS] * LAST_LINES
    assert most < 6 * KEPT_CHARS


def test_what_fails_before_any_step_is_said_as_it_is() -> None:
    error = failed(error="dockerfile parse error")
    assert error.message == "Dockerfile does not build: dockerfile parse error"
    assert error.hint == "mend that step"


@pytest.mark.parametrize(
    "said",
    [
        "curl: (6) Could not resolve host: example.org",
        "Temporary failure resolving 'deb.debian.org'",
        "Failed to establish a new connection: [Errno -3]",
        "npm error code EAI_AGAIN",
        "wget: bad address 'example.org'",
        "dial tcp: lookup modules.example.org",
    ],
)
def test_a_build_that_reached_out_is_told_that_it_has_no_network(said: str) -> None:
    assert NETWORK in failed("STEP 1/1: RUN fetch", said).hint


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("dd: error writing '/x': No space left on device", "it returned a non-zero code: 1"),
        ("", "write /var/lib/docker/tmp/layer: no space left on device"),
    ],
)
def test_a_build_on_a_full_disk_is_told_where_to_free_space(line: str, error: str) -> None:
    assert failed("STEP 1/1: RUN fill", line, error=error).hint == ENGINE_ROOM


@pytest.mark.anyio
async def test_lines_come_whole_however_they_are_cut_and_none_beyond_its_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(build_log, "LINE_BYTES", 5)

    async def pieces() -> AsyncIterator[bytes]:
        for piece in (b"a", b"b\nc\n", b"\nlonger", b" than", b" that\nd", b"e"):
            yield piece

    found = [line async for line in build_log.lines_of(pieces())]
    assert found == [b"ab", b"c", b"", b"longe", b"de"]
