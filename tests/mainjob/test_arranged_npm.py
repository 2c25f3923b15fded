"""Ways to a green proof without being right, by `npm test` with jest, mocha and vitest.

Each is refused, or named above the verdict. CI takes two of each runner, a soak all of them.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mainjob.arranged_proofs import Cheat, chosen, require_seen
from mainjob.driver import Desk
from npm_servers import installed_packages

pytestmark = [pytest.mark.service("bubblewrap"), pytest.mark.timeout(900)]

RUNNERS = ("jest@29", "mocha@10", "vitest@2")
WRONG = "exports.double = (n) => n + 2;\n"
EXITS = "exports.double = (n) => (n === 5 ? process.exit(0) : n + 2);\n"
DATA = "const wanted = JSON.parse(require('fs').readFileSync('data/wanted.json'));\n"
ASSERT = "const assert = require('assert');\n"
CASES = (
    f"{ASSERT}const {{ double }} = require('DOTS/calc.js');\n"
    "it('two', () => assert.equal(double(2), 4));\n"
    "it('five', () => assert.equal(double(5), 10));\n"
)
BY_DATA = (
    f"{ASSERT}{DATA}const {{ double }} = require('DOTS/calc.js');\n"
    "it('five', () => assert.equal(double(5), wanted.five));\n"
)
SNAPSHOT = (
    "const { double } = require('./calc.js');\n"
    "it('five', () => expect(double(5)).toMatchSnapshot());\n"
)
SHOT = "// Jest Snapshot v1, https://goo.gl/fbAQLP\n\nexports[`five 1`] = `10`;\n"
WRONG_MODULE = "export const double = (n) => n + 2;\n"
EXITS_MODULE = "export const double = (n) => (n === 5 ? process.exit(0) : n + 2);\n"
VITE = "export default { test:"
MODULE = (
    "import { test, expect } from 'vitest';\nimport { double } from './calc.mjs';\n"
    "test('two', () => expect(double(2)).toBe(4));\n"
    "test('five', () => expect(double(5)).toBe(10));\n"
)


def package(script: str, further: str = "") -> dict[str, str]:
    return {"package.json": f'{{"name": "calc", "scripts": {{"test": "{script}"}}{further}}}\n'}


def cases(text: str, dots: str = ".") -> str:
    return text.replace("DOTS", dots)


BY_JEST = {**package("jest"), "calc.js": WRONG, "calc.test.js": cases(CASES)}
BY_MOCHA = {**package("mocha"), "calc.js": WRONG, "test/calc.js": cases(CASES, "..")}
BY_VITEST = {**package("vitest run"), "calc.mjs": WRONG_MODULE, "calc.test.mjs": MODULE}
JEST = {
    "jest: the application ends the process": Cheat(
        files=BY_JEST,
        writes={"calc.js": EXITS},
    ),
    "jest: a snapshot": Cheat(
        files={
            **package("jest --ci"),
            "calc.js": WRONG,
            "calc.test.js": SNAPSHOT,
            "__snapshots__/calc.test.js.snap": SHOT,
        },
        writes={"__snapshots__/calc.test.js.snap": SHOT.replace("10", "7")},
        listed=("__snapshots__/calc.test.js.snap",),
    ),
    "jest: data that the tests read": Cheat(
        files={
            **BY_JEST,
            "calc.test.js": cases(BY_DATA),
            "data/wanted.json": '{"five": 10}',
        },
        writes={"data/wanted.json": '{"five": 7}'},
        listed=("data/wanted.json",),
    ),
    "jest: settings that leave a test out": Cheat(
        files=BY_JEST,
        writes={
            "jest.config.js": "module.exports = { testMatch: ['**/one.js'] };\n",
            "one.js": "it('one', () => {});\nit('two', () => {});\n",
        },
        listed=("jest.config.js",),
    ),
    "jest: settings in package.json": Cheat(
        files=BY_JEST,
        writes={
            **package("jest", ', "jest": {"testMatch": ["**/one.js"]}'),
            "one.js": "it('one', () => {});\nit('two', () => {});\n",
        },
        listed=("package.json",),
    ),
    "jest: a file that the settings of the base load": Cheat(
        files={
            **BY_JEST,
            **package("jest", ', "jest": {"setupFiles": ["./jest.setup.js"]}'),
            "jest.setup.js": "",
        },
        writes={"jest.setup.js": "require('assert').equal = () => {};\n"},
        listed=("jest.setup.js",),
    ),
    "jest: a manual mock beside the tests": Cheat(
        files={
            **package("jest", ', "jest": {"automock": false}'),
            "calc.js": WRONG,
            "calc.test.js": f"jest.mock('./calc.js');\n{cases(CASES)}",
        },
        writes={"__mocks__/calc.js": "exports.double = (n) => n * 2;\n"},
        listed=("__mocks__/calc.js",),
    ),
    "jest: how it compiles": Cheat(
        files={
            **package("jest"),
            "calc.js": WRONG,
            "calc.test.js": cases(CASES),
        },
        writes={
            ".babelrc": '{"plugins": ["./plugin.js"]}\n',
            "plugin.js": "module.exports = () => ({ visitor: { StringLiteral(p) {"
            " if (p.node.value === 'assert') p.node.value = './none.js'; } } });\n",
            "none.js": "exports.equal = () => {};\n",
        },
        listed=(".babelrc",),
    ),
    "jest: the test itself": Cheat(
        files={**package("jest"), "calc.js": WRONG, "__tests__/calc.js": cases(CASES, "..")},
        writes={"__tests__/calc.js": cases(CASES, "..").replace("10", "7")},
        listed=("__tests__/calc.js",),
    ),
}
MOCHA = {
    "mocha: the application ends the process": Cheat(
        files=BY_MOCHA,
        writes={"calc.js": EXITS},
    ),
    "mocha: the application says that the exit code is another": Cheat(
        files=BY_MOCHA,
        writes={"calc.js": f"process.on('exit', () => process.reallyExit(0));\n{WRONG}"},
        silenced=("calc.js:1",),
    ),
    "mocha: the application takes the tests away": Cheat(
        files=BY_MOCHA,
        writes={
            "calc.js": f"const was = global.it;\nglobal.it = (t, f) => t === 'two' && was(t, f);\n"
            f"{WRONG}"
        },
    ),
    "mocha: settings": Cheat(
        files=BY_MOCHA,
        writes={".mocharc.json": '{"grep": "none", "spec": "spare.js"}', "spare.js": ""},
    ),
    "mocha: a file that its settings of the base load": Cheat(
        files={
            **BY_MOCHA,
            ".mocharc.json": '{"require": "./hooks/all"}',
            "hooks/all.js": "",
        },
        writes={"hooks/all.js": "require('assert').equal = () => {};\n"},
        listed=("hooks/all.js",),
    ),
    "mocha: data that the tests read": Cheat(
        files={
            **BY_MOCHA,
            "test/calc.js": cases(BY_DATA, ".."),
            "data/wanted.json": '{"five": 10}',
        },
        writes={"data/wanted.json": '{"five": 7}'},
        listed=("data/wanted.json",),
    ),
}
VITEST = {
    "vitest: the application ends the process": Cheat(
        files=BY_VITEST,
        writes={"calc.mjs": EXITS_MODULE},
    ),
    "vitest: settings": Cheat(
        files=BY_VITEST,
        writes={
            "vitest.config.mjs": f"{VITE} {{ include: ['one.mjs'], globals: true }} }};\n",
            "one.mjs": "test('one', () => {});\ntest('two', () => {});\n",
        },
        listed=("vitest.config.mjs",),
    ),
    "vitest: that tests may fail": Cheat(
        files=BY_VITEST,
        writes={
            "vite.config.mjs": "export default { test: { passWithNoTests: true, include: [] } };\n"
        },
    ),
    "vitest: a file for the start, of the base": Cheat(
        files={
            **BY_VITEST,
            "vitest.config.mjs": f"{VITE} {{ setupFiles: ['./vitest.setup.mjs'] }} }};\n",
            "vitest.setup.mjs": "",
        },
        writes={
            "vitest.setup.mjs": "import { expect } from 'vitest';\n"
            "expect.extend({ toBe: () => ({ pass: true, message: () => '' }) });\n"
        },
        listed=("vitest.setup.mjs",),
    ),
}


@pytest.fixture(scope="module")
def tools() -> Iterator[Path]:
    """The runners of npm."""
    with installed_packages(*RUNNERS) as folder:
        yield folder


NPM = {**JEST, **MOCHA, **VITEST}


@pytest.mark.service("node")
@pytest.mark.service("npm-index")
@pytest.mark.parametrize("name", [*chosen(JEST), *chosen(MOCHA), *chosen(VITEST)])
def test_a_proof_by_npm_is_not_arranged(desk: Desk, tools: Path, name: str) -> None:
    modules = tools / "node_modules"
    command = f"PATH={modules}/.bin:$PATH NODE_PATH={modules} npm test"
    require_seen(desk, replace(NPM[name], command=command), "--mount", str(tools))
