"""The program `nvshare-schedulerd`: read the settings, start a part, and say in one sentence why that fails."""

import logging
import os
import sys

from contract.wire.control import encode_request
from schedulerd.errors import SchedulerError
from schedulerd.settings import PROBES, build_parser, read_settings


def main(arguments: list[str] | None = None) -> int:
    """Run until told to stop; return the exit code."""
    flags = build_parser().parse_args(arguments)
    try:
        settings = read_settings(flags, os.environ)
        logging.basicConfig(
            level=settings.log_level.upper(),
            format="%(asctime)s %(levelname)s %(name)s: %(message)s",
            stream=sys.stderr,
        )
        if flags.part == "observe":
            from schedulerd.observer.process import observe

            return observe(settings)
        if flags.part in PROBES:
            from schedulerd.control.client import probe

            print(probe(settings.control, encode_request(PROBES[flags.part])))
            return 0
        from schedulerd.daemon import run_turns

        return run_turns(settings, sys.argv[1:] if arguments is None else arguments)
    except SchedulerError as error:
        print(f"nvshare-schedulerd: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
