"""`make demo-cluster FRAMEWORK=torch`: unmodified PyTorch trains on a real node, in turns with other programs.

kubelet, containerd, API server, webhook, device plugin, scheduler, hook and PyTorch's wheel are real; the GPUs and
NVIDIA's libraries are software of ours.
"""

import argparse
import sys
import time

from testbed.cluster.errors import ClusterError
from testbed.demo.cluster import TEAM, Stage, install, open_house, read_bars, read_reviews, show_numbers
from testbed.demo.drawing import Brush, Ink, draw_turns
from testbed.frameworks import on_node
from testbed.frameworks.errors import FrameworksError

QUANTUM = "1s"


def tell(stage: Stage) -> None:
    """Tell the story of the PyTorch pods."""
    on_node.load_image(stage.house, say=stage.say)
    install(stage)
    before = read_reviews(stage.house)
    stage.title(2, "PyTorch beside another program on each GPU")
    stage.house.schedulerd("nvsharectl", "quantum", QUANTUM)
    trained = on_node.train(stage.house, TEAM, stage.seconds)
    names = on_node.names_of(on_node.pods(stage.seconds))
    for line in draw_turns(read_bars(stage.house, names), stage.brush):
        stage.say(line)
    stage.say(f"  {trained.line()}")
    stage.title(3, "a pod's own words")
    stage.quote(stage.house.kubectl("logs", "-n", TEAM, "torch-0"), ink=Ink.DIM)
    show_numbers(stage, before)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make demo-cluster FRAMEWORK=torch", description="PyTorch on a real node.")
    parser.add_argument("framework", choices=("torch",))
    parser.add_argument("--seconds", type=float, default=12.0, help="how long the jobs train (default: %(default)s)")
    chosen = parser.parse_args(words)
    began = time.monotonic()
    try:
        with open_house(keep=False, say=lambda text: print(f"  {text}", flush=True)) as house:
            tell(Stage(house, Brush(sys.stdout.isatty()), chosen.seconds))
    except FrameworksError as error:
        print(f"demo-cluster: {error}\n  fix: {error.fix}", file=sys.stderr)
        return 1
    except ClusterError as error:
        print(f"demo-cluster: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo-cluster: ended by you; nothing is left running", file=sys.stderr)
        return 130
    print(f"\n({time.monotonic() - began:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
