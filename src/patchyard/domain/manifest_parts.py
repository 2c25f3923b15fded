"""Parts of manifests that package managers and hook managers run or obey: who says so of each."""

from collections.abc import Mapping

from patchyard.domain.protected_entry import ProtectedEntry, entry

NPM = "https://docs.npmjs.com/cli/configuring-npm/package-json"

PARTS: Mapping[str, tuple[ProtectedEntry, ...]] = {
    "package.json": (
        entry(
            "npm",
            "runs them as it installs",
            "https://docs.npmjs.com/cli/using-npm/scripts",
            "scripts",
        ),
        entry("npm", "links programs into the path of scripts", f"{NPM}#bin", "bin"),
        entry(
            "npm", "links programs of a folder likewise", f"{NPM}#directoriesbin", "directories.bin"
        ),
        entry("npm", "builds with node-gyp, or does not", f"{NPM}#gypfile", "gypfile"),
        entry("npm", "hands values to scripts", f"{NPM}#config", "config"),
        entry("npm", "installs and links those folders", f"{NPM}#workspaces", "workspaces"),
        entry(
            "npm", "checks the version of the package manager", f"{NPM}#devengines", "devEngines"
        ),
        entry(
            "Corepack",
            "fetches and runs that package manager",
            "https://nodejs.org/api/packages.html#packagemanager",
            "packageManager",
        ),
        entry(
            "Husky 4",
            "runs git hooks",
            "https://github.com/typicode/husky/tree/v4.3.8#readme",
            "husky",
        ),
        entry(
            "simple-git-hooks",
            "runs git hooks",
            "https://github.com/toplenboren/simple-git-hooks",
            "simple-git-hooks",
        ),
        entry("yorkie", "runs git hooks", "https://github.com/yyx990803/yorkie", "gitHooks"),
        entry(
            "pre-commit of npm",
            "runs git hooks",
            "https://github.com/observing/pre-commit",
            "pre-commit",
            "precommit",
        ),
        entry("pre-push", "runs git hooks", "https://github.com/dflourusso/pre-push", "pre-push"),
        entry(
            "githook-prepush",
            "runs git hooks",
            "https://www.npmjs.com/package/prepush-githook",
            "prepush",
        ),
        entry(
            "lint-staged",
            "runs commands before commits",
            "https://github.com/lint-staged/lint-staged#configuration",
            "lint-staged",
        ),
        entry(
            "commitlint",
            "loads modules before commits",
            "https://commitlint.js.org/reference/configuration.html",
            "commitlint",
        ),
        entry(
            "Bun",
            "lets these packages run scripts",
            "https://bun.sh/docs/pm/lifecycle",
            "trustedDependencies",
        ),
        entry(
            "Yarn",
            "lets these packages run scripts",
            "https://yarnpkg.com/configuration/manifest#dependenciesMeta",
            "dependenciesMeta",
        ),
        entry(
            "pnpm",
            "lets packages run scripts, patches and replaces them",
            "https://pnpm.io/settings",
            "pnpm",
        ),
        entry(
            "allow-scripts",
            "lets these packages run scripts",
            "https://github.com/dominykas/allow-scripts",
            "allowScripts",
        ),
        entry(
            "LavaMoat",
            "lets these packages run scripts",
            "https://github.com/LavaMoat/LavaMoat/tree/main/packages/allow-scripts",
            "lavamoat",
        ),
        entry(
            "Volta",
            "fetches and runs these versions",
            "https://docs.volta.sh/reference/pin/",
            "volta",
        ),
    ),
    "composer.json": (
        entry(
            "Composer",
            "runs them as it installs",
            "https://getcomposer.org/doc/articles/scripts.md",
            "scripts",
        ),
        entry(
            "Composer",
            "links programs into the path of scripts",
            "https://getcomposer.org/doc/articles/vendor-binaries.md",
            "bin",
        ),
        entry(
            "Composer",
            "lets plugins run, names folders and keys",
            "https://getcomposer.org/doc/06-config.md",
            "config",
        ),
        entry(
            "Composer",
            "asks them for packages",
            "https://getcomposer.org/doc/05-repositories.md",
            "repositories",
        ),
        entry(
            "Composer Git Hooks",
            "runs git hooks",
            "https://github.com/BrainMaestro/composer-git-hooks",
            "extra.hooks",
        ),
    ),
}
"""What counts whatever it says, by manifest; the patterns are keys, a dot goes into a table."""

DEPENDENCIES: tuple[ProtectedEntry, ...] = (
    entry("npm", "installs it", f"{NPM}#dependencies", "dependencies"),
    entry("npm", "installs it", f"{NPM}#devdependencies", "devDependencies"),
    entry("npm", "installs it", f"{NPM}#optionaldependencies", "optionalDependencies"),
    entry("npm", "installs it", f"{NPM}#peerdependencies", "peerDependencies"),
    entry("npm", "packs it", f"{NPM}#bundledependencies", "bundleDependencies"),
    entry("npm", "installs it in the place of another", f"{NPM}#overrides", "overrides"),
    entry(
        "Yarn",
        "installs it in the place of another",
        "https://yarnpkg.com/configuration/manifest#resolutions",
        "resolutions",
    ),
    entry(
        "Bun",
        "installs what refers to it",
        "https://bun.sh/docs/pm/catalogs",
        "catalog",
        "catalogs",
    ),
)
"""What counts, in either manifest, where it names a folder, a repository or an address."""

__all__ = ["DEPENDENCIES", "PARTS"]
