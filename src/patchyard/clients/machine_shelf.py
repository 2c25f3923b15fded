"""Where the files lie that virtual machines begin with, and how their names begin.

Knows neither QEMU nor how they are made: the janitor names them without either.
"""

KINDS = ("disk-", "initramfs-", "kvm-", "state-")
MACHINES = "vm"  # the folder of these, on the shelf of compiled toolboxes

__all__ = ["KINDS", "MACHINES"]
