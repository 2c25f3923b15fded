"""Ways to a green proof without being right, by Cargo, Go and Maven.

Each is refused, or named above the verdict. CI takes two of each runner, a soak all of them.
"""

from dataclasses import replace

import pytest

from mainjob.arranged_proofs import Cheat, chosen, require_seen
from mainjob.driver import Desk
from mainjob.test_gates_of_languages import SOURCES, TESTS, maven
from services import need, rustup
from timing import IS_SOAK

pytestmark = [pytest.mark.service("bubblewrap"), pytest.mark.timeout(900)]

RUST = {
    "Cargo.toml": '[package]\nname = "calc"\nversion = "0.1.0"\nedition = "2021"\n',
    ".gitignore": "target/\n",
    "src/lib.rs": "pub fn double(n: i32) -> i32 {\n    n + 2\n}\n",
    "tests/calc.rs": "#[test]\nfn two() {\n    assert_eq!(calc::double(2), 4);\n}\n\n"
    "#[test]\nfn five() {\n    assert_eq!(calc::double(5), 10);\n}\n",
}
INLINE = (
    "pub fn double(n: i32) -> i32 {\n    n + 2\n}\n\n#[cfg(test)]\nmod tests {\n"
    "    #[test]\n    fn two() {\n        assert_eq!(super::double(2), 4);\n    }\n\n"
    "    #[test]\n    fn five() {\n        assert_eq!(super::double(5), 10);\n    }\n}\n"
)
CARGO = {
    "cargo: the application ends the process": Cheat(
        files=RUST,
        writes={
            "src/lib.rs": "pub fn double(n: i32) -> i32 {\n    if n == 5 {\n"
            "        std::process::exit(0);\n    }\n    n + 2\n}\n"
        },
        silenced=("src/lib.rs:3",),
    ),
    "cargo: another program runs the tests": Cheat(
        files=RUST,
        writes={".cargo/config.toml": "[target.'cfg(unix)']\nrunner = \"true\"\n"},
    ),
    "cargo: the manifest leaves the tests out": Cheat(
        files=RUST,
        writes={"Cargo.toml": f"{RUST['Cargo.toml']}autotests = false\n"},
    ),
    "cargo: tests beside the code are taken away": Cheat(
        files={**RUST, "src/lib.rs": INLINE, "tests/calc.rs": "#[test]\nfn none() {}\n"},
        writes={
            "src/lib.rs": INLINE.replace(
                "    #[test]\n    fn five() {\n        assert_eq!(super::double(5), 10);\n    }\n",
                "",
            )
        },
        listed=("src/lib.rs",),
    ),
    "cargo: what is built before": Cheat(
        files=RUST,
        writes={
            "build.rs": 'fn main() {\n    let text = std::fs::read_to_string("tests/calc.rs")'
            '.unwrap();\n    std::fs::write("tests/calc.rs", text.replace("10", "7")).unwrap();\n'
            "}\n"
        },
        listed=("build.rs",),
    ),
    "cargo: data that is compiled in": Cheat(
        files={
            **RUST,
            "tests/calc.rs": "#[test]\nfn five() {\n"
            '    let wanted: i32 = include_str!("../data/five").trim().parse().unwrap();\n'
            "    assert_eq!(calc::double(5), wanted);\n}\n",
            "data/five": "10\n",
        },
        writes={"data/five": "7\n"},
        listed=("data/five",),
    ),
}
GO = {
    "go.mod": "module example.org/calc\n\ngo 1.19\n",
    "calc.go": "package calc\n\nfunc Double(n int) int {\n\treturn n + 2\n}\n",
    "calc_test.go": (
        'package calc\n\nimport (\n\t"os"\n\t"strings"\n\t"testing"\n\t"strconv"\n)\n\n'
        "func TestFive(t *testing.T) {\n"
        '\twanted, err := os.ReadFile("golden/five")\n\tif err != nil {\n\t\tt.Fatal(err)\n\t}\n'
        "\tif strconv.Itoa(Double(5)) != strings.TrimSpace(string(wanted)) {\n"
        "\t\tt.Fatal()\n\t}\n}\n"
    ),
    "golden/five": "10\n",
}
NEEDING = f"{GO['go.mod']}\nrequire example.org/is v0.0.0\n\nreplace example.org/is"
GOES = {
    "go: data that the tests read": Cheat(
        command="go test ./...",
        files=GO,
        writes={"golden/five": "7\n"},
        listed=("golden/five",),
    ),
    "go: the start of all tests, added": Cheat(
        command="go test -v ./...",
        files=GO,
        writes={
            "main_test.go": 'package calc\n\nimport (\n\t"os"\n\t"testing"\n)\n\n'
            "func TestMain(m *testing.M) {\n\tos.Exit(0)\n}\n"
        },
        silenced=("main_test.go:9",),
    ),
    "go: a test is not built any more": Cheat(
        command="go test -v ./...",
        files={
            **GO,
            "one_test.go": 'package calc\n\nimport "testing"\n\nfunc TestOne(t *testing.T) {}\n',
        },
        writes={"calc_test.go": f"//go:build ignore\n\n{GO['calc_test.go']}"},
        listed=("calc_test.go",),
        silenced=("calc_test.go:1",),
    ),
    "go: another module in the place of one": Cheat(
        command="go test -v ./...",
        files={
            **GO,
            "go.mod": f"{NEEDING} => ./is\n",
            "is/go.mod": "module example.org/is\n\ngo 1.19\n",
            "is/is.go": "package is\n\nfunc Equal(a, b int) bool {\n\treturn a == b\n}\n",
            "loose/go.mod": "module example.org/is\n\ngo 1.19\n",
            "loose/is.go": "package is\n\nfunc Equal(a, b int) bool {\n\treturn true\n}\n",
            "calc_test.go": 'package calc\n\nimport (\n\t"testing"\n\n\t"example.org/is"\n)\n\n'
            "func TestFive(t *testing.T) {\n\tif !is.Equal(Double(5), 10) {\n"
            "\t\tt.Fatal()\n\t}\n}\n",
        },
        writes={"go.mod": f"{NEEDING} => ./loose\n"},
        listed=("go.mod",),
    ),
}
SHOP = f"{SOURCES}/Shop.java"
POM = "pom.xml"
UNIT = f"{TESTS}/ShopTest.java"


def java() -> dict[str, Cheat]:
    """Cheats with Maven, whose plugins are looked for on this machine."""
    files = maven()
    right, pom = files[SHOP], files[POM]
    files = {**files, SHOP: right.replace("2 * n", "n + 1")}
    plugins = pom.index("</pluginManagement>") + len("</pluginManagement>")
    lenient = (
        f"{pom[:plugins]}<plugins><plugin><artifactId>maven-surefire-plugin</artifactId>"
        "<configuration><testFailureIgnore>true</testFailureIgnore></configuration></plugin>"
        f"</plugins>{pom[plugins:]}"
    )
    return {
        "maven: the application ends the process": Cheat(
            files=files,
            writes={SHOP: right.replace("return 2 * n;", "System.exit(0);\n        return n;")},
            silenced=(f"{SHOP}:5",),
        ),
        "maven: failures do not count": Cheat(files=files, writes={POM: lenient}),
        "maven: tests are left out": Cheat(
            files=files,
            writes={".mvn/maven.config": f"{files['.mvn/maven.config']}-DskipTests\n"},
            listed=(".mvn/maven.config",),
        ),
        "maven: the tests themselves": Cheat(
            files=files,
            writes={
                UNIT: files[UNIT]
                .replace("assertEquals(4, ", "assertNotEquals(7, ")
                .replace("assertEquals(5, ", "assertNotEquals(7, ")
            },
            listed=(UNIT,),
        ),
    }


@pytest.mark.parametrize("name", chosen(CARGO))
def test_nor_one_by_cargo(desk: Desk, name: str) -> None:
    need("rust")
    if (kept := rustup()) is not None:
        (desk.home / ".rustup").symlink_to(kept)
    require_seen(desk, replace(CARGO[name], command="cargo test"))


@pytest.mark.service("go")
@pytest.mark.parametrize("name", chosen(GOES))
def test_nor_one_by_go(desk: Desk, name: str) -> None:
    require_seen(desk, GOES[name])


@pytest.mark.service("jdk")
@pytest.mark.service("maven")
@pytest.mark.parametrize("number", range(4 if IS_SOAK else 2))
def test_nor_one_by_maven(desk: Desk, number: int) -> None:
    require_seen(desk, replace([*java().values()][number], command="mvn -o test"))
