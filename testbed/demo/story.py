"""The one-minute story: a pod is refused, fixed, and runs in turns with its neighbours on software GPUs.

Everything but the GPUs is real: the webhook's server, the device plugin's placement, the daemon, the hook.  The drawing
comes from the software GPU's record, which knows nothing of turns.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from contract.sharing.inventory import Gpu
from contract.sharing.placement import Policy, Request, prefer
from contract.words import names, paths
from deviceplugin.core.inventory import Rules, take_stock
from testbed.demo.admission import Answer, Pod, Webhook
from testbed.demo.drawing import Bar, Brush, Ink, busy_share, draw_diff, draw_turns, overlap_seconds
from testbed.demo.errors import DemoError
from testbed.demo.local_node import Node, start_container
from testbed.demo.processes import daemon, end, wait_for_line, wait_for_socket
from testbed.gpu_record import Record, RecordError

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build"
SIMGPU, HOOK = BUILD / "simgpu", BUILD / "hook"
PROGRAMS = {"burn": SIMGPU / "burn"}
QUANTUM = "1s"
NEXT = (
    (".venv/bin/nvshare-webhook check -f testbed/demo/pods/trainer.yaml --injection enabled", "why a pod is refused"),
    (".venv/bin/nvshare-webhook inject -f testbed/demo/pods/notebook-0.yaml --injection enabled", "what would run"),
    ("make cluster-up", "a real Kubernetes node on this machine (root)"),
)
REPORT = "this is a bug: please report it"
LONGEST_SOCKET_PATH = 107
NEIGHBOURS = ("notebook-0", "notebook-1")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings that a viewer may choose."""

    seconds: float = 8.0
    """How long the jobs run, once with turns and once without."""
    devices: str = "2xT4-16GB"
    """The software GPUs, as simgpu names them."""
    port: int = 0
    """Where the webhook listens; 0 takes a free port."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The folder, settings and output of one story."""

    folder: Path
    settings: Settings
    brush: Brush
    say: Callable[[str], None]

    def simgpu(self, name: str) -> dict[str, str]:
        """Return the environment that puts a process on the software GPUs of this name."""
        return {
            "LD_LIBRARY_PATH": str(SIMGPU),
            "SIMGPU_FILE": str(self.folder / name),
            "SIMGPU_DEVICES": self.settings.devices,
        }

    def title(self, number: str, text: str) -> None:
        self.say(f"\n{self.brush.paint(f'{number} {text}', Ink.BOLD)}")


def tell(stage: Stage) -> None:
    """Tell the whole story."""
    stage.say("nvshare-guard demo. Software GPU: times are simulated. Everything else is the real thing.")
    _check_build()
    _check_place(stage.folder)
    with serve_webhook(stage) as webhook:
        refused = show_refused(stage, webhook)
        trainer = show_fixed(stage, webhook, refused)
        neighbours = [webhook.ask(read_pod(name)).pod for name in NEIGHBOURS]
    show_turns(stage, [trainer, *neighbours])
    show_next(stage)


def _check_place(folder: Path) -> None:
    """Raise where the path of a unix socket would be longer than the 107 bytes that it has room for."""
    longest = folder / "sockets" / paths.SOCKET_NAME
    if len(str(longest).encode()) > LONGEST_SOCKET_PATH:
        raise DemoError(
            f"the temporary folder's name is too long for sockets: {folder}",
            "set TMPDIR to a shorter one, such as /tmp",
        )


def _check_build() -> None:
    needed = (*PROGRAMS.values(), SIMGPU / "libcuda.so.1", HOOK / Path(paths.CONTAINER_HOOK).name)
    for path in needed:
        if not path.exists():
            raise DemoError(f"{path.relative_to(BUILD.parent)} has not been built", "run `make native`")


def read_pod(name: str) -> Pod:
    """Read one of the demo's pods."""
    pod: Pod = yaml.safe_load((HERE / "pods" / f"{name}.yaml").read_text())
    return pod


@contextmanager
def serve_webhook(stage: Stage) -> Iterator[Webhook]:
    """Serve the webhook over TLS, with a certificate of its own, on a free port."""
    certificates = stage.folder / "certificates"
    log = stage.folder / "webhook.log"
    program = [sys.executable, "-m", "webhook"]
    subprocess.run([*program, "certs", "issue", "--out", certificates], check=True, capture_output=True)
    serve = [*program, "serve", "--cert", f"{certificates}/tls.crt", "--key", f"{certificates}/tls.key"]
    serve += ["--host", "127.0.0.1", "--port", str(stage.settings.port), "--metrics-port", "0"]
    serve += ["--namespace-file", str(HERE / "namespace.yaml"), "--log-format", "text", "--drain-seconds", "0"]
    with daemon(serve, log, os.environ) as process:
        url = wait_for_line(process, log, r"serving (https://127\.0\.0\.1:\d+)").group(1)
        yield Webhook(f"{url}/mutate", certificates / "ca.crt")


def show_refused(stage: Stage, webhook: Webhook) -> Pod:
    """Show the refusal of a pod that asks for two vGPUs and does not say how it uses them."""
    stage.title("1", "refused")
    pod = read_pod("trainer")
    answer = webhook.ask(pod)
    if answer.allowed:
        raise DemoError("the webhook allowed a pod that it must refuse", REPORT)
    stage.say(f"  kubectl apply: pod {pod['metadata']['name']} asks for {names.RESOURCE}: 2 and names no mode")
    for line in answer.message.splitlines():
        stage.say("  " + stage.brush.paint(line, Ink.YELLOW))
    return pod


def show_fixed(stage: Stage, webhook: Webhook, pod: Pod) -> Pod:
    """Show the same pod with the annotation: what was asked for, and what will run."""
    stage.title("2", "fixed")
    metadata = {**pod["metadata"], "annotations": {names.MULTI_GPU: "gang"}}
    fixed = {**pod, "metadata": metadata}
    answer = _allowed(webhook.ask(fixed))
    before, after = (yaml.safe_dump(each, sort_keys=False) for each in (fixed, answer.pod))
    stage.say(f"  with the annotation {names.MULTI_GPU}: gang it is allowed, and completed (+):")
    for line in draw_diff(before, after, stage.brush):
        stage.say("  " + line)
    return answer.pod


def _allowed(answer: Answer) -> Answer:
    if not answer.allowed:
        raise DemoError(f"the webhook refused a pod that it must allow: {answer.message}", REPORT)
    return answer


def show_turns(stage: Stage, pods: Sequence[Pod]) -> None:
    """Show the pods side by side on the GPUs, in turns; then the same jobs without turns."""
    stage.title("3", "turns")
    count = len(_placed(stage, pods[:1])[0])
    stage.say(f"  {len(pods)} pods on {count} GPUs, together larger than the cards; a turn is {QUANTUM}")
    with_turns = run_with_turns(stage, pods)
    bars = read_bars(stage, "with-turns")
    for line in draw_turns(bars, stage.brush):
        stage.say(line)
    without = run_without_turns(stage, pods)
    overlap, busy = overlap_seconds(bars), 100 * busy_share(bars)
    stage.say(f"  overlap of two pods on one GPU: {overlap:.3f} s; busy {busy:.0f} % of the time")
    ratio = f"{with_turns / max(without, 1):.1f} times as many"
    stage.say(f"  kernels in {stage.settings.seconds:g} s: {with_turns} with turns, {without} without: {ratio}")


def run_with_turns(stage: Stage, pods: Sequence[Pod]) -> int:
    """Run the pods as the webhook completed them, under hook and daemon; return how many kernels they launched."""
    sockets, log = stage.folder / "sockets", stage.folder / "schedulerd.log"
    sockets.mkdir()
    serve = [sys.executable, "-m", "schedulerd", "--identity", "none", "--sockets", str(sockets)]
    serve += ["--control", str(stage.folder / "control.sock"), "--observer", "none", "--quantum", QUANTUM]
    environ = stage.simgpu("with-turns")
    node = Node({paths.NODE_HOOK_FOLDER: HOOK, paths.NODE_SOCKETS: sockets}, environ)
    with daemon(serve, log, {**os.environ, **environ}) as process:
        wait_for_socket(process, log, sockets / paths.SOCKET_NAME)
        return run_pods(stage, pods, node)


def run_without_turns(stage: Stage, pods: Sequence[Pod]) -> int:
    """Run the same jobs without hook and daemon, on the same kind of memory."""
    bare = [_without_injection(pod) for pod in pods]
    return run_pods(stage, bare, Node({}, stage.simgpu("without-turns")))


def _without_injection(pod: Pod) -> Pod:
    container = dict(pod["spec"]["containers"][0])
    container["command"] = [word.replace("--plain-mb", "--managed-mb") for word in container["command"]]
    container["env"], container["volumeMounts"] = [], []
    return {**pod, "spec": {**pod["spec"], "volumes": [], "containers": [container]}}


def run_pods(stage: Stage, pods: Sequence[Pod], node: Node) -> int:
    """Run all pods at once for the settings' seconds; return how many kernels they launched."""
    timed = [_for_seconds(pod, stage.settings.seconds) for pod in pods]
    launched = 0
    with ExitStack() as ends:
        running = []
        for pod, uuids in zip(timed, _placed(stage, timed), strict=True):
            process = start_container(pod, node, uuids=uuids, programs=PROGRAMS)
            ends.callback(end, process)
            running.append((pod["metadata"]["name"], process))
        for name, process in running:
            launched += _finished(name, process)
    return launched


def _for_seconds(pod: Pod, seconds: float) -> Pod:
    container = dict(pod["spec"]["containers"][0])
    container["args"] = [*container.get("args", ()), "--seconds", f"{seconds:g}"]
    return {**pod, "spec": {**pod["spec"], "containers": [container]}}


def _finished(name: str, process: "subprocess.Popen[str]") -> int:
    said, _ = process.communicate()
    if process.returncode != 0:
        raise DemoError(
            f"pod {name} ended with code {process.returncode}; it said:\n{said.strip()}",
            REPORT,
        )
    words = [word.partition("=") for line in said.splitlines() for word in line.split()]
    return sum(int(value) for key, _, value in words if key == "launched")


def _placed(stage: Stage, pods: Sequence[Pod]) -> list[tuple[str, ...]]:
    """Choose the GPUs of each pod with the device plugin's placement, from the slots that are left."""
    listed = subprocess.run(
        [SIMGPU / "simgpu", "devices"], env=stage.simgpu("with-turns"), capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        raise DemoError(
            f"the software GPU says: {listed.stderr.strip()}",
            "name a model that simgpu knows, such as --devices 2xT4-16GB",
        )
    uuids = [word for line in listed.stdout.splitlines() for word in line.split() if word.startswith("GPU-")]
    inventory = take_stock((Gpu(uuid=uuid, model="software") for uuid in uuids), Rules(slots=names.SLOTS_PER_GPU))
    free, placed = list(inventory.slot_of), []
    for pod in pods:
        asked = int(pod["spec"]["containers"][0]["resources"]["limits"][names.RESOURCE])
        ids = prefer(Request(available=tuple(free), size=asked), inventory, Policy())
        free = [each for each in free if each not in ids]
        placed.append(tuple(inventory.slot_of[each].uuid for each in ids))
    return placed


def read_bars(stage: Stage, name: str) -> list[Bar]:
    """Read the execution record, in a process that did not compute."""
    try:
        record = Record(stage.folder / name)
    except RecordError as error:
        raise DemoError(str(error), "run the demo again; if it stays, please report it") from error
    return [
        Bar(f"GPU {card.index}", interval.owner.label, interval.start, interval.end)
        for card in record.cards
        for interval in record.intervals(card.uuid)
    ]


def show_next(stage: Stage) -> None:
    """Show three commands to try."""
    stage.say(f"\n{stage.brush.paint('next:', Ink.BOLD)}")
    for command, what_for in NEXT:
        stage.say(f"  {command}   # {what_for}")


def elapsed(began: float) -> str:
    """Return how long the story took, as text."""
    return f"{time.monotonic() - began:.0f} s"
