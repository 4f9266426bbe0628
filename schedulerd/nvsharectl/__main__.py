"""`nvsharectl`: what an operator sees of the turns on this node, and what she changes.

It must start in 100 ms: a module that only one command needs is imported by that command.
"""

import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping

from contract import paths
from schedulerd.control.client import ControlClient
from schedulerd.errors import SchedulerError
from schedulerd.nvsharectl import render

_HOME_AND_CLEAR = "\x1b[H\x1b[J"


def _status(flags: Namespace) -> None:
    with ControlClient(flags.control) as client:
        lines = list(client.ask("status"))
    if flags.json:
        import json

        print(json.dumps(render.as_json(lines), indent=2))
    else:
        print(render.as_text(lines))


def _top(flags: Namespace) -> None:
    before: Mapping[tuple[str, str], int] = {}
    asked_at = time.monotonic()
    rounds = 0
    while flags.rounds == 0 or rounds < flags.rounds:
        with ControlClient(flags.control) as client:
            lines = list(client.ask("status"))
        now = time.monotonic()
        text = render.as_top(lines, before, seconds=now - asked_at)
        before, asked_at = render.held(lines), now
        sys.stdout.write((_HOME_AND_CLEAR if sys.stdout.isatty() else "") + text + "\n")
        sys.stdout.flush()
        rounds += 1
        if rounds != flags.rounds:
            time.sleep(flags.every)


def _steer(verb: str, **words: str | None) -> Callable[[Namespace], None]:
    """A command that changes something; the words are the names of its arguments."""

    def run(flags: Namespace) -> None:
        said = {key: str(value) for key, name in words.items() if name and (value := getattr(flags, name)) is not None}
        with ControlClient(flags.control) as client:
            for _ in client.ask(verb, **said):
                pass
        print("done")

    return run


def _drain(flags: Namespace) -> None:
    with ControlClient(flags.control) as client:
        for _ in client.ask("drain", gpu=flags.gpu, now="1" if flags.now else "0"):
            pass
    print("done: nothing new is placed on it" + (", and nobody gets a turn" if flags.now else ""))


def build_parser() -> ArgumentParser:
    """The command line."""
    parser = ArgumentParser(prog="nvsharectl", description="Shows and steers who uses which GPU of this node.")
    parser.add_argument("--control", default=paths.NODE_CONTROL_SOCKET, help="the scheduler's socket")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    status = commands.add_parser("status", help="GPUs, and who holds or waits for each")
    status.add_argument("--json", action="store_true", help="for programs")
    status.set_defaults(run=_status)
    top = commands.add_parser("top", help="the same, live, with each container's share of each GPU")
    top.add_argument("--every", type=float, default=1.0, metavar="SECONDS", help="between two looks (default: 1)")
    top.add_argument("--rounds", type=int, default=0, help="looks before it ends (default: until interrupted)")
    top.set_defaults(run=_top)
    quantum = commands.add_parser("quantum", help="fix how long a turn lasts, or let it adapt again")
    quantum.add_argument("time", help="auto, or a duration such as 500ms or 30s")
    quantum.add_argument("gpu", nargs="?", help="one GPU's UUID (default: all)")
    quantum.set_defaults(run=_steer("quantum", time="time", gpu="gpu"))
    policy = commands.add_parser("policy", help="choose who goes first")
    policy.add_argument("name", help="fair, rr, priority, sjf or fcfs")
    policy.set_defaults(run=_steer("policy", name="name"))
    drain = commands.add_parser("drain", help="place nothing new on a GPU; `resume` ends it")
    drain.add_argument("gpu", help="its UUID")
    drain.add_argument("--now", action="store_true", help="those that are on it get no turn either")
    drain.set_defaults(run=_drain)
    for verb, text in (("pause", "grant nothing until `resume`"), ("resume", "end a pause or a drain")):
        command = commands.add_parser(verb, help=text)
        command.add_argument("gpu", nargs="?", help="one GPU's UUID (default: all)")
        command.set_defaults(run=_steer(verb, gpu="gpu"))
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the exit code is for the shell."""
    flags = build_parser().parse_args(arguments)
    try:
        flags.run(flags)
    except SchedulerError as error:
        print(f"nvsharectl: {error}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, BrokenPipeError):
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
