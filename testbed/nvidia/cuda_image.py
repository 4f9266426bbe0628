"""An image like NVIDIA's CUDA images: it asks for all GPUs by its own environment, and brings no driver.

The rule: it is our image with another configuration, so it costs no second copy of the layers.
"""

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

from testbed.cluster.kubernetes.node import Node

NAME = "nvshare.local/cuda:dev"
"""Asks for all cards, as NVIDIA's own images do."""
OTHER = "nvshare.local/cuda-of-another:dev"
"""Asks for one certain card."""
_OCI = "application/vnd.oci.image"


def put(node: Node, archive: Path, *, made_from: str, name: str, cards: str) -> None:
    """Import one that asks for `cards`; the node has the layers already, from the archive of the other image."""
    with tarfile.open(archive) as source:
        manifest = json.loads(_read(source, "manifest.json"))[0]
        assert made_from in manifest["RepoTags"], f"{archive} is no image {made_from}"
        configuration = json.loads(_read(source, manifest["Config"]))
        sizes = [source.getmember(layer).size for layer in manifest["Layers"]]
    settings = configuration["config"]
    added = [f"NVIDIA_VISIBLE_DEVICES={cards}", "NVIDIA_DRIVER_CAPABILITIES=compute,utility"]
    # without the path of simgpu's libraries: the driver must come from the node
    settings["Env"] = [line for line in settings["Env"] if not line.startswith("LD_LIBRARY_PATH=")] + added
    made = node.path("/run/cuda.tar")
    with tarfile.open(made, "w") as target:
        described = _put_blob(target, "config", json.dumps(configuration).encode())
        # a layer that was not compressed has the digest of its content
        layers = [
            {"mediaType": f"{_OCI}.layer.v1.tar", "digest": digest, "size": size}
            for digest, size in zip(configuration["rootfs"]["diff_ids"], sizes, strict=True)
        ]
        about = {"schemaVersion": 2, "mediaType": f"{_OCI}.manifest.v1+json", "config": described, "layers": layers}
        entry = _put_blob(target, "manifest", json.dumps(about).encode())
        entry["annotations"] = {"io.containerd.image.name": name}
        _add(target, "index.json", json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode())
        _add(target, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
    node.containerd.import_image(Path("/run/cuda.tar"))
    made.unlink()


def _put_blob(archive: tarfile.TarFile, kind: str, content: bytes) -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    _add(archive, f"blobs/sha256/{digest}", content)
    return {"mediaType": f"{_OCI}.{kind}.v1+json", "digest": f"sha256:{digest}", "size": len(content)}


def _read(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    assert file is not None
    return file.read()


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))
