"""The stand-ins: ours, from public headers; what they do not make they refuse, and they ask nothing private."""

import subprocess
from pathlib import Path

import pytest

from testbed.frameworks.libraries import LIBRARIES, owner
from testbed.frameworks.standins import SOURCES, generate

LAUNCHING, REFUSING = (
    next(library for library in LIBRARIES if library.soname == name)
    for name in ("libcublas.so.13", "libcusolver.so.12")
)


def test_no_stand_in_asks_for_a_private_table_of_the_driver() -> None:
    """NVIDIA's runtime does (cuGetExportTable); answering or asking it is a line that is not crossed."""
    asking = [path.name for path in SOURCES.rglob("*.*") if "ExportTable" in path.read_text()]
    assert not asking


@pytest.mark.parametrize(
    ("symbol", "soname"),
    [
        ("cudaMalloc", "libcudart.so.13"),
        ("__cudaRegisterFatBinary", "libcudart.so.13"),
        ("cublasSgemm_v2", "libcublas.so.13"),
        ("cublasLtMatmul", "libcublasLt.so.13"),
        ("cusparseLtInit", "libcusparseLt.so.0"),
        ("cusparseSpMM", "libcusparse.so.12"),
    ],
)
def test_a_function_belongs_to_the_library_with_the_longest_prefix(symbol: str, soname: str) -> None:
    library = owner(symbol)
    assert library is not None
    assert library.soname == soname


def test_a_function_of_nobody_is_left_to_the_loader() -> None:
    assert owner("cuMemAlloc_v2") is None


def test_a_product_is_generated_with_its_sizes_and_other_work_as_a_short_kernel() -> None:
    written = generate(LAUNCHING, ["cublasGemmEx", "cublasSaxpy_v2"])
    assert "standin_product(handle, &kernel, m, n, k)" in written
    assert '"cublasSaxpy_v2_param"' in written


def test_a_function_that_is_not_made_refuses_with_its_librarys_own_status(tmp_path: Path) -> None:
    (tmp_path / "made.c").write_text(
        generate(REFUSING, ["cusolverDnSpotrf"]).replace('#include "math/cublas.h"', "")
        + "int main(void) { return cusolverDnSpotrf(); }\n"
    )
    program = tmp_path / "made"
    sources = (str(tmp_path / "made.c"), str(SOURCES / "math" / "status.c"))
    command = ["gcc", "-Werror", f"-I{SOURCES}", "-o", str(program), *sources]
    subprocess.run(command, check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.returncode == REFUSING.status
    assert done.stderr == "libcusolver.so.12 (stand-in): cusolverDnSpotrf is not made; the answer is status 9\n"
