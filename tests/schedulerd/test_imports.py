"""What the fast programs load: `nvsharectl` for its start, the turn process for its memory and its turns."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from schedulerd.policies import POLICIES
from tests.fakes.wire.client import Daemon, running_daemon

ROOT = Path(__file__).parents[2]
_NVSHARECTL = """
import sys
from schedulerd.nvsharectl.__main__ import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
print(*sys.modules, file=sys.stderr)
"""
SLOW_FOR_A_COMMAND = {
    "asyncio",
    "dataclasses",
    "email",
    "http",
    "inspect",
    "json",
    "logging",
    "pathlib",
    "ssl",
    "subprocess",
    "threading",
    "urllib",
}
OF_EVERY_COMMAND = {
    *("contract.errors", "contract.wire", "contract.wire.form", "contract.wire.line", "contract.wire.status"),
    *("contract.words", "contract.words.paths"),
    *("schedulerd.control", "schedulerd.control.client", "schedulerd.errors"),
    *("schedulerd.nvsharectl", "schedulerd.nvsharectl.__main__", "schedulerd.nvsharectl.render"),
}
OF_A_CHANGE = {
    "contract.wire.control",
    "contract.words.grammar",
    "contract.words.limits",
    "contract.words.names",
    "contract.words.quantity",
}
OF_POLICIES = {"schedulerd.policies", *(f"schedulerd.policies.{name}" for name in ("base", *POLICIES))}


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with running_daemon(tmp_path) as one:
        yield one


@pytest.mark.parametrize("words", [("--help",), ("status",), ("top", "--rounds=1"), ("policy", "rr")], ids=" ".join)
def test_nvsharectl_loads_only_what_its_commands_need(daemon: Daemon, words: tuple[str, ...]) -> None:
    # -S: without site-packages, no library of others can be imported at all
    command = [sys.executable, "-S", "-c", _NVSHARECTL, f"--control={daemon.control}", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    ours = {name for name in loaded if name.startswith(("schedulerd.", "contract.", "adapters"))}

    slow = loaded & SLOW_FOR_A_COMMAND
    assert slow <= ({"dataclasses", "inspect"} if words[0] == "policy" else set())  # a change reads the grammars
    assert ours == (OF_EVERY_COMMAND | OF_A_CHANGE | OF_POLICIES if words[0] == "policy" else OF_EVERY_COMMAND)


_TURN_PROCESS = """
import atexit, sys
from pathlib import Path
modules = Path(sys.argv.pop(1))
atexit.register(lambda: modules.write_text("\\n".join(sys.modules)))
from schedulerd.__main__ import main
sys.exit(main())
"""
SLOW_FOR_TURNS = {
    "asyncio",
    "email",
    "http",
    "yaml",
    "grpc",
    "google",
    "google.protobuf",
    "pynvml",
    "kubernetes",
    "ssl",
}
MAX_BYTES = 30 << 20


@pytest.mark.parametrize("identity", ["none", "folders"])
def test_the_turn_process_loads_of_adapters_only_the_options_and_stays_small(identity: str, tmp_path: Path) -> None:
    modules, allocations = tmp_path / "modules", tmp_path / "allocations"
    allocations.mkdir()
    flags = [f"--identity={identity}", f"--sockets={tmp_path}", f"--allocations={allocations}", "--observer=none"]
    control = tmp_path / "control.sock"
    command = [sys.executable, "-c", _TURN_PROCESS, str(modules), *flags, f"--control={control}"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        next(line for line in process.stderr if " epoch " in line)  # it is built: clients may come
        resident = psutil.Process(process.pid).memory_info().rss
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
    loaded = set(modules.read_text().split())

    assert {name for name in loaded if name.startswith("adapters")} == {"adapters", "adapters.options"}
    assert loaded & SLOW_FOR_TURNS == set()
    assert not {name for name in loaded if name.startswith("schedulerd.observer")}
    assert resident <= MAX_BYTES
