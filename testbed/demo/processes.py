"""Start the demo's daemons, and end them again whatever happens in between."""

import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from testbed.demo.errors import DemoError

READY_SECONDS = 30.0
END_SECONDS = 10.0


@contextmanager
def daemon(command: Sequence[str], log: Path, environ: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process while the block runs; its output goes to `log`."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=dict(environ))
    try:
        yield process
    finally:
        end(process)


def end(process: "subprocess.Popen[bytes] | subprocess.Popen[str]") -> None:
    """Ask the process to end; kill it where it does not."""
    process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_for_line(process: "subprocess.Popen[bytes]", log: Path, pattern: str) -> re.Match[str]:
    """Return the first line of the log with `pattern`; raise with the whole log where the process ends instead."""
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found:
            return found
        if process.poll() is not None:
            raise _ended(process, log)
        time.sleep(0.02)
    raise DemoError(f"{_name(process)} is not ready after {READY_SECONDS:.0f} s", f"look into {log}")


def wait_for_socket(process: "subprocess.Popen[bytes]", log: Path, socket: Path) -> None:
    """Wait until the daemon listens."""
    deadline = time.monotonic() + READY_SECONDS
    while not socket.exists():
        if process.poll() is not None:
            raise _ended(process, log)
        if time.monotonic() > deadline:
            raise DemoError(f"{_name(process)} does not listen after {READY_SECONDS:.0f} s", f"look into {log}")
        time.sleep(0.02)


def _ended(process: "subprocess.Popen[bytes]", log: Path) -> DemoError:
    """Build the error of a process that ended: our programs' own sentence and remedy, or the whole log."""
    said = log.read_text(errors="replace").strip() or "nothing"
    own = re.search(r"^(nvshare-[a-z-]+: .+?\.) (.+)$", said, re.MULTILINE)
    if own:
        return DemoError(own[1], own[2])
    return DemoError(
        f"{_name(process)} ended at once (exit code {process.returncode}); it said:\n{said}",
        "read the reason above; `make setup` repairs a broken build",
    )


def _name(process: "subprocess.Popen[bytes]") -> str:
    arguments = process.args if isinstance(process.args, list) else [str(process.args)]
    return Path(str(arguments[0])).name
