"""Gates that come with us, by name: data alone. A configuration takes one with `use`, or names it.

Nothing here reaches a network, writes into the tree but for caches, or repairs what it finds.
"""

from collections.abc import Mapping

from patchyard.domain.gates import Gate, Reach, Reads, Severity

_PIP = "add it to setup: .venv/bin/python -m pip install {}"
_NPM = "add it to the development dependencies: npm install --save-dev {}"


def _python(name: str, command: str, reads: Reads, *, package: str) -> Gate:
    return Gate(name=name, command=command, reads=reads, cure=_PIP.format(package))


def _ruff(name: str, options: str) -> Gate:
    command = f"ruff check --no-cache{options} --output-format sarif --output-file {{report}} ."
    return _python(name, command, Reads.SARIF, package="ruff")


def _node(name: str, command: str, *, package: str = "") -> Gate:
    cure = _NPM.format(package or name)
    return Gate(name=name, command=command, reads=Reads.TEXT, exit_codes=_FOUND_2, cure=cure)


# What Go, tsc and the compiler of Rust end with, and mypy and ruff where syntax is wrong.
_FOUND_2 = (0, 1, 2)
_CARGO_CODES = (0, 1, 101)
# Each module of Maven writes a file a class: they are put together, with where sources lie. Tests
# that failed end no module here; whatever else ends Maven badly is no failed test.
_MVN = r"""find . -path '*/surefire-reports/TEST-*.xml' -delete
mvn -o -B -Dmaven.test.failure.ignore=true test > .git/patchyard-maven 2>&1
code=$?
cat .git/patchyard-maven
grep -qE 'The forked (VM|process) |error in the fork' .git/patchyard-maven && code=2
{ echo '<testsuites>'
  find . -name '*.java' -o -name '*.kt' -o -name '*.groovy' -o -name '*.scala' |
    sed 's/&/\&amp;/g; s/</\&lt;/g; s/.*/<source>&<\/source>/'
  find . -path '*/surefire-reports/TEST-*.xml' -exec sed '/^<?xml /d' {} +
  echo '</testsuites>'
} > {report}
exit $code"""


def _script(name: str, command: str, *, cure: str = "") -> Gate:
    """Return the gate of a test runner that `npm test` starts, told to write a report."""
    cure = cure or _NPM.format(name)
    return Gate(name=name, command=command, reads=Reads.JUNIT, is_tests=True, cure=cure)


_TABLE = (
    # tests
    Gate(
        name="pytest",
        command="python3 -m pytest -q -p no:cacheprovider -o junit_family=xunit1"
        " --junitxml={report}",
        reads=Reads.JUNIT,
        is_tests=True,
        cure=_PIP.format("pytest"),
    ),
    Gate(
        name="cargo-test",
        command="cargo test --offline --no-fail-fast --message-format short 2>&1",
        reads=Reads.CARGO_TEST,
        exit_codes=_CARGO_CODES,
        is_tests=True,
        cure="install cargo",
    ),
    Gate(
        name="go-test",
        command="go list -e -f"
        """ '{"ImportPath":{{printf "%q" .ImportPath}},"Dir":{{printf "%q" .Dir}}}' ./...;"""
        " go test -json ./... 2>&1",
        reads=Reads.GO_TEST,
        exit_codes=_FOUND_2,
        is_tests=True,
        cure="install go",
    ),
    Gate(name="npm-test", command="npm test", is_tests=True, cure="install Node.js"),
    _script(
        "node-test",
        'NODE_OPTIONS="--test-reporter=junit --test-reporter-destination={report}" npm test',
        cure="install Node.js, 20.11 or newer",
    ),
    _script("vitest", "npm test -- --run --reporter=junit --outputFile={report}"),
    _script(
        "jest",
        "JEST_JUNIT_OUTPUT_FILE={report} JEST_JUNIT_ADD_FILE_ATTRIBUTE=true"
        " npm test -- --ci --reporters=jest-junit",
        cure=_NPM.format("jest-junit"),
    ),
    _script(  # it ends with the number of failures
        "mocha", "npm test -- --reporter xunit --reporter-option output={report} || exit 1"
    ),
    Gate(
        name="mvn-test",
        command=_MVN,
        reads=Reads.JUNIT,
        exit_codes=(0,),
        is_tests=True,
        cure="install Maven",
    ),
    # lint
    _ruff("ruff", ""),
    Gate(
        name="eslint",
        command="eslint --format json --output-file {report} .",
        reads=Reads.JSON,
        cure=_NPM.format("eslint"),
        mapping={
            "items": "*.messages.*",
            "file": "filePath",
            "line": "line",
            "rule": "ruleId",
            "message": "message",
            "severity": "severity",
        },
    ),
    Gate(
        name="go-vet",
        command="go vet ./... 2>&1",
        reads=Reads.TEXT,
        exit_codes=_FOUND_2,
        cure="install go",
    ),
    Gate(
        name="clippy",
        command="cargo clippy --offline --quiet --all-targets --message-format short 2>&1",
        reads=Reads.TEXT,
        exit_codes=_CARGO_CODES,
        cure="rustup component add clippy",
    ),
    Gate(
        name="javac",
        command="JDK_JAVAC_OPTIONS=-Xlint:all mvn -o -B test-compile -Dmaven.compiler.fork=true"
        " -Dmaven.compiler.showWarnings=true",
        reads=Reads.TEXT,
        cure="install Maven and a JDK",
    ),
    # format
    Gate(
        name="ruff-format",
        command="ruff format --no-cache --check .",
        reads=Reads.TEXT,
        exit_codes=_FOUND_2,
        cure=_PIP.format("ruff"),
    ),
    _python("black", "black --check . 2>&1", Reads.TEXT, package="black"),
    _node("prettier", "prettier --check . 2>&1"),
    Gate(
        name="gofmt",
        command="gofmt -l . 2>&1",
        reads=Reads.TEXT,
        exit_codes=_FOUND_2,
        cure="install go",
    ),
    Gate(
        name="rustfmt",
        command="cargo fmt --check -- -l 2>&1",
        reads=Reads.TEXT,
        cure="rustup component add rustfmt",
    ),
    # types
    Gate(
        name="mypy",
        command="mypy --no-incremental --output json .",
        reads=Reads.JSON,
        mapping={
            "file": "file",
            "line": "line",
            "rule": "code",
            "message": "message",
            "severity": "severity",
        },
        severity=Severity.WARNING,  # its notes belong to an error
        exit_codes=_FOUND_2,
        cure=_PIP.format("mypy"),
    ),
    _node("tsc", "tsc --noEmit --pretty false", package="typescript"),
    # coverage of the changed lines; what never runs is found below packages and named folders alone
    Gate(
        name="coverage",
        command="python3 -m coverage run --data-file=.git/patchyard-coverage --source=."
        "$(test -d src && echo ,src) -m pytest -q -p no:cacheprovider;"
        " python3 -m coverage xml --data-file=.git/patchyard-coverage -q -o {report}",
        reads=Reads.COVERAGE,
        scope=Reach.CHANGED,
        cure=_PIP.format("coverage pytest"),
    ),
    # complexity
    _ruff("complexity", " --isolated --select C901"),
    # security
    Gate(
        name="bandit",
        command="bandit --quiet --recursive --format json --output {report}"
        " --exclude ./.venv,./.git,./test,./tests .",
        reads=Reads.JSON,
        mapping={
            "items": "results.*",
            "file": "filename",
            "line": "line_number",
            "rule": "test_id",
            "message": "issue_text",
            "severity": "issue_severity",
        },
        severity=Severity.WARNING,
        cure=_PIP.format("bandit"),
    ),
    _ruff("ruff-security", " --isolated --select S --ignore S101"),
    Gate(
        name="semgrep",
        command="semgrep scan --config .semgrep --metrics off --disable-version-check --quiet"
        " --sarif --output {report} .",
        reads=Reads.SARIF,
        from_base=(".semgrep/*",),
        cure=_PIP.format("semgrep"),
    ),
    Gate(name="secrets", reads=Reads.SECRETS),
    Gate(name="licences", reads=Reads.LICENCES),
    # known holes of dependencies, from what lies on this machine
    Gate(
        name="audit",
        reads=Reads.ADVISORIES,
        severity=Severity.WARNING,
        cure="lay the zip files of osv.dev for your ecosystems into `advisories` in PATCHYARD_HOME",
    ),
    # documentation
    _python(
        "sphinx",
        "python3 -m sphinx -q -W --keep-going -b html docs .git/patchyard-docs",
        Reads.EXIT,
        package="sphinx",
    ),
    _python(
        "mkdocs",
        "mkdocs build --strict --site-dir .git/patchyard-docs",
        Reads.EXIT,
        package="mkdocs",
    ),
    # what it costs: the configuration names the command
    Gate(name="performance", reads=Reads.TIME, repeats=3, cure="install what the command needs"),
)

SHIPPED: Mapping[str, Gate] = {gate.name: gate for gate in sorted(_TABLE, key=lambda g: g.name)}

__all__ = ["SHIPPED"]
