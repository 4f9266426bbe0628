"""Which releases of NVIDIA's driver library the tests are held against.  Plain values.

A mirror drops a package when a newer one replaces it.  Then choose the newer: its version, path and SHA256 stand in the
distribution's Packages index.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Driver:
    version: str
    cuda: int
    """The answer of its cuDriverGetVersion."""
    distribution: str
    path: str
    """Of the package, below the distribution's mirror."""
    sha256: str


DRIVERS = (
    Driver(
        "535.261.03",
        12020,
        "debian",
        "pool/non-free/n/nvidia-graphics-drivers/libcuda1_535.261.03-1_amd64.deb",
        "de1e9ca34164a5983b3f752e6699cf1ad924790f1a843b7d582bab6f99206e1e",
    ),
    Driver(
        "555.58.02",
        12050,
        "debian",
        "pool/non-free/n/nvidia-graphics-drivers/libcuda1_555.58.02-4_amd64.deb",
        "3f2c5cb91c88b5f6ce05c81de553ce3ff72e0772dcd07c7e0a85b8cd408b4457",
    ),
    Driver(
        "580.178.04",
        13000,
        "ubuntu",
        "pool/restricted/n/nvidia-graphics-drivers-580/libnvidia-compute-580_580.178.04-0ubuntu0.24.04.1_amd64.deb",
        "ca6c90bd99ecb40ab8f336b7b2084c5c169b924c1793f17c148e6e8821da12db",
    ),
    Driver(
        "595.99.02",
        13020,
        "ubuntu",
        "pool/restricted/n/nvidia-graphics-drivers-595/libnvidia-compute-595_595.99.02-0ubuntu0.24.04.1_amd64.deb",
        "28379112ad1566f739331a87fbbaaffaa7e4522f54afff076de5a58d3f6ac013",
    ),
)

MIRRORS = {"debian": "NVSHARE_DEBIAN_MIRROR", "ubuntu": "NVSHARE_UBUNTU_MIRROR"}
"""The variable that names a distribution's mirror; without it the mirrors of this machine's apt are asked."""
