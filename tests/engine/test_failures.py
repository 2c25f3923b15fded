"""What the journal keeps of an error that ended a phase."""

from pathlib import Path

from patchyard.domain.errors import PatchyardError
from patchyard.domain.plan import Phase
from patchyard.engine.lifecycle import KEPT, failure_of


def test_details_stay_lists_and_numbers_and_are_bounded() -> None:
    details = {
        "known": ["a", "b"],
        "spent": {"steps": 3},
        "limit": 2.5,
        "names": {"z", "y"},
        "path": Path("/x"),
        "nothing": None,
        "output": "x" * KEPT + "the cause",
        "many": ["name"] * KEPT,
    }
    kept = failure_of(Phase.EXECUTE, PatchyardError("m", details=details)).details
    assert (kept["known"], kept["spent"], kept["limit"]) == (["a", "b"], {"steps": 3}, 2.5)
    assert (kept["names"], kept["path"], kept["nothing"]) == (["y", "z"], "/x", None)
    assert (len(kept["output"]), kept["output"][-9:]) == (KEPT, "the cause")
    assert len(kept["many"]) == KEPT
