"""`nvshare-device-plugin`: `serve` and `doctor` on a node, `explain` a choice anywhere, `healthz` for probes.

The module owns the command line: it reads flags, sets up logging, and turns our errors into one sentence and an exit
code.  `doctor` has its own: 0 all is well, 1 something is missing or wrong, 2 it was called wrongly.
"""

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence

from adapters.pages.health import ask_health
from deviceplugin import explain, settings
from deviceplugin.errors import BadSetting, DevicePluginError, NotWell

_PROBE_SECONDS = 4.0
"""Less than a kubelet waits, so that the sentence reaches its event."""
_BAD_USE = 2
"""As argparse ends for a flag that does not exist."""

log = logging.getLogger(__name__)


def _serve(given: argparse.Namespace) -> int:
    from adapters.kubernetes.client import load_library
    from deviceplugin.plugin import serve
    from deviceplugin.supervisor import supervise

    values = settings.TABLE.read(vars(given), os.environ, settings.TABLE.read_file(given.settings))
    log.info("settings: %s", settings.TABLE.describe(values))
    read = settings.build(values)
    if given.no_supervisor:
        return serve(read)
    return supervise(lambda turn: _report_errors(lambda: serve(read, turn)), load_library)


def _explain(given: argparse.Namespace) -> int:
    print(explain.explain(given))
    return 0


def _doctor(given: argparse.Namespace) -> int:
    from deviceplugin.doctor.run import examine_node

    logging.getLogger().setLevel(logging.WARNING)  # its report says what the log would
    try:
        read = settings.read_settings(vars(given), os.environ, settings.TABLE.read_file(given.settings))
    except BadSetting as error:
        print(f"nvshare-device-plugin: {error}", file=sys.stderr)
        return _BAD_USE
    return examine_node(read, as_json=given.json)


def _healthz(given: argparse.Namespace) -> int:
    is_well, sentence = ask_health(settings.read_health_socket(vars(given), os.environ), within=_PROBE_SECONDS)
    if not is_well:
        raise NotWell(sentence)
    print(sentence)
    return 0


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of every command and flag."""
    parser = argparse.ArgumentParser(prog="nvshare-device-plugin", description="Slots on shared GPUs for the kubelet.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    serving = commands.add_parser("serve", help="serve the kubelet until SIGTERM")
    settings.TABLE.add_flags(serving)
    serving.add_argument(
        "--no-supervisor", action="store_true", help="run one process that is not started again when it dies"
    )
    serving.set_defaults(run=_serve)
    probing = commands.add_parser("healthz", help="ask the plugin that runs here whether it is well")
    settings.HEALTH_SOCKET.add_flag(probing)
    probing.set_defaults(run=_healthz)
    examining = commands.add_parser(
        "doctor",
        help="check this node, and say what is missing and how to fix it",
        description="Check this node: one line each with OK, MISSING, WRONG or UNSEEN, and the fix.",
        epilog="Exit code: 0 all is well, 1 something is missing or wrong, 2 bad use.",
    )
    settings.TABLE.add_flags(examining)
    examining.add_argument("--json", action="store_true", help="a list of findings instead of lines")
    examining.set_defaults(run=_doctor)
    explaining = commands.add_parser("explain", help="which slots a container would get, and why")
    explain.add_arguments(explaining)
    explaining.set_defaults(run=_explain)
    return parser


def _report_errors(work: Callable[[], int]) -> int:
    try:
        return work()
    except DevicePluginError as error:
        print(f"nvshare-device-plugin: {error}", file=sys.stderr)
        return 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    given = build_parser().parse_args(arguments)
    return _report_errors(lambda: int(given.run(given)))


if __name__ == "__main__":
    sys.exit(main())
