"""Gates of JavaScript, Go, Rust and Java on real tools: planted defects count, old ones do not."""

import json
from collections.abc import Mapping

import pytest

from mainjob.driver import Answer, Desk, write
from mainjob.test_planted_defects import base, found, gates
from services import MAVEN, MAVEN_PLUGINS, need, rustup

pytestmark = [pytest.mark.service("bubblewrap"), pytest.mark.timeout(900)]  # compilers


def run(desk: Desk, files: Mapping[str, str]) -> Answer:
    """Let a developer write these files."""
    script = f"scripted:{desk.script(*(write(name, text) for name, text in files.items()))}"
    words = ("run", "a task", "--model", script, "--rounds", "0")
    return desk.agents(*words)


def detected(desk: Desk, files: Mapping[str, str]) -> dict[str, str]:
    """Commit these files, and switch on all gates that `agents init` finds for them."""
    base(desk, files)
    found: dict[str, str] = desk.agents("init").data["gates"]
    base(desk, {".patchyard/config.yaml": json.dumps({"gates": found})})
    return found


def old(said: Answer) -> dict[str, int]:
    return {name: row["old"] for name, row in gates(said).items() if row["old"]}


@pytest.fixture
def rust(desk: Desk) -> None:
    """Give the desk's user the toolchains of this machine."""
    need("rust")
    kept = rustup()
    if kept is not None:
        (desk.home / ".rustup").symlink_to(kept)


GO = {
    "go.mod": "module example.org/shop\n\ngo 1.19\n",
    "shop.go": (
        "package shop\n\n// Double returns twice n.\nfunc Double(n int) int {\n\treturn n * 2\n}\n"
    ),
    "shop_test.go": (
        'package shop\n\nimport "testing"\n\nfunc TestDouble(t *testing.T) {\n'
        '\tif got := Double(5); got != 10 {\n\t\tt.Errorf("got %d", got)\n\t}\n}\n'
    ),
    # What follows is wrong since long.
    "past/past.go": "package past\n\nfunc Same(n int) int {\n\tn = n\n\treturn  n\n}\n",
    "past/past_test.go": (
        'package past\n\nimport "testing"\n\nfunc TestSame(t *testing.T) {\n'
        '\tt.Run("one", func(t *testing.T) { t.Fatal("it never was") })\n}\n'
    ),
    "untyped/untyped.go": 'package untyped\n\nfunc None() int {\n\treturn "none"\n}\n',
}


@pytest.mark.service("go")
def test_defects_in_go_are_found_in_file_and_line_beside_old_ones(desk: Desk) -> None:
    known = detected(desk, GO)
    assert known.items() >= {"tests": "go-test", "lint": "go-vet", "format": "gofmt"}.items()

    past = ("past/past.go", "past/past_test.go", "untyped/untyped.go")
    said = run(
        desk,
        {
            **{name: GO[name].replace("\n\n", "\n\n// Moved.\n\n", 1) for name in past},
            "shop.go": GO["shop.go"].replace("n * 2", "n + 2"),
            "more/more.go": "package more\n\nfunc Same(n int) int {\n\tn = n\n\treturn  n\n}\n",
            "typed/typed.go": "package typed\n\nfunc One() int {\n\treturn true\n}\n",
        },
    )

    assert (said.code, said.data["state"]) == (1, "constrained"), said.message
    rows = gates(said)
    assert found(rows["tests"]) == {("shop_test.go", 7, "failed"), ("typed/typed.go", 4, "")}
    assert "example.org/shop.TestDouble: got 7" in {
        each["message"] for each in rows["tests"]["findings"]
    }
    assert found(rows["lint"]) == {("more/more.go", 4, ""), ("typed/typed.go", 4, "")}
    assert found(rows["format"]) == {("more/more.go", None, "")}
    assert old(said) == {"tests": 2, "lint": 2, "format": 1}


RUST = {
    "Cargo.toml": '[package]\nname = "shop"\nversion = "0.1.0"\nedition = "2021"\n',
    ".gitignore": "target/\n",
    "src/lib.rs": (
        "pub mod past;\n\npub fn double(n: i32) -> i32 {\n    n * 2\n}\n\n#[cfg(test)]\n"
        "mod tests {\n    #[test]\n    fn five() {\n"
        "        assert_eq!(super::double(5), 10);\n    }\n}\n"
    ),
    # What follows is wrong since long.
    "src/past.rs": (
        "pub fn same(n: i32) -> i32 {\n    return  n;\n}\n\n"
        "/// ```\n/// assert_eq!(shop::past::same(1), 2);\n/// ```\npub fn documented() {}\n"
    ),
    "tests/past.rs": "#[test]\nfn never() {\n    assert_eq!(shop::past::same(1), 2);\n}\n",
}


@pytest.mark.usefixtures("rust")
def test_defects_in_rust_are_found_in_file_and_line_beside_old_ones(desk: Desk) -> None:
    known = detected(desk, RUST)
    expected = {"tests": "cargo-test", "lint": "clippy", "format": "rustfmt"}
    assert known.items() >= expected.items()

    more = "pub fn more(n: i32) -> i32 {\n    return  n;\n}\n"
    wrong = RUST["src/lib.rs"].replace("n * 2", "n + 2").replace("past;", "past;\npub mod more;")
    said = run(desk, {"src/lib.rs": wrong, "src/more.rs": more})

    assert (said.code, said.data["state"]) == (1, "constrained"), said.message
    rows = gates(said)
    assert found(rows["tests"]) == {("src/lib.rs", 12, "failed")}
    assert "shop (src/lib.rs)::tests::five: assertion" in rows["tests"]["findings"][0]["message"]
    assert found(rows["lint"]) == {("src/more.rs", 2, "")}
    assert found(rows["format"]) == {("src/lib.rs", None, ""), ("src/more.rs", None, "")}
    assert old(said) == {"tests": 2, "lint": 1, "format": 1}

    moved = {name: f"// Moved.\n{RUST[name]}" for name in ("src/past.rs", "tests/past.rs")}
    said = run(desk, moved)
    assert said.code == 0, (said.message, said.data["validation"])
    assert old(said) == {"tests": 2, "lint": 1, "format": 1}

    wrong = RUST["src/lib.rs"].replace("n * 2", "true")
    said = run(desk, {"src/lib.rs": wrong})
    rows = gates(said)
    assert found(rows["tests"]) == found(rows["lint"]) == {("src/lib.rs", 4, "E0308")}
    assert rows["format"]["status"] == "passed"


@pytest.mark.usefixtures("rust")
def test_an_old_error_of_a_compiler_stops_only_what_needs_it_compiled(desk: Desk) -> None:
    base(desk, {**RUST, "src/lib.rs": RUST["src/lib.rs"].replace("n * 2", "true")})
    gates_ = {"tests": {"use": "cargo-test", "required": False}, "lint": "clippy"}
    base(desk, {".patchyard/config.yaml": json.dumps({"gates": gates_})})

    said = run(desk, {"README": "a shop\n"})

    assert said.code == 0, (said.message, said.data["validation"])
    rows = gates(said)
    assert (rows["lint"]["status"], rows["lint"]["old"]) == ("passed", 1)
    assert (rows["tests"]["status"], rows["tests"]["passed"]) == ("broken", False)
    assert "no test ran" in rows["tests"]["problem"]


JAVASCRIPT = {
    "package.json": '{"name": "shop", "type": "module", "scripts": {"test": "node --test"}}',
    "src/shop.js": "export function double(n) {\n  return n * 2;\n}\n",
    "test/shop.test.js": (
        'import assert from "node:assert";\nimport test from "node:test";\n'
        'import { double } from "../src/shop.js";\n\n'
        'test("five", () => {\n  assert.equal(double(5), 10);\n});\n\n'
        'test("never", () => {\n  assert.equal(double(1), 3);\n});\n'
    ),
}


@pytest.mark.service("node")
def test_a_failing_test_of_javascript_is_found_beside_an_old_one(desk: Desk) -> None:
    assert detected(desk, JAVASCRIPT)["tests"] == "node-test"
    wrong = JAVASCRIPT["src/shop.js"].replace("n * 2", "n + 3")

    said = run(desk, {"src/shop.js": wrong})

    assert (said.code, said.data["state"]) == (1, "constrained"), said.message
    assert found(gates(said)["tests"]) == {("test/shop.test.js", 6, "failed")}
    assert old(said) == {"tests": 1}

    said = run(desk, {"src/shop.js": "// Moved.\n" + JAVASCRIPT["src/shop.js"]})
    assert said.code == 0, (said.message, said.data["validation"])


TYPESCRIPT = {
    "package.json": '{"name": "shop", "private": true, "devDependencies": {"typescript": "^5"}}',
    ".gitignore": "node_modules/\n",
    "tsconfig.json": '{"compilerOptions": {"strict": true, "types": []}, "include": ["src"]}',
    "src/past.ts": 'export const one: number = "one";\n',  # wrong since long
}


@pytest.mark.service("node")
@pytest.mark.service("npm-index")
def test_a_type_error_of_typescript_is_found_beside_an_old_one(desk: Desk) -> None:
    assert detected(desk, TYPESCRIPT)["types"] == "tsc"
    moved = "// Moved.\n" + TYPESCRIPT["src/past.ts"]

    said = run(desk, {"src/past.ts": moved, "src/more.ts": "\nexport const a: string = 1;\n"})

    assert (said.code, said.data["state"]) == (1, "constrained"), said.message
    assert found(gates(said)["types"]) == {("src/more.ts", 2, "TS2322")}
    assert old(said) == {"types": 1}

    said = run(desk, {"src/past.ts": moved})
    assert said.code == 0, (said.message, said.data["validation"])


JAVA = {
    "Shop.java": (
        "package shop;\n\npublic class Shop {\n"
        "    public static int twice(int n) {\n        return 2 * n;\n    }\n}\n"
    ),
    "Past.java": (
        "package shop;\n\nimport java.util.List;\n\n"
        "class Past {\n    static List names;\n}\n"  # wrong since long
    ),
}
MORE = JAVA["Past.java"].replace("Past", "More")
SOURCES = "src/main/java/shop"
TESTS = "src/test/java/shop"
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>org.example</groupId>
  <artifactId>shop</artifactId>
  <version>1</version>
  <properties>
    <maven.compiler.source>11</maven.compiler.source>
    <maven.compiler.target>11</maven.compiler.target>
    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
  </properties>
  <dependencies>
    <dependency>
      <groupId>junit</groupId>
      <artifactId>junit</artifactId>
      <version>4.x</version>
      <scope>test</scope>
    </dependency>
  </dependencies>
  <build><pluginManagement><plugins>PLUGINS</plugins></pluginManagement></build>
</project>
"""
JUNIT = """package shop;

import org.junit.Assert;
import org.junit.Test;

public class ShopTest {
    @Test
    public void four() {
        Assert.assertEquals(4, Shop.twice(2));
    }

    @Test
    public void never() {
        Assert.assertEquals(5, Shop.twice(1));
    }
}
"""


@pytest.mark.service("jdk")
def test_what_javac_says_is_read_in_file_and_line(desk: Desk) -> None:
    gate = {
        "command": f"javac -Xlint:all -d .git/classes {SOURCES}/*.java 2>&1",
        "parser": "text",
    }
    settings = {".patchyard/config.yaml": json.dumps({"gates": {"lint": gate}})}
    base(desk, settings | {f"{SOURCES}/{name}": text for name, text in JAVA.items()})
    wrong = JAVA["Shop.java"].replace("2 * n", '"two"')

    moved = "// Moved.\n" + JAVA["Past.java"]
    said = run(desk, {f"{SOURCES}/More.java": MORE, f"{SOURCES}/Past.java": moved})
    assert found(gates(said)["lint"]) == {(f"{SOURCES}/More.java", 6, "rawtypes")}
    assert old(said) == {"lint": 1}

    said = run(desk, {f"{SOURCES}/Shop.java": wrong})
    assert found(gates(said)["lint"]) == {(f"{SOURCES}/Shop.java", 5, "")}


def maven() -> dict[str, str]:
    """A project of Maven whose plugins are those that lie on this machine."""
    kept = MAVEN / "org/apache/maven/plugins"
    versions = {name: max((kept / name).iterdir()).name for name in MAVEN_PLUGINS}
    plugins = "".join(
        f"<plugin><artifactId>{name}</artifactId><version>{version}</version></plugin>"
        for name, version in versions.items()
    )
    sources = {f"{SOURCES}/{name}": text for name, text in JAVA.items()}
    return {
        **sources,
        f"{TESTS}/ShopTest.java": JUNIT,
        ".mvn/maven.config": f"-Dmaven.repo.local={MAVEN}\n",
        ".mvn/jvm.config": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC\n",
        ".gitignore": "target/\n",
        "pom.xml": POM.replace("PLUGINS", plugins),
    }


@pytest.mark.service("jdk")
@pytest.mark.service("maven")
def test_defects_in_a_project_of_maven_are_found_beside_old_ones(desk: Desk) -> None:
    known = detected(desk, maven())
    assert known.items() >= {"tests": "mvn-test", "lint": "javac"}.items()

    said = run(
        desk,
        {
            f"{SOURCES}/Shop.java": JAVA["Shop.java"].replace("2 * n", "2 + n + 1"),
            f"{SOURCES}/More.java": MORE,
            f"{SOURCES}/Past.java": "// Moved.\n" + JAVA["Past.java"],
        },
    )

    assert (said.code, said.data["state"]) == (1, "constrained"), said.message
    rows = gates(said)
    assert found(rows["tests"]) == {(f"{TESTS}/ShopTest.java", 9, "failed")}
    assert found(rows["lint"]) == {(f"{SOURCES}/More.java", 6, "rawtypes")}
    assert old(said) == {"tests": 1, "lint": 1}
