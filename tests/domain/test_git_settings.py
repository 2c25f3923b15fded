"""Which files of a checkout git reads or runs by its settings."""

import pytest

from patchyard.domain.git_settings import GitSetting, obeyed


def named(key: str, value: str) -> set[str]:
    setting = GitSetting(key=key, value=value, file="/r/.git/config")
    return {each.path for each in obeyed([setting], home="/home/u")}


@pytest.mark.parametrize(
    ("key", "value", "path"),
    [
        ("init.templatedir", "tools/template", "tools/template"),
        ("gc.recentobjectshook", "tools/recent", "tools/recent"),
        ("gpg.ssh.defaultkeycommand", "tools/key", "tools/key"),
        ("remote.origin.uploadpack", "tools/pack", "tools/pack"),
        ("remote.origin.receivepack", "tools/pack", "tools/pack"),
        ("submodule.lib.update", "!tools/update", "tools/update"),
        ("tar.xz.command", "tools/pack", "tools/pack"),
        ("gpg.ssh.allowedsignersfile", "signers", "signers"),
        ("gpg.ssh.revocationfile", "revoked", "revoked"),
        ("http.sslcainfo", "ca.pem", "ca.pem"),
        ("http.https://h.example/.sslcapath", "ca", "ca"),
        ("http.proxysslcainfo", "ca.pem", "ca.pem"),
        ("receive.fsck.skiplist", "skipped", "skipped"),
        ("blame.ignorerevsfile", ":(optional)ignored", "ignored"),
    ],
)
def test_settings_that_name_programs_or_whom_git_believes_count(
    key: str, value: str, path: str
) -> None:
    assert path in named(key, value)


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("sh -c 'tools/x %f'", "tools/x"),
        ("sh -c 'cat; tools/x'", "tools/x"),
        ("!f() { tools/x; }; f", "tools/x"),
        ("tools/x;true", "tools/x"),
        ("bash -c 'exec \"$(git rev-parse --show-toplevel)/tools/x\" %f'", "tools/x"),
        ("$GIT_WORK_TREE/tools/x", "tools/x"),
        ("`pwd`/tools/x", "tools/x"),
        ("sh -e clean", "clean"),
        ("/usr/bin/python3.12 clean", "clean"),
        ("bash -c 'perl clean'", "clean"),
        ("python3 -I -m tools.clean %f", "tools/clean.py"),
        ("python3 -m tools.clean", "tools/clean"),
    ],
)
def test_programs_of_a_command_count_where_a_shell_would_find_them(command: str, path: str) -> None:
    assert path in named("filter.x.clean", command)


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("$HOME/bin/x", "bin/x"),
        ("${XDG_CONFIG_HOME}/git/x", "git/x"),
        ("git-lfs clean -- %f", "clean"),
        ("cat README", "README"),
    ],
)
def test_other_words_do_not(command: str, path: str) -> None:
    assert path not in named("filter.x.clean", command)
