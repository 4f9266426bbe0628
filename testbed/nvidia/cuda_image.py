"""An image like NVIDIA's CUDA images: it asks for all GPUs by its own environment, and brings no driver.

The rule: it is our image with another configuration, so it costs no second copy of the layers.
"""

import io
import json
import tarfile
from pathlib import Path

from testbed.cluster.kubernetes.node import Node

NAME = "nvshare.local/cuda:dev"
_ENV = ("NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=compute,utility")


def put(node: Node, archive: Path, *, made_from: str) -> None:
    """Import it into the node from the archive of another image, which the node has already."""
    made = node.path("/run/cuda.tar")
    with tarfile.open(archive) as source, tarfile.open(made, "w") as target:
        manifest = json.loads(_read(source, "manifest.json"))[0]
        assert made_from in manifest["RepoTags"], f"{archive} is no image {made_from}"
        configuration = json.loads(_read(source, manifest["Config"]))
        settings = configuration["config"]
        # without the path of simgpu's libraries: the driver must come from the node
        settings["Env"] = [line for line in settings["Env"] if not line.startswith("LD_LIBRARY_PATH=")] + list(_ENV)
        _add(target, "config.json", json.dumps(configuration).encode())
        for layer in manifest["Layers"]:
            target.addfile(source.getmember(layer), source.extractfile(layer))
        about = [{"Config": "config.json", "RepoTags": [NAME], "Layers": manifest["Layers"]}]
        _add(target, "manifest.json", json.dumps(about).encode())
    node.containerd.import_image(Path("/run/cuda.tar"))
    made.unlink()


def _read(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    assert file is not None
    return file.read()


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))
