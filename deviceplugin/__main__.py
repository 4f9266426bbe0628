"""`nvshare-device-plugin`: `serve` on a node, `explain` a choice anywhere.

Owns the command line: reads flags, sets up logging, turns our errors into one sentence and an exit code.
May import `settings`, `serve`, `explain`, `errors`.
"""

import argparse
import logging
import os
import sys
from collections.abc import Sequence

from deviceplugin import settings
from deviceplugin.errors import DevicePluginError


def _serve(given: argparse.Namespace) -> int:
    from deviceplugin.serve import serve

    return serve(settings.read_settings(given))


def build_parser() -> argparse.ArgumentParser:
    """Every command and flag."""
    parser = argparse.ArgumentParser(prog="nvshare-device-plugin", description="Slots on shared GPUs for the kubelet.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    serving = commands.add_parser("serve", help="serve the kubelet until SIGTERM")
    settings.add_arguments(serving, os.environ)
    serving.set_defaults(run=_serve)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    given = build_parser().parse_args(arguments)
    try:
        return int(given.run(given))
    except DevicePluginError as error:
        print(f"nvshare-device-plugin: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
