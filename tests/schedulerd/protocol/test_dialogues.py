"""The daemon's core says, line by line, what the dialogues of tests/wire/ say."""

import pytest

from tests.schedulerd.protocol.dialogue import DIALOGUES, BrokenDialogue, replay


@pytest.mark.parametrize("path", DIALOGUES, ids=lambda path: path.stem)
def test_the_core_keeps_to_the_dialogue(path):
    assert replay(path) > 10


def test_a_dialogue_that_expects_something_else_fails(tmp_path):
    (path,) = (one for one in DIALOGUES if one.stem == "two-taking-turns")
    changed = tmp_path / "changed.txt"
    changed.write_text(path.read_text().replace("A< yield turn=0000000a.1", "A< yield turn=0000000a.7"))

    with pytest.raises(BrokenDialogue):
        replay(changed)
