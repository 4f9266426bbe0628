"""What an operator said outlives the daemon it was said to."""

import json
import signal

import pytest

from tests.fakes.wire.client import Client, running_daemon
from tests.schedulerd.control.commands import ctl, load_of

SAID = {"version": 1, "gpus": {"GPU-1": {"drained": True}}}


@pytest.fixture
def daemon(tmp_path):
    with running_daemon(tmp_path, "--side-by-side=never", "--log-level=info") as one:
        yield one


def again(daemon, *flags, number=signal.SIGKILL):
    daemon.end(number)
    daemon.flags = (*daemon.flags, *flags)
    daemon.start()
    return status_of(daemon)


def status_of(daemon):
    return json.loads(ctl(daemon, "status", "--json").stdout)


def gpus_of(status):
    return {gpu["uuid"]: gpu for gpu in status["gpus"]}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_what_was_said_holds_for_the_next_daemon(daemon, number):
    Client(daemon.socket, container="a", gpus="GPU-1,GPU-2,GPU-3")
    for words in (["policy", "rr"], ["drain", "GPU-1", "--now"], ["drain", "GPU-2"], ["quantum", "30s", "GPU-3"]):
        assert ctl(daemon, *words).returncode == 0
    status = again(daemon, number=number)
    gpus = gpus_of(status)

    assert status["daemon"]["policy"] == "rr"
    assert (str(gpus["GPU-1"]["paused"]), str(gpus["GPU-3"]["quantum_ms"])) == ("drained", "30000")
    assert [gpu.drained for gpu in load_of(daemon).gpus] == [True, True, False]


def test_a_holder_that_comes_back_to_a_card_drained_at_once_does_not_go_on(daemon):
    a = Client(daemon.socket, container="a")
    a.want()
    turn = a.hear("grant").words["turn"]
    ctl(daemon, "drain", "GPU-1", "--now")
    a.hear("yield")
    again(daemon)
    back = Client(daemon.socket, container="a", holding=f"{turn}@GPU-1")
    back.hear("revoked")
    back.want()

    assert back.next(within=0.2) is None


def test_what_was_taken_back_is_not_said_again(daemon):
    Client(daemon.socket, container="a")
    for words in (["policy", "rr"], ["drain", "GPU-1", "--now"], ["quantum", "30s"]):
        ctl(daemon, *words)
    for words in (["policy", "fair"], ["resume", "GPU-1"], ["quantum", "auto"]):
        ctl(daemon, *words)

    assert not daemon.control.with_suffix(".steering").exists()
    assert again(daemon)["daemon"]["policy"] == "fair"


def test_a_setting_that_was_changed_since_goes_before_what_was_said(daemon):
    ctl(daemon, "policy", "rr")

    assert again(daemon, "--policy=priority")["daemon"]["policy"] == "priority"
    assert again(daemon, "--policy=fair")["daemon"]["policy"] == "fair"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty, as after a power cut"),
        pytest.param("\x00\xff", id="no text"),
        pytest.param("[]", id="no object"),
        pytest.param(json.dumps({**SAID, "version": 2}), id="another version"),
        pytest.param(json.dumps({"gpus": SAID["gpus"]}), id="no version"),
        pytest.param(json.dumps({**SAID, "policy": {"set": "fair", "said": "lottery"}}), id="an unknown policy"),
        pytest.param(json.dumps({**SAID, "quantum": {"set": None, "said": 1e9}}), id="a quantum beyond all bounds"),
        pytest.param(json.dumps({**SAID, "quantum": 5}), id="a quantum of another form"),
        pytest.param(json.dumps({"version": 1, "gpus": {"GPU-1": {"drained": "yes"}}}), id="drained, but how"),
        pytest.param(json.dumps({"version": 1, "gpus": {"GPU-1": {"paused": "tired"}}}), id="an unknown state"),
        pytest.param(json.dumps({"version": 1, "gpus": ["GPU-1"]}), id="a list of GPUs"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_and_passed_over_whole(tmp_path, text):
    (tmp_path / "control.steering").write_text(text, encoding="latin-1")
    with running_daemon(tmp_path) as daemon:
        status = status_of(daemon)
        assert (status["daemon"]["policy"], gpus_of(status)) == ("fair", {})
        assert daemon.log().count("control.steering cannot be read") == 1
        assert "Traceback" not in daemon.log()
