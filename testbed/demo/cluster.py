"""`make demo-cluster`: the whole story on a real Kubernetes node, installed as an operator installs it.

kubelet, containerd, API server, webhook, device plugin, scheduler and hook are real; the GPUs are software.  The
drawing comes from the software GPU's record.
"""

import argparse
import copy
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from contract.words import names
from testbed.cluster.errors import ClusterError
from testbed.cluster.installed import GPUS, MANIFESTS, SYSTEM, House, Object, Wish, pod
from testbed.cluster.kubernetes.node import Shape, check_machine, start_cluster
from testbed.cluster.machine import leftovers, runs
from testbed.cluster.machine.processes import wait_until
from testbed.cluster.supplies import image
from testbed.cluster.supplies.image import Target
from testbed.demo.drawing import Bar, Brush, Ink, busy_share, draw_diff, draw_turns, overlap_seconds

_KEPT = "kept"
"""The file that tells `make cluster-down` which run it may end."""
TEAM, TRYING, PLAIN, RESTRICTED = "team-a", "team-trying", "team-plain", "team-restricted"
_QUANTUM = "1s"
"""By default a turn is as long as moving 30 GB is worth.  A picture needs more turns."""
BIG = ("--managed-mb", "30000", "--quiet")
"""More than half of a card, so that no two of them fit side by side and turns are exclusive."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The node, colours and output of one story."""

    house: House
    brush: Brush
    seconds: float
    say: Callable[[str], None] = print

    def title(self, number: int, text: str) -> None:
        self.say(f"\n{self.brush.paint(f'{number} {text}', Ink.BOLD)}")

    def quote(self, text: str, *, ink: Ink = Ink.YELLOW) -> None:
        for line in text.strip().splitlines():
            self.say("  " + self.brush.paint(line, ink))


def tell(stage: Stage) -> None:
    """Tell the whole story."""
    install(stage)
    before = read_reviews(stage.house)
    fixed = show_refused_and_fixed(stage)
    show_completed(stage, fixed)
    show_namespaces(stage)
    jobs = show_landing(stage)
    show_turns(stage, jobs)
    show_numbers(stage, before)


def install(stage: Stage) -> None:
    stage.title(1, "installed")
    began = time.monotonic()
    stage.say("  kubectl apply -k manifests/overlays/simgpu")
    stage.house.apply()
    stage.house.kubectl("apply", "-f", str(MANIFESTS / "samples" / "namespaces.yaml"))
    _until_created(stage, TEAM, pod("first", Wish(command=("sleep", "600"))))
    stage.house.wait_phase(TEAM, "first", ("Running",))
    stage.say(f"  {time.monotonic() - began:.1f} s later the first pod with a vGPU is Running")
    stage.house.wait_ready()
    stage.house.kubectl("delete", "pod", "first", "-n", TEAM, "--wait=false")
    said = stage.house.kubectl("-n", SYSTEM, "get", "pods", "--no-headers")
    for line in said.splitlines():
        stage.say("    " + " ".join(line.split()[:3]))


def _until_created(stage: Stage, namespace: str, wanted: Object) -> None:
    """Try until the pod is accepted: until the webhook has its certificate, pods with vGPUs are refused."""
    wait_until(
        lambda: "created" in stage.house.create(namespace, wanted), what="the first vGPU pod is accepted", seconds=90
    )


def show_refused_and_fixed(stage: Stage) -> Object:
    stage.title(2, "refused, and fixed by its own sentence")
    wanted = pod("trainer", Wish(gpus=2, command=("burn", "--devices", "0,1", "--together", "2", "--kernel-ms", "5")))
    wanted["spec"]["containers"][0]["command"] += [*BIG, "--seconds", f"{stage.seconds:g}"]
    stage.say(f"  kubectl create: pod trainer asks for {names.RESOURCE}: 2 and names no mode")
    stage.quote(stage.house.create(TEAM, wanted))
    fixed = copy.deepcopy(wanted)
    fixed["metadata"]["annotations"] = {names.MULTI_GPU: "gang"}
    stage.say(f"  with the annotation {names.MULTI_GPU}: gang")
    stage.quote(
        stage.house.kubectl("create", "--dry-run=server", "-n", TEAM, "-f", "-", stdin=yaml.safe_dump(fixed)),
        ink=Ink.GREEN,
    )
    return fixed


def show_completed(stage: Stage, fixed: Object) -> None:
    stage.title(3, "what was asked for, and what runs (+)")
    said = stage.house.kubectl(
        "create", "--dry-run=server", "-n", TEAM, "-o", "yaml", "-f", "-", stdin=yaml.safe_dump(fixed)
    )
    before, after = (yaml.safe_dump(_of_interest(each), sort_keys=True) for each in (fixed, yaml.safe_load(said)))
    for line in draw_diff(before, after, stage.brush):
        stage.say("  " + line)


def _of_interest(found: Object) -> Object:
    """Remove what the API server fills in for every pod."""
    spec = found["spec"]
    container = spec["containers"][0]
    kept = ("name", "command", "env", "resources", "volumeMounts")
    slim = {key: container[key] for key in kept if container.get(key)}
    slim["volumeMounts"] = [item for item in slim.get("volumeMounts", []) if "serviceaccount" not in item["mountPath"]]
    volumes = [item for item in spec.get("volumes", []) if "projected" not in item]
    rest = {"affinity": spec.get("affinity"), "volumes": volumes, "containers": [slim]}
    return {
        "metadata": {"annotations": found["metadata"].get("annotations", {})},
        "spec": {key: value for key, value in rest.items() if value},
    }


def show_namespaces(stage: Stage) -> None:
    stage.title(4, "the same pod elsewhere")
    wanted = yaml.safe_dump(pod("two", Wish(gpus=2)))
    for namespace, what in ((TRYING, "warn: says it, changes nothing"), (PLAIN, "has not opted in")):
        said = stage.house.kubectl("create", "--dry-run=server", "-n", namespace, "-f", "-", stdin=wanted, check=False)
        stage.say(f"  {namespace} ({what})")
        stage.quote("\n".join(f"  {line[:160]}" for line in said.strip().splitlines()[:3]))
    stage.house.kubectl("apply", "-f", str(MANIFESTS / "samples" / "restricted-namespace.yaml"))
    stage.house.wait_phase(RESTRICTED, "careful", ("Running", "Succeeded"))
    stage.say(
        f"  {RESTRICTED} (Pod Security: restricted): one vGPU, no volume in the pod; hook and socket came with the"
    )
    stage.say("    allocation, and it runs")


def show_landing(stage: Stage) -> Sequence[str]:
    stage.title(5, f"where they landed: {GPUS} GPUs")
    jobs = list(_jobs(stage.seconds))
    stage.house.schedulerd("nvsharectl", "quantum", _QUANTUM)
    for job in jobs:
        stage.house.kubectl("create", "-n", TEAM, "-f", "-", stdin=yaml.safe_dump(job))
    names_of = [job["metadata"]["name"] for job in jobs]
    for name in names_of:
        stage.house.wait_phase(TEAM, name, ("Running", "Succeeded"))
    letters = {card.uuid: f"GPU {card.index}" for card in stage.house.record().cards}
    for name in names_of:
        where = ", ".join(letters.get(uuid, uuid) for uuid in stage.house.uuids(TEAM, name))
        stage.say(f"  {name:<12} {where}")
    stage.say(f"  two pods want each GPU, a turn is {_QUANTUM}; nvsharectl status, on the node:")
    stage.quote(stage.house.schedulerd("nvsharectl", "status"), ink=Ink.DIM)
    return names_of


def _jobs(seconds: float) -> Iterator[Object]:
    """Yield a gang, a per-device pod, and a single for each GPU, so that two pods want each GPU."""
    both = ("burn", "--devices", "0,1", "--kernel-ms", "5", *BIG, "--seconds", f"{seconds:g}")
    yield pod("gang", Wish(gpus=2, command=(*both, "--together", "2"), annotations={names.MULTI_GPU: "gang"}))
    yield pod("per-device", Wish(gpus=2, command=both, annotations={names.MULTI_GPU: "per-device"}))
    for number in range(GPUS):
        yield pod(f"single-{number}", Wish(command=("burn", "--kernel-ms", "5", *BIG, "--seconds", f"{seconds:g}")))


def show_turns(stage: Stage, jobs: Sequence[str]) -> None:
    stage.title(6, "which pod had which GPU when (from the software GPU's record)")
    for name in jobs:
        stage.house.wait_phase(TEAM, name, ("Succeeded",), seconds=stage.seconds * 6 + 60)
    bars = read_bars(stage.house, jobs)
    for line in draw_turns(bars, stage.brush):
        stage.say(line)
    stage.say(
        f"  two pods on one GPU at once: {overlap_seconds(bars):.3f} s;"
        f" GPUs busy {100 * busy_share(bars):.0f} % of the time"
    )


def read_bars(house: House, who: Sequence[str]) -> list[Bar]:
    """Read the record of these pods, a GPU a line."""
    record = house.record()
    return [
        Bar(f"GPU {card.index}", interval.owner.label, interval.start, interval.end)
        for card in record.cards
        for interval in record.intervals(card.index)
        if interval.owner.label in who
    ]


def show_numbers(stage: Stage, before: tuple[float, float]) -> None:
    stage.title(7, "the numbers")
    reviews, spent = (now - then for now, then in zip(read_reviews(stage.house), before, strict=True))
    stage.say(
        f"  {reviews:.0f} reviews by the webhook, {1000 * spent / max(reviews, 1):.1f} ms each as the API server saw it"
    )
    certificates = stage.house.kubectl(
        "-n", SYSTEM, "exec", "deploy/nvshare-webhook", "--", "nvshare-webhook", "certs", "status"
    )
    stage.quote("\n".join(certificates.splitlines()[:3]), ink=Ink.DIM)


def read_reviews(house: House) -> tuple[float, float]:
    """Return how many reviews the API server asked for, and their seconds; the first ones find no webhook yet."""
    said = house.kubectl("get", "--raw", "/metrics").splitlines()
    ours = [line for line in said if "nvshare.com" in line]
    kinds = ("webhook_request_total", "webhook_admission_duration_seconds_sum")
    counts, seconds = (
        sum(_value(line) for line in ours if line.startswith(f"apiserver_admission_{kind}")) for kind in kinds
    )
    return counts, seconds


def _value(line: str) -> float:
    return float(line.rsplit(" ", 1)[1])


@contextmanager
def open_house(*, keep: bool, say: Callable[[str], None]) -> Iterator[House]:
    """Start a node with the image; with `keep` it stays until `make cluster-down`."""
    check_machine(say=say)
    leftovers.remove_abandoned(say=say)
    archive = image.archive(Target.SIMGPU, say=say)
    run = runs.begin()
    try:
        made = start_cluster(run, Shape(stays=keep), say=say)
        node = made.nodes[0]
        node.containerd.import_image(archive)
        yield House(node)
        if keep:
            (run.folder / _KEPT).touch()
            run.hand_over_to(node.sandbox.init_pid)
    except BaseException:
        leftovers.remove(run)
        raise
    if not keep:
        leftovers.remove(run)


def _tell_what_to_try(house: House) -> None:
    print(f"""
  export KUBECONFIG={house.plane.kubeconfig}
  export PATH={Path(house.plane.kubectl_command()[0]).parent}:$PATH
  kubectl apply -f manifests/samples/one-vgpu.yaml; kubectl logs -n {TEAM} one-vgpu
  kubectl -n {SYSTEM} exec -it ds/nvshare-schedulerd -- nvsharectl top
  make cluster-down""")


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make demo-cluster", description="The whole story on a real Kubernetes node.")
    parser.add_argument(
        "--keep", action="store_true", help="leave the cluster up for playing, until `make cluster-down`"
    )
    parser.add_argument("--seconds", type=float, default=8.0, help="how long the jobs compute (default: %(default)s)")
    arguments = parser.parse_args(words)
    began = time.monotonic()
    print(
        "nvshare-guard on a real node. The GPUs are software: times are simulated. Everything else is the real thing."
    )
    try:
        with open_house(keep=arguments.keep, say=lambda text: print(f"  {text}", flush=True)) as house:
            tell(Stage(house, Brush(sys.stdout.isatty()), arguments.seconds))
            print(f"\n({time.monotonic() - began:.0f} s)")
            if arguments.keep:
                _tell_what_to_try(house)
    except ClusterError as error:
        print(f"demo-cluster: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo-cluster: ended by you; nothing is left running", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
