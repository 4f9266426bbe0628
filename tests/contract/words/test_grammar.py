"""Values of labels and annotations, and Kubernetes' quantities: what is read, what is refused."""

from fractions import Fraction

import pytest

from contract.errors import BadQuantity, BadReason, BadValue
from contract.words import names
from contract.words.grammar import (
    NAMESPACE_ANNOTATIONS,
    NAMESPACE_LABELS,
    POD_ANNOTATIONS,
    Exemption,
    Injection,
    Mode,
    read_words,
    unknown_keys,
)
from contract.words.quantity import parse_quantity
from contract.words.reasons import ReasonCode

EVERY_WORD = NAMESPACE_LABELS + NAMESPACE_ANNOTATIONS + POD_ANNOTATIONS


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        (names.INJECTION_LABEL, "warn", Injection.WARN),
        (names.MULTI_GPU, "gang", Mode.GANG),
        (names.MULTI_GPU, "per-device", Mode.PER_DEVICE),
        (names.MAX_GPUS, "4", 4),
        (names.MEMORY, "8Gi", 8 << 30),
        (names.MEMORY, "1e9", 10**9),
        (names.MEMORY, "1.5Gi", 3 << 29),
        (names.MEMORY, "4Ei", 4 << 60),
        (names.QUANTUM, "500ms", 500),
        (names.QUANTUM, "30s", 30_000),
        (names.WEIGHT, "1000", 1000),
        (names.ALLOW, "host-pid, privileged", frozenset({Exemption.HOST_PID, Exemption.PRIVILEGED})),
    ],
)
def test_a_value_is_read(key: str, text: str, value: object) -> None:
    assert read_words(EVERY_WORD, {key: text}) == {key: value}


@pytest.mark.parametrize(
    ("key", "text"),
    [
        pytest.param(names.INJECTION_LABEL, "true", id="an opt-in by another word"),
        pytest.param(names.INJECTION_LABEL, "Enabled", id="capitals"),
        pytest.param(names.MULTI_GPU, "single", id="a mode that nobody asks for"),
        pytest.param(names.MULTI_GPU, "", id="nothing"),
        pytest.param(names.MAX_GPUS, "0", id="no GPUs at all"),
        pytest.param(names.MAX_GPUS, "٣", id="a digit of another script"),
        pytest.param(names.MEMORY, "8 Gi", id="a space within"),
        pytest.param(names.MEMORY, "500m", id="half a byte"),
        pytest.param(names.MEMORY, "0.3Gi", id="a part of a byte"),
        pytest.param(names.MEMORY, "-1Gi", id="less than nothing"),
        pytest.param(names.MEMORY, "4097Pi", id="more than any card, and than some reader's integers"),
        pytest.param(names.QUANTUM, "30", id="a time without its unit"),
        pytest.param(names.QUANTUM, "2h", id="a unit that we do not have"),
        pytest.param(names.QUANTUM, "3601s", id="more than an hour"),
        pytest.param(names.WEIGHT, "1001", id="a weight too large"),
        pytest.param(names.WEIGHT, "1.5", id="a weight with a fraction"),
        pytest.param(names.ALLOW, "privileged,", id="an empty entry"),
        pytest.param(names.ALLOW, "everything", id="an exemption that there is not"),
    ],
)
def test_a_value_outside_its_grammar_is_refused_with_the_allowed_ones(key: str, text: str) -> None:
    with pytest.raises(BadValue, match=f"^{key}: .*it must be "):
        read_words(EVERY_WORD, {key: text})


def test_a_key_of_ours_that_is_unknown_is_named_and_others_are_left_alone() -> None:
    found = {
        "nvshare.com/memroy": "1Gi",
        "app": "x",
        names.MEMORY: "1Gi",
        names.INJECTED: "mine",
        names.REDUCED_FROM: "2",
    }

    assert unknown_keys(POD_ANNOTATIONS, found) == ("nvshare.com/memroy",)


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("1", Fraction(1)),
        (1, Fraction(1)),
        ("0", Fraction(0)),
        ("1k", Fraction(1000)),
        ("1Ki", Fraction(1024)),
        ("1e0", Fraction(1)),
        ("1E2", Fraction(100)),
        ("1E", Fraction(10**18)),
        ("1500m", Fraction(3, 2)),
        ("-2", Fraction(-2)),
        ("+2", Fraction(2)),
        (".5", Fraction(1, 2)),
        ("5.", Fraction(5)),
        ("10e-1", Fraction(1)),
        ("1n", Fraction(1, 10**9)),
        (2.0, Fraction(2)),
        ("99999999999999999999", Fraction(99999999999999999999)),
    ],
)
def test_a_quantity_means_what_kubernetes_says(value: object, number: Fraction) -> None:
    assert parse_quantity(value) == number


@pytest.mark.parametrize(
    "value",
    [
        "",
        " 1",
        "1 ",
        "1kk",
        "1e",
        "1K",
        "0x1",
        "one",
        "1_000",
        "٣",
        "inf",
        "nan",
        "1e9999",
        ".",
        True,
        None,
        [1],
        {},
        "1" * 200,
    ],
)
def test_what_is_not_a_quantity_is_refused(value: object) -> None:
    with pytest.raises(BadQuantity, match="is not a quantity"):
        parse_quantity(value)


@pytest.mark.parametrize("text", ["", "lower", "Two Words", "Under_Score", "É", "A" * 50])
def test_a_reason_code_is_one_camel_case_word(text: str) -> None:
    with pytest.raises(BadReason):
        ReasonCode(text)
