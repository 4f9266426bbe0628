"""The Lease of a rotation, and the folder of a pair."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from webhook.certs.core import lease
from webhook.certs.keeper import into_folder

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def held(by: str, *, ago: float, seconds: float = 30) -> lease.Spec:
    return lease.claim({}, by, now=NOW - timedelta(seconds=ago), seconds=seconds)


@pytest.mark.parametrize(
    ("spec", "holder"),
    [
        pytest.param({}, "", id="nobody ever held it"),
        pytest.param(held("me", ago=5), "", id="we hold it"),
        pytest.param(held("other", ago=5), "other", id="another one holds it"),
        pytest.param(held("other", ago=31), "", id="another one held it and died"),
        pytest.param(lease.free(held("other", ago=5), now=NOW), "", id="another one let go of it"),
        pytest.param({"holderIdentity": "other", "renewTime": "soon"}, "", id="what it says cannot be read"),
    ],
)
def test_another_holder_of_the_lease_is_named(spec: lease.Spec, holder: str) -> None:
    assert lease.holder(spec, "me", now=NOW) == holder


def test_keeping_the_lease_is_no_transition_and_taking_it_is() -> None:
    first = held("other", ago=60)
    taken = lease.claim(first, "me", now=NOW, seconds=30)
    kept = lease.claim(taken, "me", now=NOW + timedelta(seconds=10), seconds=30)

    assert (first["leaseTransitions"], taken["leaseTransitions"], kept["leaseTransitions"]) == (1, 2, 2)
    assert kept["acquireTime"] == taken["acquireTime"] != kept["renewTime"]


def test_a_pair_changes_in_one_step_and_the_one_before_is_gone(tmp_path: Path) -> None:
    deliver = into_folder(tmp_path / "pair")
    deliver(b"first certificate", b"first key")
    before = (tmp_path / "pair" / "..data").resolve()
    deliver(b"second certificate", b"second key")

    folder = (tmp_path / "pair" / "..data").resolve()
    assert (folder / "tls.crt").read_bytes() == (tmp_path / "pair" / "tls.crt").read_bytes() == b"second certificate"
    assert (tmp_path / "pair" / "tls.key").stat().st_mode & 0o777 == 0o600
    assert not before.exists()
