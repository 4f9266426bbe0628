"""Writes the generated files beside their `.proto`: `python -m tests.deviceplugin.kubelet.generate_kubelet_api`.

Owns how they are made, for the developer and for the test that says when they are stale.  Stands among the tests since
grpcio-tools is no dependency of the product.
"""

import sys
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).parents[3]
API = ROOT / "deviceplugin" / "kubelet_api"
_FOR_MYPY = '# mypy: disable-error-code="type-arg"\n'
"""protoc writes bare `Mapping`s."""


def generate(into: Path) -> None:
    """The Python of every description, under `into` as they stand under the repository."""
    for source in sorted(API.glob("*.proto")):
        if protoc.main(["protoc", f"-I{ROOT}", f"--python_out={into}", f"--pyi_out={into}", str(source)]) != 0:
            raise SystemExit(f"protoc refused {source.name}; its own message stands above")
    for stub in (into / API.relative_to(ROOT)).glob("*_pb2.pyi"):
        stub.write_text(_FOR_MYPY + stub.read_text())


if __name__ == "__main__":
    sys.exit(generate(ROOT))
