"""`python -m testbed.libcuda`: fetch every pinned release of NVIDIA's driver library; say which cannot be had."""

import sys

from testbed.cluster.errors import MissingError
from testbed.libcuda.pins import DRIVERS
from testbed.libcuda.supply import fetched


def main() -> int:
    missing = 0
    for driver in DRIVERS:
        try:
            print(f"{driver.version}: {fetched(driver, say=print)}")
        except MissingError as error:
            print(f"{driver.version}: not had: {error}")
            missing += 1
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
