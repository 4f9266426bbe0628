"""`python -m tests.deviceplugin.serve_fake N …flags of serve…`: the real plugin on N GPUs that do not exist.

It serves a machine without NVML, or one where the software GPU is not built yet.
"""

import argparse
import logging
import sys

from deviceplugin import settings
from deviceplugin.plugin import Plugin, stop_when_told
from tests.fakes.gpus import FakeLibrary, make_gpu


def main(arguments: list[str]) -> int:
    logging.basicConfig(level=logging.INFO)
    parser = argparse.ArgumentParser()
    settings.TABLE.add_flags(parser)
    stop = stop_when_told()
    library = FakeLibrary(*(make_gpu(number) for number in range(int(arguments[0]))))
    Plugin(settings.read_settings(vars(parser.parse_args(arguments[1:])), {}, {}), library).run(stop)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
