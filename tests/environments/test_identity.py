import pytest

from patchyard.clients.identity import FIRST_UID, LAST_UID, choose_identity
from patchyard.domain.errors import EnvironmentUnavailable


def nobody_known(uid: int) -> bool:
    return uid == 0


def test_an_ordinary_engine_is_the_agent_itself() -> None:
    identity = choose_identity((1000, 100), checkout_owner=1000, has_account=lambda _: True)
    assert (identity.uid, identity.gid, identity.is_switched) == (1000, 100, False)


def test_a_root_engine_takes_a_uid_without_an_account() -> None:
    identity = choose_identity(
        (0, 0), checkout_owner=0, has_account=lambda uid: uid in {0, FIRST_UID}
    )
    assert (identity.uid, identity.is_switched) == (FIRST_UID + 1, True)


def test_a_root_engine_never_takes_the_owner_of_the_checkout() -> None:
    identity = choose_identity((0, 0), checkout_owner=FIRST_UID, has_account=nobody_known)
    assert identity.uid not in {0, FIRST_UID}


@pytest.mark.parametrize("configured", [0, 1000, 33])
def test_a_configured_uid_that_breaks_the_rule_is_refused(configured: int) -> None:
    with pytest.raises(EnvironmentUnavailable) as refused:
        choose_identity(
            (0, 0),
            checkout_owner=1000,
            has_account=lambda uid: uid in {0, 33},
            configured=configured,
        )
    assert str(FIRST_UID) in refused.value.hint


def test_a_free_configured_uid_is_taken() -> None:
    identity = choose_identity(
        (0, 0), checkout_owner=1000, has_account=nobody_known, configured=70000
    )
    assert (identity.uid, identity.gid) == (70000, 70000)


def test_no_free_uid_is_an_error_that_says_so() -> None:
    with pytest.raises(EnvironmentUnavailable, match=str(LAST_UID)):
        choose_identity((0, 0), checkout_owner=None, has_account=lambda _: True)
