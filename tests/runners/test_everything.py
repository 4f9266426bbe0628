"""The choice of failed tests that `make test` tries once more."""

import json

import pytest

from tests.runners.everything import MOST_FILES, names_to_try_again


@pytest.mark.parametrize(
    ("code", "failed", "again"),
    [
        pytest.param(pytest.ExitCode.OK, 0, 0, id="nothing failed"),
        pytest.param(pytest.ExitCode.TESTS_FAILED, 1, 1, id="a few are tried again"),
        pytest.param(pytest.ExitCode.TESTS_FAILED, MOST_FILES + 1, 0, id="files in number are broken, not unlucky"),
        pytest.param(pytest.ExitCode.INTERRUPTED, 1, 0, id="a run that broke off is not judged by what it saw"),
        pytest.param(pytest.ExitCode.TESTS_FAILED, 0, 0, id="a failure that pytest did not keep stays one"),
    ],
)
def test_failures_that_are_tried_again(code: int, failed: int, again: int) -> None:
    names = [f"tests/test_{number}.py::test[{case}]" for number in range(failed) for case in range(9)]

    assert len(names_to_try_again(code, json.dumps(dict.fromkeys(names, True)))) == 9 * again
