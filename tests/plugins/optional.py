"""pytest plugin: tests that need something optional are counted at the end when it is not there.

Optional is what a registry may not have (a proprietary library, for example).
So these skips fail no build, not even with CI=true; but a run in which they did not happen says so.
"""

from typing import Any, NoReturn

import pytest

_NOT_HAD = "not had: "


def skip_optional(cause: str, remedy: str) -> NoReturn:
    """Skip a test because this machine has not got something optional."""
    pytest.skip(f"{_NOT_HAD}{cause} (fix: {remedy})")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    skipped = [report for report in terminalreporter.stats.get("skipped", ()) if _NOT_HAD in str(report.longrepr)]
    if skipped:
        reasons = sorted({str(report.longrepr[2]).partition(_NOT_HAD)[2] for report in skipped})
        terminalreporter.section(f"{len(skipped)} optional tests were NOT run", yellow=True, bold=True)
        terminalreporter.write_line("\n".join(f"  because of {reason}" for reason in reasons))
