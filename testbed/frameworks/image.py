"""An image with PyTorch's unmodified wheel, for pods on a node with software GPUs: built here, never shipped.

The rule: it is the project's simgpu image and two folders on top, the wheels' packages and the stand-ins.  It is named
after what they are made from, so it is built once.
"""

import shutil
import tempfile
from pathlib import Path

from testbed.cluster import cache
from testbed.cluster.cache import Say
from testbed.cluster.supplies import image
from testbed.cluster.supplies.image import Buildah, Target
from testbed.frameworks import standins, wheels

NAME = "nvshare.local/nvshare-guard-torch:dev"
PACKAGES = (
    "torch",
    "torchgen",
    "functorch",
    "numpy",
    "numpy.libs",
    "typing_extensions.py",
    "sympy",
    "mpmath",
    "networkx",
    "jinja2",
    "markupsafe",
    "filelock",
    "fsspec",
    "packaging",
    "nvidia/cu13/lib/libnvrtc.so.13",
    "nvidia/cu13/lib/libnvrtc-builtins.so.13.2",
)
"""What `import torch` and a training loop need of the wheels; Triton's compiler is left out (1 GB)."""
PLACE = "/opt/frameworks"
STEPS = Path(__file__).parent / "steps"


def archive(*, say: Say) -> Path:
    """Return the image as an archive for the node's containerd; build it where this tree has none yet."""
    below = image.archive(Target.SIMGPU, say=say)
    found = wheels.install(say)
    ours = standins.build(found.that_need_libraries(), found.headers, say=say)
    steps = [path.read_bytes() for path in sorted(STEPS.glob("*.py"))]
    key = cache.digest(str(below.parent).encode(), str(found.folder).encode(), str(ours).encode(), *steps)
    made = cache.filled(f"image-torch-{key}", lambda folder: _build(folder, below, found, ours, say), say=say)
    return made / "image.tar"


def _build(folder: Path, below: Path, found: wheels.Wheels, ours: Path, say: Say) -> None:
    for old in cache.root().glob("image-torch-*"):
        if old.is_dir() and old != folder:
            shutil.rmtree(old)  # 1.5 GB each
    say(f"building {NAME}: PyTorch's wheel on top of {Target.SIMGPU.value}")
    buildah = Buildah()
    with cache.locked(cache.root() / "buildah.lock", say=say):
        container = buildah.call("from", f"docker-archive:{below}").strip()
        try:
            _fill(buildah, container, found, ours)
            buildah.call("commit", container, NAME)
        finally:
            buildah.call("rm", container)
        buildah.call("push", NAME, f"docker-archive:{folder / 'image.tar'}:{NAME}")


def _fill(buildah: Buildah, container: str, found: wheels.Wheels, ours: Path) -> None:
    for package in PACKAGES:
        buildah.call("copy", container, str(found.site / package), f"{PLACE}/site/{package}")
    with tempfile.TemporaryDirectory() as name:
        made = Path(name) / "testbed" / "frameworks" / "steps"
        shutil.copytree(STEPS, made, ignore=shutil.ignore_patterns("__pycache__"))
        for above in (made.parent, made.parent.parent):
            (above / "__init__.py").touch()
        buildah.call("copy", container, name, f"{PLACE}/site/")
    for library in sorted(ours.glob("lib*.so*")):
        buildah.call("copy", container, str(library), f"{PLACE}/lib/")
    buildah.call("config", "--env", f"PYTHONPATH={PLACE}/site", container)
    buildah.call("config", "--env", f"LD_LIBRARY_PATH=/opt/simgpu/lib:{PLACE}/lib", container)
