"""Writes what is generated in `schedulerd/kubelet_api/`: `python -m tests.schedulerd.observer.generate_kubelet_api`."""

import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc

ROOM = Path(__file__).parents[3] / "schedulerd" / "kubelet_api"
PROTO = ROOM / "schedulerd_podresources_v1.proto"


def generate(into: Path) -> list[Path]:
    """The generated files, in `into`."""
    if protoc.main(["protoc", f"-I{ROOM}", f"--python_out={into}", f"--pyi_out={into}", str(PROTO)]) != 0:
        raise SystemExit(f"protoc refused {PROTO.name}; its own message stands above")
    for stub in into.glob(f"{PROTO.stem}_pb2.pyi"):
        stub.write_text(stub.read_text().replace("_Mapping]", "_Mapping[str, object]]"))  # mypy wants to know of what
    return sorted(into.glob(f"{PROTO.stem}_pb2.py*"))


def stale() -> list[str]:
    """The committed files that differ from what would be generated now."""
    with tempfile.TemporaryDirectory() as folder:
        fresh = generate(Path(folder))
        return [one.name for one in fresh if one.read_text() != (ROOM / one.name).read_text()]


if __name__ == "__main__":
    generate(ROOM)
    sys.exit(0)
