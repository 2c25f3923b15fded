"""Settings of package managers and build wrappers that name programs, scripts and indexes."""

from patchyard.domain.protected_entry import ProtectedEntry, entry

PACKAGE_SETTINGS: tuple[ProtectedEntry, ...] = (
    # package managers: settings that name programs or indexes, and what they run at an install
    entry(
        "npm",
        "reads indexes, shells and scripts' settings",
        "https://docs.npmjs.com/cli/configuring-npm/npmrc",
        ".npmrc",
    ),
    entry(
        "npm",
        "runs node-gyp at an install",
        "https://docs.npmjs.com/cli/using-npm/scripts#npm-install",
        "binding.gyp",
    ),
    entry(
        "Yarn",
        "runs the release and the plugins it names",
        "https://yarnpkg.com/configuration/yarnrc",
        ".yarnrc",
        ".yarnrc.y*ml",
        ".yarn/releases/*",
        ".yarn/plugins/*",
        ".yarn/sdks/*",
    ),
    entry(
        "Yarn",
        "runs it before each program",
        "https://yarnpkg.com/features/pnp",
        ".pnp.cjs",
        ".pnp.js",
        ".pnp.loader.mjs",
    ),
    entry(
        "pnpm",
        "runs it at an install",
        "https://pnpm.io/pnpmfile",
        ".pnpmfile.cjs",
        ".pnpmfile.mjs",
    ),
    entry(
        "pnpm",
        "reads which packages may run scripts",
        "https://pnpm.io/settings",
        "pnpm-workspace.y*ml",
    ),
    entry(
        "pnpm",
        "reads scripts in the place of package.json's",
        "https://pnpm.io/package_json",
        "package.yaml",
        "package.json5",
    ),
    entry(
        "Bun",
        "runs preload and reads indexes",
        "https://bun.com/docs/runtime/bunfig",
        "bunfig.toml",
        ".bunfig.toml",
    ),
    entry(
        "pip",
        "reads indexes",
        "https://pip.pypa.io/en/stable/topics/configuration/",
        "pip.conf",
        "pip.ini",
    ),
    entry(
        "uv", "reads indexes", "https://docs.astral.sh/uv/concepts/configuration-files/", "uv.toml"
    ),
    entry(
        "twine",
        "reads indexes and passwords",
        "https://packaging.python.org/en/latest/specifications/pypirc/",
        ".pypirc",
    ),
    entry(
        "conda",
        "reads channels",
        "https://docs.conda.io/projects/conda/en/stable/user-guide/configuration/use-condarc.html",
        ".condarc",
    ),
    entry(
        "Cargo",
        "runs wrappers, linkers and aliases",
        "https://doc.rust-lang.org/cargo/reference/config.html",
        ".cargo/config*",
    ),
    entry(
        "rustup",
        "runs the toolchain it names, by path too",
        "https://rust-lang.github.io/rustup/overrides.html",
        "rust-toolchain",
        "rust-toolchain.toml",
    ),
    entry(
        "Bundler",
        "reads indexes, paths and hooks",
        "https://bundler.io/man/bundle-config.1.html",
        ".bundle/config",
        ".bundle/plugin/*",
    ),
    entry(
        "NuGet",
        "reads indexes",
        "https://learn.microsoft.com/nuget/reference/nuget-config-file",
        "nuget.config",
    ),
    entry(
        "Maven", "reads options and extensions", "https://maven.apache.org/configure.html", ".mvn/*"
    ),
    entry(
        "Gradle",
        "runs the distribution it names",
        "https://docs.gradle.org/current/userguide/gradle_wrapper.html",
        "gradle/wrapper/*",
    ),
    entry(
        "Bazelisk",
        "runs it in the place of Bazel",
        "https://github.com/bazelbuild/bazelisk",
        "tools/bazel",
        ".bazeliskrc",
        ".bazelversion",
    ),
    entry(
        "Bazel",
        "runs workspace_status_command and wrappers",
        "https://bazel.build/run/bazelrc",
        ".bazelrc",
    ),
)

__all__ = ["PACKAGE_SETTINGS"]
