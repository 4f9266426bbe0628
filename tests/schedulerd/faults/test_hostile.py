"""A container that says what is not so, or says it without end: its neighbours notice nothing."""

import contextlib
import select
import socket
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from contract.wire.control import CardReport, Figures, encode_request
from contract.wire.load import QUERY
from contract.wire.status import Status
from contract.words.grammar import AllocationKind
from schedulerd.control.client import ControlClient
from schedulerd.core import card_size
from schedulerd.core.messages import Hello, Reserve, Using
from schedulerd.core.model import MIB, Container, Rules
from schedulerd.core.turns import Turns
from schedulerd.errors import NoMemory
from schedulerd.eventloop.connection import Connection
from schedulerd.eventloop.loop import Loop
from schedulerd.protocol.budget import Budget, Limits
from schedulerd.protocol.sessions import Sessions
from schedulerd.server.server import Server, bind
from tests.fakes.containers import Floor
from tests.fakes.wire.allocations import Containers, known_containers
from tests.fakes.wire.client import PATIENCE, Client

GIB = 1024 * MIB
CARD = 16 * GIB
CAP = 2 * GIB
PIDS = (101, 102, 103)
"""The real processes of the container that lies; it connects as often as it likes."""
sizes = st.one_of(st.sampled_from([0, CAP, CAP + 1, CARD, 2**60]), st.integers(0, 2**60))


@pytest.fixture
def node() -> Iterator[Containers]:
    """Run a daemon in a folder with a short name: a socket's path has 107 characters at most; pytest's is longer."""
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder, known_containers(Path(folder)) as containers:
        yield containers
        assert "Traceback" not in containers.daemon.log()


def connect(node: Containers, key: str, gpu: str, *, hello: bool = True, **facts: object) -> Client:
    if not (node.allocations / key).exists():
        node.add(key, gpu, weight=100, **facts)
    return Client(node.allocations / key / "scheduler.sock", container=key, gpus=gpu, hello=hello)


def read_status(node: Containers) -> Status:
    """Return the daemon's status."""
    with ControlClient(node.daemon.control) as control:
        return control.read_status()


def limits_reached(node: Containers) -> Mapping[str, int]:
    """Return how often each limit was reached."""
    daemon = read_status(node).daemon
    assert daemon is not None
    return daemon.limits


# ---------------------------------------------------------------------- what it says it uses


class Liar(RuleBasedStateMachine):
    """Every legal line of a container with a cap, beside two that run side by side and one that cannot be paged."""

    @initialize()
    def begin(self) -> None:
        self.floor = Floor(Rules(), capacity=CARD, gpus=1)
        self.liars: list[int] = []
        self.plain = self.floor.join(Container(key="plain", gpus=("GPU-1",), allocation=AllocationKind.PLAIN))
        self.honest = [self.floor.join(Container(key=key, gpus=("GPU-1",))) for key in "ab"]
        for process in self.honest:
            self.floor.turns.using(process, Using("GPU-1", 4 * GIB, 0), 0.0)
            self.floor.want(process, "GPU-1")

    @rule(pid=st.sampled_from(PIDS), kind=st.sampled_from(AllocationKind))
    def connect(self, pid: int, kind: AllocationKind) -> None:
        if len(self.liars) < 250:
            facts = Container(key="liar", gpus=("GPU-1",), memory=CAP, allocation=kind)
            self.liars.append(self.floor.join(facts, peer=pid))

    @rule(number=st.integers(0, 999), pageable=sizes, unpageable=sizes)
    def use(self, number: int, pageable: int, unpageable: int) -> None:
        if self.liars:
            process = self.liars[number % len(self.liars)]
            self.floor.turns.using(process, Using("GPU-1", pageable, unpageable), self.floor.now)
            self.floor.carry_out()

    @rule(number=st.integers(0, 999), size=sizes)
    def reserve(self, number: int, size: int) -> None:
        if self.liars:
            process = self.liars[number % len(self.liars)]
            with contextlib.suppress(NoMemory):
                self.floor.turns.reserve(process, Reserve("GPU-1", size), self.floor.now)
            self.floor.carry_out()

    @rule(number=st.integers(0, 999))
    def want(self, number: int) -> None:
        if self.liars:
            self.floor.want(self.liars[number % len(self.liars)], "GPU-1")

    @rule(number=st.integers(0, 999))
    def leave(self, number: int) -> None:
        if self.liars:
            self.floor.leave(self.liars.pop(number % len(self.liars)))

    @rule(size=st.sampled_from([CARD, None, CARD]))
    def the_card_is_looked_at_again(self, size: int | None) -> None:
        card_size.hear_nvml(self.floor.turns, self.floor.turns.gpu("GPU-1"), size, self.floor.now)
        card_size.hear_nvml(self.floor.turns, self.floor.turns.gpu("GPU-1"), CARD, self.floor.now)

    @invariant()
    def neighbours_notice_nothing(self) -> None:
        if not hasattr(self, "floor"):
            return
        floor, context = self.floor, self.floor.turns.rules.context_bytes
        honest = 8 * GIB + 3 * context
        assert floor.turns.gpu("GPU-1").needed <= honest + 3 * GIB + CAP + len(PIDS) * context
        floor.turns.reserve(self.plain, Reserve("GPU-1", 3 * GIB), floor.now)
        floor.carry_out()
        assert floor.reserved[self.plain] == 3 * GIB
        assert {"a", "b"} <= set(floor.open_on("GPU-1"))
        assert not any(floor.seats[process].asked for process in self.honest)


@pytest.mark.parametrize(
    "examples",
    [
        pytest.param(30, id="thirty lives of a liar"),
        pytest.param(500, id="five hundred lives of a liar", marks=pytest.mark.slow),
    ],
)
def test_what_a_container_says_counts_up_to_its_cap_and_its_real_processes(examples: int) -> None:
    checks = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
    often = settings(max_examples=examples, stateful_step_count=40, deadline=None, suppress_health_check=checks)
    run_state_machine_as_test(Liar, settings=often)


def test_more_than_the_card_has_counts_as_the_card() -> None:
    floor = Floor(Rules(context_bytes=0), capacity=CARD, gpus=1)
    process = floor.join(Container(key="a", gpus=("GPU-1",)))
    floor.turns.using(process, Using("GPU-1", 0, 2**60), 0.0)

    assert floor.turns.gpu("GPU-1").needed == CARD


def test_a_container_above_its_cap_is_told_of_once() -> None:
    floor = Floor(Rules(), capacity=CARD, gpus=1)
    process = floor.join(Container(key="a", gpus=("GPU-1",), memory=CAP))
    for size in (CAP, CAP + 1, CAP + 2):
        floor.turns.using(process, Using("GPU-1", size, 0), 0.0)
        floor.carry_out()

    assert [(notice.kind, notice.containers) for notice in floor.notices] == [("above-cap", ("a",))]


def test_a_liar_takes_no_memory_from_a_neighbour_of_the_same_card(node: Containers) -> None:
    """Let it claim all of 40 GiB under a cap of 2 GiB, with 200 hellos of invented processes."""
    with ControlClient(node.daemon.control) as observer:
        observer.send(encode_request(CardReport("GPU-1", Figures(memory_total=40 * GIB))))
        list(observer.ask(QUERY))
    crowd = [connect(node, "liar", "GPU-1", hello=False, memory=CAP) for _ in range(200)]
    for number, client in enumerate(crowd):
        client.say("hello", v=1, pid=90_000 + number, gpus="GPU-1")
        client.say("using", gpu="GPU-1", pageable=0, unpageable=40 * GIB)
    for client in crowd:
        client.until("welcome")
    neighbour = connect(node, "neighbour", "GPU-1", allocation="plain")
    neighbour.say("reserve", gpu="GPU-1", bytes=30 * GIB)

    assert neighbour.hear("reserved", "error").verb == "reserved"
    (gpu,) = read_status(node).gpus
    assert gpu.needed == CAP + 30 * GIB + 2 * 300 * MIB
    assert "above-cap: liar" in node.daemon.log()


# ---------------------------------------------------------------------- how much it says


def flood(client: Client, line: bytes, size: int) -> None:
    """Write so many bytes of a line, as fast as the daemon reads them."""
    client.socket.sendall(line * (size // len(line)))


def test_a_container_that_says_too_much_waits_and_is_not_hung_up_on(node: Containers) -> None:
    noisy, quiet = connect(node, "noisy", "GPU-1"), connect(node, "quiet", "GPU-2")
    flood(noisy, b"using gpu=GPU-1 pageable=0 unpageable=0\n", 64 * int(Limits().burst) * 2)
    quiet.want()
    quiet.hear("grant")
    assert limits_reached(node)["lines"] > 0

    noisy.want()
    assert noisy.hear("grant")
    assert "must wait" in node.daemon.log()


class Nobody:
    """A registry that knows no container yet."""

    def find(self, _client: int, _hello: Hello) -> Container | None:
        return None


def test_a_postponed_connection_that_ends_is_let_go_of_at_once(tmp_path: Path) -> None:
    loop = Loop()
    server = Server(loop, Sessions(Turns(Rules(), epoch="0000000a"), Nobody()))
    server.listen(bind(tmp_path / "socket", 0o600), "noisy")
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.connect(str(tmp_path / "socket"))
    loop.turn()
    (connection,) = server.connections.values()
    connection.budget.spend(10**9)
    client.send(b"hello")
    loop.turn()
    assert connection.paused

    client.close()
    loop.turn()
    assert server.connections == {}


def test_the_loop_sleeps_while_a_connection_with_unread_lines_is_paused() -> None:
    loop = Loop()
    ours, theirs = socket.socketpair()
    connection = Connection(1, ours, loop, "noisy", Budget())
    read, rang = list[bytes | None](), list[float]()
    loop.watch(connection.descriptor, lambda _mask: read.append(connection.receive()))
    theirs.send(b"want gpus=GPU-1\n")
    due = loop.clock() + 0.02
    loop.add_alarm(lambda: float("inf") if rang else due, rang.append)
    connection.pause()
    loop.turn()
    assert (len(rang), read) == (1, [])

    connection.go_on()
    loop.turn()
    assert read == [b"want gpus=GPU-1\n"]
    theirs.close()
    connection.close()


def say_and_never_read(clients: list[Client]) -> None:
    """Have the daemon answer clients that do not read, and wait until it hangs up on one of them."""
    line = b"want gpus=GPU-1\n" * 500
    for client in clients:
        client.socket.settimeout(0.5)
        with contextlib.suppress(OSError):
            client.socket.sendall(line)
    ends = select.poll()
    for client in clients:
        ends.register(client.socket, 0)  # only its end
    assert ends.poll(PATIENCE * 1000)


def test_clients_that_do_not_read_are_hung_up_on_when_their_container_has_too_much_unread(node: Containers) -> None:
    deaf = [connect(node, "deaf", "GPU-1") for _ in range(40)]
    reader, other = connect(node, "deaf", "GPU-1"), connect(node, "other", "GPU-2")
    say_and_never_read(deaf)
    other.want()
    other.hear("grant")
    reader.want()
    assert reader.until("grant")  # of the same container, but it reads

    assert limits_reached(node)["unread-of-container"] > 0


def test_the_kernel_holds_little_of_what_a_client_does_not_read(node: Containers) -> None:
    """Measure what the kernel holds, because it is the daemon's memory."""
    deaf = connect(node, "deaf", "GPU-1")
    deaf.want()
    deaf.hear("grant")
    flood(deaf, b"want gpus=GPU-1\n", 16 * 400)
    connect(node, "other", "GPU-2").close()  # handled by now
    held = len(deaf.socket.recv(1 << 20, socket.MSG_PEEK))

    assert held < 4096
