"""How the pool of a worker stands, for other processes: told while it lives, and never after."""

import shutil
import subprocess
import sys
from pathlib import Path

from patchyard.clients.pool_boards import FOLDER, board, boards, pools_of
from patchyard.domain.pooling import PoolRow, PoolState

EMPTY = PoolState(worker="w", size=1, total=4)
SHOP = PoolRow(project="shop", ready=1)
DOCK = PoolRow(project="dock", making=1)
FULL = PoolState(worker="w", size=1, total=4, projects=(SHOP, DOCK))
DIES = """
import os, sys
from pathlib import Path
from patchyard.clients.pool_boards import board
from patchyard.domain.pooling import PoolState
with board(Path(sys.argv[1]), "dead") as show:
    show(PoolState(worker="dead", size=1, total=1))
    os._exit(9)
"""


def test_a_pool_is_seen_until_it_is_closed(tmp_path: Path) -> None:
    assert boards(tmp_path) == []
    with board(tmp_path, "one") as show:
        assert boards(tmp_path) == [], "nothing was told yet"
        show(EMPTY)
        assert [pool.said for pool in boards(tmp_path)] == [
            "nothing waits yet (1 a project, 4 in all)"
        ]
        show(FULL)
        assert boards(tmp_path) == [FULL]
        assert FULL.said == "shop 1 of 1 ready; dock 0 of 1 ready, 1 being made"
        (own,) = pools_of(tmp_path, "shop")
        assert own.projects == (SHOP,)
        assert pools_of(tmp_path, "other") == []
    assert boards(tmp_path) == []


def test_what_cannot_be_told_keeps_no_worker_from_its_work(tmp_path: Path) -> None:
    with board(tmp_path, "one") as show:
        shutil.rmtree(tmp_path / FOLDER)
        show(FULL)
        assert boards(tmp_path) == []


def test_what_a_killed_worker_told_is_removed(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", DIES, str(tmp_path)], check=False)
    assert done.returncode == 9
    assert list((tmp_path / FOLDER).iterdir())
    assert boards(tmp_path) == []
    assert not list((tmp_path / FOLDER).iterdir())
