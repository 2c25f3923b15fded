"""What a Dockerfile would have an engine fetch is found before anything is built."""

import contextlib
from collections.abc import Callable

import pytest

from patchyard.domain.dockerfile import images_needed, require_others, require_own_triggers
from patchyard.domain.errors import EnvironmentUnavailable
from timing import require_linear


def needed(text: str, **arguments: str) -> list[str]:
    found = images_needed(text, path="D", arguments=arguments)
    return [f"{each.line} {each.image}{' stage' * each.is_stage}" for each in found]


@pytest.mark.parametrize(
    ("text", "images"),
    [
        ("FROM house/base:1\nRUN true\n", ["1 house/base:1"]),
        ("# a\n\nfrom  base@x as b\r\nFROM b\n", ["3 base@x"]),
        ("FROM scratch\nADD . /\n", []),
        ("FROM a AS one\nFROM b\nCOPY --from=one /x /\nCOPY --from=0 /x /\n", ["1 a", "2 b"]),
        ("FROM a\nCOPY --chown=$U --from=other:2 /x /\n", ["1 a", "2 other:2"]),
        ("FROM a\nONBUILD COPY --chown=1 x /\nONBUILD RUN make\n", ["1 a"]),
        ("FROM b AS a\nFROM a AS b\n", ["1 b stage"]),
        ("FROM python AS python\n", ["1 python stage"]),
        ("ARG B=base V='1'\nARG W=$V\nFROM ${B}:${W}\n", ["3 base:1"]),
        ("ARG B\nFROM ${B:-else}${B:+-more}\n", ["2 else"]),
        ("# escape=\\\nFROM a\\\n  AS b\nFROM b\n", ["2 a"]),
        ("FROM a\n# a comment\n", ["1 a"]),
        ("FROM a\nFROM b\nFROM a\nCOPY --from=b /x /\n", ["1 a", "2 b"]),
        ("ARG B=base  V\tW=1 \nFROM $B:$W\n", ["2 base:1"]),
        ("FROM \\\n# between\n\n  a\n", ["1 a"]),
        ('FROM a\nADD app-${V}.tgz $HOME/\nADD ["x", "/"]\nRUN echo $((1<<2))\n', ["1 a"]),
        ("FROM a\nARG X=\\odd\nRUN true \\", ["1 a"]),
        ("FROM a\n# \u00a0\\\\\nLABEL price=1\u00a0EUR\n", ["1 a"]),
    ],
)
def test_the_images_it_takes_are_named_with_their_lines(text: str, images: list[str]) -> None:
    assert needed(text) == images


def test_what_the_build_is_given_counts_before_the_files_own() -> None:
    assert needed("ARG B=base\nFROM ${B:+of-}$B\n", B="given") == ["2 of-given"]
    assert needed("FROM a\nARG B=base\n", B="given") == ["1 a"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ADD http://169.254.169.254/latest /x", "ADD of http://169.254.169.254/latest may reach"),
        ("ADD ht\\tps://x.example/ /x", "may reach out"),
        ('ADD "https"://x.example/ /x', "may reach out"),
        ('ADD ["\\u0068ttp://x.example/", "/x"]', "may reach out"),
        ("ADD git@x.example:a.git /x", "may reach out"),
        ("ADD $WHERE /x", "may reach out"),
        ("ADD a h${TTP} /x", "may reach out"),
        ("ADD [what /x", "cannot be told"),
        (f"ADD {'[' * 100_000} /x", "cannot be told"),
        ("ONBUILD ADD https://x.example/ /x", "may reach out"),
        ("ONBUILD COPY --from=s /x /", "--from of ONBUILD would be another image"),
        ("ONBUILD copy --chown=1 --from=0 /x /", "--from of ONBUILD would be another image"),
        ("ONBUILD ONBUILD COPY --from=s /x /", "ONBUILD is not for ONBUILD"),
        ("ONBUILD FROM elsewhere", "FROM is not for ONBUILD"),
        ("ONBUILD RUN --mount=type=bind,from=x true", "--mount is not for builds here"),
        ("ONBUILD COPY <<EOF /x", "here-documents are not"),
        ("ADD \\\n  https://x.example/ /x", "may reach out"),
        ("RUN --network=host curl x", "--network is not for builds here"),
        ("RUN --mount=type=bind,from=x true", "--mount is not for builds here"),
        ("COPY <<EOF /x", "here-documents are not"),
        ("COPY --from=$X /x /", "cannot be told"),
        ('COPY --from="x" /x /', "cannot be told"),
        ("FROM --platform=linux/s390x a", "--platform=linux/s390x is not for builds here"),
        ("FROM $UNKNOWN", "cannot be told"),
        ("FROM a b c", "cannot be told"),
        ("# Escape = `", "another escape is not for builds here"),
        ("http://x.example/ /x", "HTTP://X.EXAMPLE/ is no instruction"),
        ("FROM Upper", "cannot be told"),
        ("FROM ${A%%x}", "cannot be told"),
        ("COPY <<1 /x", "here-documents are not"),
        ("COPY <<' x \\' /x", "here-documents are not"),
        ("COPY --chown=0\u00a0--from=x / /", "a blank of another kind"),
        ('ADD \u0085["http://x.example/", "/x"]', "a blank of another kind"),
        ("ARG A=1\u00a0B=2", "a blank of another kind"),
        ("ENV A=x\\\\\nFROM x", "it is unclear whether it goes on"),
        ("\x1c# x", "a control character"),
        ("ENV A=x \\\r\r\nFROM x", "a control character"),
        (f"COPY --from={'a' * 5000} / /", "cannot be told"),
        (f"COPY --from={'9' * 5000} / /", "cannot be told"),
        (f"COPY --from={'9' * 5000}\u0660 / /", "cannot be told"),
    ],
)
def test_what_reaches_out_or_cannot_be_followed_is_refused_with_its_line(
    line: str, words: str
) -> None:
    with pytest.raises(EnvironmentUnavailable) as refused:
        needed(f"FROM house/base\n{line}\n")
    assert refused.value.message.startswith("D:2: ")
    assert words in refused.value.message
    assert refused.value.hint


@pytest.mark.parametrize("argument", ["A=\\x", 'A=a"b"', "-"])
def test_an_argument_that_cannot_be_followed_is_refused(argument: str) -> None:
    with pytest.raises(EnvironmentUnavailable, match="D:1: what ARG takes cannot be told"):
        needed(f"ARG {argument}\nFROM a\n")


def test_a_number_beyond_all_stages_is_the_name_of_an_image() -> None:
    assert needed("FROM a\nCOPY --from=1 / /\nCOPY --from=99999 / /\n") == ["1 a", "2 1", "3 99999"]


def test_arguments_that_double_each_other_without_end_are_refused() -> None:
    doubled = "".join(f"ARG A{n + 1}=$A{n}$A{n}\n" for n in range(200))
    with pytest.raises(EnvironmentUnavailable, match=r"D:\d+: what ARG takes cannot be told"):
        needed(f"ARG A0=x\n{doubled}FROM a\n")


LONG: dict[str, Callable[[int], str]] = {
    "arguments": lambda n: f"ARG {'a ' * (n * 3)}\nFROM a\n",
    "flags": lambda n: f"FROM a\nCOPY {'--chown=1 ' * n}a b\n",
    "flags of RUN": lambda n: f"FROM a\nRUN {'--a ' * n}\n",
    "stages": lambda n: "FROM a\n" * (n // 4),
    "named stages": lambda n: "".join(
        f"FROM a AS b{k}\nCOPY --from=c{k} a b\n" for k in range(n // 8)
    ),
    "triggers": lambda n: f"FROM a\nONBUILD COPY {'--chown=1 ' * n}a b\n",
    "variables": lambda n: f"ARG A={'${B:-' * n}\nFROM a\n",
    "lines that go on": lambda n: "FROM a\nRUN " + "a \\\n" * n,
    "backslashes": lambda n: "FROM a\nRUN " + "\\ " * n + "x\n",
    "sources": lambda n: f"FROM a\nADD {'$a ' * n}/\n",
}


@pytest.mark.parametrize("kind", LONG)
def test_a_dockerfile_is_read_in_time_that_grows_with_its_length(kind: str) -> None:
    def read(amount: int) -> None:
        with contextlib.suppress(EnvironmentUnavailable):
            images_needed(LONG[kind](amount), path="D", arguments={})

    require_linear(read, 60_000)


def test_an_image_whose_triggers_take_what_is_not_the_builds_is_refused() -> None:
    require_own_triggers(["COPY . /app", "RUN make", "ARG X"], image="base")
    for trigger in ("COPY --from=base:2 /x /", "ADD https://x.example/ /", "RUN true\nFROM x"):
        with pytest.raises(EnvironmentUnavailable, match="ONBUILD of base:"):
            require_own_triggers([trigger], image="base")


@pytest.mark.parametrize("name", ["TARGETARCH", "BUILDPLATFORM", "http_proxy", "NO_PROXY"])
def test_a_name_is_not_put_together_of_what_engines_fill_in_themselves(name: str) -> None:
    for text in (f"FROM a${name}\n", f"ARG {name}=b\nFROM a${{{name}:-b}}\n"):
        with pytest.raises(EnvironmentUnavailable, match="cannot be told"):
            needed(text)


@pytest.mark.parametrize(
    "reference",
    ["patchyard-devcontainer:1", "localhost/patchyard-devcontainer@x", "sha256:12ab", "cafe", "0"],
)
def test_an_image_that_may_be_anothers_is_none_to_build_on(reference: str) -> None:
    with pytest.raises(EnvironmentUnavailable, match="none to build on"):
        require_others(reference)
    require_others("house/base:1")
    require_others("cafe:1")
