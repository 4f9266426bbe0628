"""Container images without a registry: one-layer archives that `ctr images import` reads.

The rule: plain bytes in, a tar out.  Nothing is pulled from anywhere.
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

_BUSYBOX = "bin/busybox"


def write_archive(
    path: Path, *, name: str, files: Mapping[str, bytes], links: Mapping[str, str], command: Sequence[str]
) -> None:
    """Write an image archive with `files` (all executable) and symbolic `links` in one layer."""
    layer = _tar({**{file: (content, 0o755) for file, content in files.items()}}, links)
    configuration = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Cmd": list(command), "Env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        }
    ).encode()
    manifest = json.dumps([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
    parts = {"config.json": configuration, "layer.tar": layer, "manifest.json": manifest}
    path.write_bytes(_tar({part: (content, 0o644) for part, content in parts.items()}, {}))


def _tar(files: Mapping[str, tuple[bytes, int]], links: Mapping[str, str]) -> bytes:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        for file, (content, mode) in files.items():
            entry = tarfile.TarInfo(file)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
        for link, target in links.items():
            entry = tarfile.TarInfo(link)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            archive.addfile(entry)
    return whole.getvalue()


def write_busybox(path: Path, *, name: str, busybox: Path, applets: Sequence[str]) -> None:
    """Write Debian's static busybox under all its names: shell, wget, nc, … for small pods."""
    links = {f"bin/{applet}": "busybox" for applet in applets if applet != "busybox"}
    write_archive(path, name=name, files={_BUSYBOX: busybox.read_bytes()}, links=links, command=["sh"])


def write_pause(path: Path, *, name: str, busybox: Path) -> None:
    """Write the image that holds a pod's namespaces open: a process that sleeps."""
    command = [f"/{_BUSYBOX}", "sleep", "2147483647"]
    write_archive(path, name=name, files={_BUSYBOX: busybox.read_bytes()}, links={}, command=command)
