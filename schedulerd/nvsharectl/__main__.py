"""`nvsharectl`: what an operator sees of the turns on this node, and how she changes them.

The rule it owns: it starts in 100 ms.  A module that only one command needs is imported by that command.
"""

import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable

from contract.errors import ContractError
from contract.words import paths
from schedulerd.control.client import ControlClient
from schedulerd.errors import SchedulerError
from schedulerd.nvsharectl import render

_HOME_AND_CLEAR = "\x1b[H\x1b[J"


def _status(flags: Namespace) -> None:
    with ControlClient(flags.control) as client:
        status = client.read_status()
    if flags.json:
        import json

        print(json.dumps(render.as_json(status), indent=2))
    else:
        print(render.as_text(status))


def _top(flags: Namespace) -> None:
    before: render.Held = {}
    asked_at = time.monotonic()
    rounds = 0
    while flags.rounds == 0 or rounds < flags.rounds:
        with ControlClient(flags.control) as client:
            status = client.read_status()
        now = time.monotonic()
        text = render.as_top(status, before, seconds=now - asked_at)
        before, asked_at = render.list_held(status), now
        sys.stdout.write((_HOME_AND_CLEAR if sys.stdout.isatty() else "") + text + "\n")
        sys.stdout.flush()
        rounds += 1
        if rounds != flags.rounds:
            time.sleep(flags.every)


def _steer(flags: Namespace) -> None:
    """Ask for one change, and print that it was made."""
    from contract.wire.control import (
        Drain,
        OperatorRequest,
        Pause,
        Resume,
        SetPolicy,
        SetQuantum,
        encode_request,
        read_quantum,
    )

    gpu = getattr(flags, "gpu", None)
    requests: dict[str, Callable[[], OperatorRequest]] = {
        "quantum": lambda: SetQuantum(read_quantum(flags.time), gpu),
        "policy": lambda: SetPolicy(flags.name),
        "drain": lambda: Drain(flags.gpu, now=flags.now),
        "pause": lambda: Pause(gpu),
        "resume": lambda: Resume(gpu),
    }
    with ControlClient(flags.control) as client:
        list(client.ask(encode_request(requests[flags.command]())))
    effect = _effect(flags) if flags.command in ("policy", "drain") else ""
    print(f"done: {effect}" if effect else "done")


def _effect(flags: Namespace) -> str:
    """Return what is different from now on."""
    if flags.command == "drain":
        return "nothing new is placed on it" + (", and nobody gets a turn" if flags.now else "")
    from schedulerd.policies import POLICIES

    policy = POLICIES.get(flags.name)
    return "" if policy is None else policy.sentence  # the daemon may be newer, and know more of them


def build_parser() -> ArgumentParser:
    """Return the command line."""
    parser = ArgumentParser(prog="nvsharectl", description="Shows and steers who uses which GPU of this node.")
    parser.add_argument("--control", default=paths.NODE_CONTROL_SOCKET, help="the scheduler's socket")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
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
    quantum.set_defaults(run=_steer)
    policy = commands.add_parser("policy", help="choose who goes first")
    policy.add_argument("name", help="its name, such as fair; the answer to a wrong one lists all")
    policy.set_defaults(run=_steer)
    drain = commands.add_parser("drain", help="place nothing new on a GPU until `resume`")
    drain.add_argument("gpu", help="its UUID")
    drain.add_argument("--now", action="store_true", help="give its containers no turn either")
    drain.set_defaults(run=_steer)
    for verb, text in (("pause", "grant nothing until `resume`"), ("resume", "end a pause or a drain")):
        command = commands.add_parser(verb, help=text)
        command.add_argument("gpu", nargs="?", help="one GPU's UUID (default: all)")
        command.set_defaults(run=_steer)
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return the exit code."""
    flags = build_parser().parse_args(arguments)
    try:
        flags.run(flags)
    except (SchedulerError, ContractError) as error:
        print(f"nvsharectl: {error}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, BrokenPipeError):
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
