"""When the plugin starts a new server and registers: a table of what is seen."""

import pytest

from deviceplugin.core.registration import (
    Cause,
    RegistrationState,
    Seen,
    cause_to_renew,
    lose,
    registered,
    tried,
)

KUBELET, ANOTHER = (1, 10, 100), (1, 11, 200)
NEW = RegistrationState()
SETTLED = registered(tried(NEW, KUBELET), KUBELET, now=0.0)
FAILED = lose(tried(NEW, KUBELET), Cause.REGISTER_FAILED, now=0.0)


@pytest.mark.parametrize(
    ("state", "seen", "now", "expected"),
    [
        pytest.param(NEW, Seen(kubelet=None), 0.0, None, id="no kubelet: wait"),
        pytest.param(NEW, Seen(kubelet=KUBELET), 0.0, Cause.FIRST, id="a kubelet: register at once"),
        pytest.param(SETTLED, Seen(kubelet=KUBELET, opened=1, open_now=1), 99.0, None, id="it listens: all is well"),
        pytest.param(SETTLED, Seen(kubelet=KUBELET), 5.0, None, id="it has not listened yet: patience"),
        pytest.param(SETTLED, Seen(kubelet=KUBELET), 20.0, Cause.STREAM_NEVER_CAME, id="it never listened"),
        pytest.param(SETTLED, Seen(kubelet=KUBELET, opened=1), 5.0, Cause.STREAM_ENDED, id="it listens no more"),
        pytest.param(SETTLED, Seen(kubelet=KUBELET, opened=2, open_now=1), 5.0, None, id="an older stream ended"),
        pytest.param(SETTLED, Seen(kubelet=ANOTHER, opened=1, open_now=1), 5.0, Cause.KUBELET_RESTARTED, id="another"),
        pytest.param(
            SETTLED,
            Seen(kubelet=KUBELET, own_socket=False, opened=1, open_now=1),
            5.0,
            Cause.SOCKET_REMOVED,
            id="our socket's file is gone",
        ),
        pytest.param(SETTLED, Seen(kubelet=None, own_socket=False), 99.0, None, id="the folder is gone: wait for one"),
        pytest.param(FAILED, Seen(kubelet=KUBELET), 0.05, None, id="refused just now: not at once again"),
        pytest.param(FAILED, Seen(kubelet=KUBELET), 0.2, Cause.REGISTER_FAILED, id="refused: again a little later"),
        pytest.param(FAILED, Seen(kubelet=ANOTHER), 0.0, Cause.REGISTER_FAILED, id="another kubelet is told at once"),
    ],
)
def test_cause_to_renew(state: RegistrationState, seen: Seen, now: float, expected: Cause | None) -> None:
    assert cause_to_renew(state, seen, now=now) is expected


@pytest.mark.parametrize(("refusals", "wait"), [(1, 0.1), (2, 0.2), (3, 0.4), (4, 0.8), (10, 10.0), (2000, 10.0)])
def test_each_refused_registration_waits_longer(refusals: int, wait: float) -> None:
    state = tried(NEW, KUBELET)
    for _ in range(refusals):
        state = lose(state, Cause.REGISTER_FAILED, now=0.0)

    assert state.not_before == wait


def test_a_failure_after_a_steady_time_counts_as_the_first() -> None:
    often = lose(lose(SETTLED, Cause.STREAM_ENDED, now=1.0), Cause.REGISTER_FAILED, now=1.0)
    steady = registered(often, KUBELET, now=2.0)

    assert often.not_before > 1.0
    assert lose(steady, Cause.STREAM_ENDED, now=100.0).not_before == 100.0
