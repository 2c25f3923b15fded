"""What a kernel says of the first process of a container, made up."""

from pathlib import Path

STATUS = {
    **dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"), "0" * 16),
    "NoNewPrivs": "1",
    "Seccomp": "2",
    "Seccomp_filters": "2",
    "Uid": "60900\t60900\t60900\t60900",
}


def proc_of(folder: Path, status: dict[str, str], *, shared: str = "", program: str = "") -> Path:
    """A /proc with one process in it."""
    for pid in ("7", "self"):
        (folder / pid / "ns").mkdir(parents=True)
        for name in ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts"):
            here = "1" if name == shared else pid
            (folder / pid / "ns" / name).symlink_to(f"{name}:[{here}]")
    lines = "".join(f"{name}:\t{value}\n" for name, value in status.items())
    (folder / "7" / "cmdline").write_text(f"{program}\0boot\0")
    (folder / "7" / "status").write_text(lines)
    return folder
