"""`python -m testbed.demo`: read the flags, tell the story, turn errors into two lines and an exit code."""

import argparse
import contextlib
import sys
import tempfile
import time
from pathlib import Path

from testbed.demo.drawing import Brush
from testbed.demo.errors import DemoError
from testbed.demo.story import Settings, Stage, elapsed, tell


def read_settings(arguments: list[str]) -> Settings:
    """Read the settings from the command line."""
    parser = argparse.ArgumentParser(prog="make demo", description="The main job in a minute, on software GPUs.")
    parser.add_argument(
        "--seconds", type=_seconds, default=Settings.seconds, help="how long the jobs run (default: %(default)s)"
    )
    parser.add_argument("--devices", default=Settings.devices, help="software GPUs (default: %(default)s)")
    parser.add_argument("--port", type=int, default=Settings.port, help="the webhook's port; 0 takes a free one")
    return Settings(**vars(parser.parse_args(arguments)))


def _seconds(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0.5 <= (seconds := float(text)) <= 600:
            return seconds
    raise argparse.ArgumentTypeError(f"{text} is no number from 0.5 to 600")


def main(arguments: list[str]) -> int:
    began = time.monotonic()
    settings = read_settings(arguments)
    try:
        with tempfile.TemporaryDirectory(prefix="nvshare-demo-") as folder:
            tell(Stage(Path(folder), settings, Brush(sys.stdout.isatty()), print))
    except DemoError as error:
        print(f"demo: {error}\n  fix: {error.fix}", file=sys.stderr)
        return 1
    except OSError as error:
        print(
            f"demo: {error.strerror}: {error.filename}\n  fix: give this user a place to write (TMPDIR) and room",
            file=sys.stderr,
        )
        return 1
    except KeyboardInterrupt:
        print("demo: ended by you; nothing is left running", file=sys.stderr)
        return 130
    print(f"\n({elapsed(began)})")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
