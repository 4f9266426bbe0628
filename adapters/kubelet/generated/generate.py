"""Write the generated files beside their `.proto`: `python -m adapters.kubelet.generated.generate`.

Needs grpcio-tools, which is a tool of developers and no dependency of the product.
A test calls `generate` and says when the committed files are stale.
"""

from pathlib import Path

from grpc_tools import protoc

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
_FOR_MYPY = '# mypy: disable-error-code="type-arg"\n'
"""protoc writes bare `Mapping`s."""


def generate(into: Path) -> None:
    """Write the Python of every description under `into`, in the same folders as under the repository."""
    for source in sorted(HERE.glob("*.proto")):
        if protoc.main(["protoc", f"-I{ROOT}", f"--python_out={into}", f"--pyi_out={into}", str(source)]) != 0:
            raise SystemExit(f"protoc refused {source.name}; its own message stands above")
    for stub in (into / HERE.relative_to(ROOT)).glob("*_pb2.pyi"):
        stub.write_text(_FOR_MYPY + stub.read_text())


if __name__ == "__main__":
    generate(ROOT)
