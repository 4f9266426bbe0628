"""Which nodes can hold the gate."""

import pytest

from deviceplugin.core.node_limits import NodeKind, machine_of, why_not

X86, ARM = (b"\x7fELF" + bytes(14) + number for number in (b"\x3e\x00", b"\xb7\x00"))


@pytest.mark.parametrize(
    ("kernel", "machine", "hook", "why"),
    [
        pytest.param("5.3.0", "x86_64", X86, "", id="the first kernel with pidfd poll"),
        pytest.param("6.8.0-45-generic", "aarch64", ARM, "", id="Grace"),
        pytest.param("10.0", "x86_64", X86, "", id="numbers are compared as numbers"),
        pytest.param("5.2.21", "x86_64", X86, "no poll for pidfds", id="one too old"),
        pytest.param("4.18.0-553.el8", "x86_64", X86, "Use 5.3", id="Red Hat 8"),
        pytest.param("odd", "x86_64", X86, "", id="a release that nobody can read is no reason"),
        pytest.param("6.1", "riscv64", X86, "no hook for riscv64", id="another architecture"),
        pytest.param("6.1", "aarch64", X86, "built for x86_64, and this node is aarch64", id="the wrong image"),
        pytest.param("6.1", "x86_64", b"\x7fELF" + bytes(14) + b"\xf3\x00", "architecture (243)", id="a RISC-V hook"),
        pytest.param("6.1", "x86_64", b"hook 1", "", id="no ELF file is judged elsewhere"),
        pytest.param("6.1", "x86_64", b"", "", id="no file either"),
    ],
)
def test_why_a_node_is_refused(kernel: str, machine: str, hook: bytes, why: str) -> None:
    said = why_not(NodeKind(kernel, machine), hook)

    assert (why in said) if why else not said


def test_half_a_header_has_no_machine() -> None:
    assert [machine_of(X86[:size]) for size in (3, 18, 19, 20)] == ["", "", "", "x86_64"]
