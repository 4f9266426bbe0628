"""`python -m testbed.cluster up | down | image`: the commands behind `make cluster-up`, `cluster-down` and `image`.

The rule: each command says what it does and how far it is, and ends with commands to try.
"""

import argparse
import sys
import time
from pathlib import Path

from testbed.cluster.errors import BrokenError, ClusterError
from testbed.cluster.kubernetes.containerd import import_image
from testbed.cluster.kubernetes.node import Cluster, Shape, check_machine, start_cluster
from testbed.cluster.machine import leftovers, runs
from testbed.cluster.machine.runs import Run
from testbed.cluster.machine.sandbox import init_pids
from testbed.cluster.supplies import image
from testbed.cluster.supplies.image import Target

_KEPT = "kept"
"""The name of a file in a run's folder: `up` made the run, and `down` ends it."""
_BEGAN = time.monotonic()


def say(line: str) -> None:
    print(f"{time.monotonic() - _BEGAN:6.1f} s  {line}", flush=True)


def up(arguments: argparse.Namespace) -> None:
    """Start a cluster that stays, with the project's image in it."""
    check_machine(say=say)
    leftovers.remove_abandoned(say=say)
    if running := list(_kept()):
        raise BrokenError(f"a cluster is up already: {_kubeconfig(running[0])}", "use it, or end it: make cluster-down")
    archives = [] if arguments.no_image else [image.archive(target, say=say) for target in Target]
    run = runs.begin()
    try:
        made = start_cluster(run, Shape(nodes=arguments.nodes, stays=True), say=say)
        for node in made.nodes:
            for archive in archives:
                say(f"importing {archive.parent.name} into {node.name}")
                node.containerd.import_image(archive)
        (run.folder / _KEPT).touch()
        run.hand_over_to(made.nodes[0].sandbox.init_pid)
    except BaseException:
        leftovers.remove(run)
        raise
    _tell_what_to_try(made, with_image=bool(archives))


def _tell_what_to_try(made: Cluster, *, with_image: bool) -> None:
    say("up")
    plane = made.plane
    print(f"""
  export KUBECONFIG={plane.kubeconfig}
  export PATH={Path(plane.kubectl_command()[0]).parent}:$PATH
  kubectl get nodes -o wide
  kubectl run hello --image=nvshare.local/busybox:1 --image-pull-policy=Never --restart=Never -- echo hello
  kubectl logs hello
""")
    if with_image:
        print("  images in the node, with imagePullPolicy: Never")
        print("".join(f"    {target.value}\n" for target in Target))
        print(
            f"  kubectl apply -k {image.REPOSITORY}/manifests/overlays/simgpu   # the whole of it, on software GPUs\n"
        )
    print(f"  logs: {plane.run.logs}\n  end:  make cluster-down")


def down(_: argparse.Namespace) -> None:
    """End the cluster of `up`, and remove what killed runs left behind."""
    ended = leftovers.remove_abandoned(say=say)
    for run in list(_kept()):
        say(f"ending the cluster of run {run.name}")
        leftovers.remove(run)
        ended.append(run.name)
    say("nothing of it is left" if ended else "nothing was running")


def make_image(_: argparse.Namespace) -> None:
    """Build both images, and import them into the nodes of `up`."""
    archives = {target: image.archive(target, say=say) for target in Target}
    for target, archive in archives.items():
        say(f"{target.value}: {archive} ({archive.stat().st_size / 1e6:.0f} MB)")
        for run in _kept():
            for init_pid in init_pids(run):
                import_image(init_pid, archive)
            say(f"  imported into the nodes of run {run.name}")


def _kept() -> list[Run]:
    return [run for run in runs.known() if (run.folder / _KEPT).exists()]


def _kubeconfig(run: Run) -> str:
    return str(run.folder / "guard-admin.kubeconfig")


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m testbed.cluster", description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(required=True, metavar="up | down | image")
    begin = commands.add_parser("up", help=up.__doc__)
    begin.add_argument("--nodes", type=int, default=1, choices=range(1, 10), metavar="1-9")
    begin.add_argument("--no-image", action="store_true", help="without the project's own images")
    begin.set_defaults(run=up)
    commands.add_parser("down", help=down.__doc__).set_defaults(run=down)
    commands.add_parser("image", help=make_image.__doc__).set_defaults(run=make_image)
    arguments = parser.parse_args(words)
    try:
        arguments.run(arguments)
    except ClusterError as error:
        print(f"nvshare-guard: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("nvshare-guard: interrupted; everything that was started has been removed", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
