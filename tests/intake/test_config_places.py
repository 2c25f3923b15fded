import pytest

from patchyard.config import places
from patchyard.domain.errors import UsageError


@pytest.mark.parametrize("name", ["PATCHYARD_HOME", "WORKSPACE_DIR"])
def test_a_home_of_nobody_is_named_with_its_variable(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} is ~nobody-at-all/x, and there is no such user"):
        places({"HOME": "/nowhere", name: "~nobody-at-all/x"})
