"""Bad input to a command: one sentence of cause, a remedy, and exit code 2.  Keys are readable by their owner only."""

from pathlib import Path

import pytest

from webhook.__main__ import main

_ISSUE = ("certs", "issue", "--out", "{folder}/new")


@pytest.mark.parametrize(
    ("command", "says"),
    [
        pytest.param((*_ISSUE, "--days", "-5"), "--days", id="certificates that ended before they began"),
        pytest.param((*_ISSUE, "--days", "0"), "--days", id="certificates of no time"),
        pytest.param((*_ISSUE, "--days", "99999999"), "--days", id="certificates beyond the calendar"),
        pytest.param((*_ISSUE, "--host", "münchen"), "'münchen'", id="a name that no certificate can carry"),
        pytest.param((*_ISSUE, "--host", ""), "''", id="no name"),
        pytest.param(("certs", "issue", "--out", "/proc/nope"), "/proc/nope", id="certificates in no folder"),
        pytest.param(("policies", "--out", "/proc/nope"), "/proc/nope", id="policies in no folder"),
        pytest.param(("audit", "--kubeconfig", "{folder}/text"), "text is no kubeconfig", id="a kubeconfig of words"),
        pytest.param(("certs", "status", "--kubeconfig", "{folder}/bytes"), "is no kubeconfig", id="one of bytes"),
    ],
)
def test_bad_input_to_a_command_is_refused_with_a_remedy(
    command: tuple[str, ...], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text").write_text("some words")
    (tmp_path / "bytes").write_bytes(b"port: \xff\xfe")

    code = main([word.format(folder=tmp_path) for word in command])

    said = capsys.readouterr().err
    assert (code, says in said, said.count("\n")) == (2, True, 1), said
    assert said.rstrip().endswith("."), "it does not end with a remedy"


def test_a_key_is_for_its_owner_alone_whatever_file_was_there(tmp_path: Path) -> None:
    key = tmp_path / "tls.key"
    key.write_text("an old one")
    key.chmod(0o644)

    assert main(["certs", "issue", "--out", str(tmp_path)]) == 0

    assert key.stat().st_mode & 0o777 == 0o600
    assert key.read_text().startswith("-----BEGIN PRIVATE KEY")
