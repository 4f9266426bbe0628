"""CEL, written by Python: literals, the words of our grammar as conditions, paths in their resolved form.

The rule it owns: each function here says in CEL what `contract.words.grammar` and `host_paths` say in Python.  The case
files hold the two equal.
"""

from collections.abc import Iterable, Mapping

from contract.words import grammar, limits, names
from contract.words.grammar import Word
from webhook.admission.host_paths import MOST_STEPS_UP

VGPUS = f"quantity(c.?resources.?limits[?'{names.RESOURCE}'].orValue('0')).asInteger()"
"""The vGPUs of the container `c`; the API server has checked that they are whole and that requests equal limits."""


MOST_CONTAINERS = 200
MOST_KEYS = 1000
"""The containers, and the annotations or labels, that a loop visits at most: its time grows with their square."""


def in_any_container(condition: str, spec: str = "object.spec") -> str:
    """Return the condition that an ordinary or init container `c` of the spec fulfils `condition`.

    Where there are too many containers, it is enough that their text names our resource: a rule refuses such a pod.
    """
    ordinary, initial = (_in_any(f"{spec}.{kind}", condition) for kind in ("containers", "initContainers"))
    return f"{ordinary} || (has({spec}.initContainers) && {initial})"


def _in_any(containers: str, condition: str) -> str:
    return (
        f"({containers}.size() <= {MOST_CONTAINERS} ? {containers}.exists(c, {condition})"
        f" : '%s'.format([{containers}]).contains({text(names.RESOURCE)}))"
    )


def asks_for_vgpu(spec: str = "object.spec") -> str:
    """Return the condition of the policies; the API server has checked the pod before, so the amount can be read."""
    return in_any_container(f"{VGPUS} > 0", spec)


def text(value: str) -> str:
    """Return a string literal."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"


def texts(values: Iterable[str]) -> str:
    """Return a list of string literals."""
    return "[" + ", ".join(text(value) for value in values) + "]"


def mapping(values: Mapping[str, str]) -> str:
    """Return a map of string literals."""
    return "{" + ", ".join(f"{text(key)}: {text(value)}" for key, value in values.items()) + "}"


def either(condition: str, found: str) -> str:
    """Return a list with this text where the condition holds, else an empty list."""
    return f"({condition} ? [{found}] : [])"


def _one_of(kind: Iterable[str]) -> str:
    return f"v in {texts(kind)}"


_QUANTUM = (
    "v.matches('^[1-9][0-9]{0,6}(ms|s)$') && (v.endsWith('ms')"
    " ? int(v.substring(0, size(v) - 2)) <= 3600000 : int(v.substring(0, size(v) - 1)) <= 3600)"
)
_MEMORY = (
    f"size(v) <= 128 && isQuantity(v) && !quantity(v).isGreaterThan(quantity('{limits.LARGEST_MEMORY}'))"
    " && [quantity(v).asApproximateFloat()].all(f, f > 0.0 && double(int(f)) == f)"
)
"""Not `isInteger`: it is false for 1.5Gi and for 100Ti, although they are whole."""
_WHOLE = "v.matches('^[1-9][0-9]{0,5}$') && int(v) <= 1000"
_MODES = _one_of((grammar.Mode.GANG, grammar.Mode.PER_DEVICE))
_CONDITIONS: dict[str, str] = {
    names.INJECTION_LABEL: _one_of(grammar.Injection),
    names.MULTI_GPU: _MODES,
    names.ON_MULTI_GPU: _one_of(grammar.OnMultiGpu),
    names.ALLOCATION: _one_of(grammar.AllocationKind),
    names.MAX_GPUS: _WHOLE,
    names.WEIGHT: _WHOLE,
    names.MAX_WEIGHT: _WHOLE,
    names.DEFAULT_WEIGHT: _WHOLE,
    names.MEMORY: _MEMORY,
    names.MAX_MEMORY: _MEMORY,
    names.DEFAULT_MEMORY: _MEMORY,
    names.QUANTUM: _QUANTUM,
    names.MAX_QUANTUM: _QUANTUM,
    names.ALLOW: f"size(v) <= {grammar.LONGEST_LIST} && v.split(',').all(p, p.trim() in {texts(grammar.Exemption)})",
}
"""The condition of each word on its text `v`."""


def is_legal(key: str, holder: str) -> str:
    """Return the condition that the map `holder` has `key` with a value of the grammar."""
    return f"({text(key)} in {holder} && [{holder}[{text(key)}]].all(v, {_CONDITIONS[key]}))"


def bad_values(table: tuple[Word, ...], holder: str) -> str:
    """Return a list with one text for each word whose value in `holder` is outside the grammar."""
    return " + ".join(
        either(
            f"{text(word.key)} in {holder} && !{is_legal(word.key, holder)}",
            f"{text(word.key + ': ')} + {_shown(f'{holder}[{text(word.key)}]')}"
            f" + {text(f' is not allowed; it must be {word.allowed}')}",
        )
        for word in table
    )


def _shown(value: str) -> str:
    return f'"\'" + ({value}.size() > 80 ? {value}.substring(0, 80) : {value}) + "\'"'


def unknown_keys(table: tuple[Word, ...], holder: str, *, what: str, known_too: Iterable[str] = ()) -> str:
    """Return a list with the keys of our domain in `holder` that the table does not have."""
    known = texts((*(word.key for word in table), *known_too))
    found = f"{holder}.filter(k, k.startsWith({text(names.DOMAIN + '/')}) && !(k in {known})).map(k, {what})"
    return f"({holder}.size() > {MOST_KEYS} ? [] : {found})"


def is_above(key: str, holder: str, ceiling_key: str, ceiling_holder: str) -> str:
    """Return the condition that both values are legal and the one in `holder` is larger."""
    value, ceiling = f"{holder}[{text(key)}]", f"{ceiling_holder}[{text(ceiling_key)}]"
    both = f"{is_legal(key, holder)} && {is_legal(ceiling_key, ceiling_holder)}"
    return f"({both} && {_LARGER[key].format(value=value, ceiling=ceiling)})"


_MILLISECONDS = (
    "({0}.endsWith('ms') ? int({0}.substring(0, size({0}) - 2)) : 1000 * int({0}.substring(0, size({0}) - 1)))"
)
_BY_QUANTITY = "quantity({value}).isGreaterThan(quantity({ceiling}))"
_BY_NUMBER = "int({value}) > int({ceiling})"
_LARGER: dict[str, str] = {
    names.MEMORY: _BY_QUANTITY,
    names.DEFAULT_MEMORY: _BY_QUANTITY,
    names.WEIGHT: _BY_NUMBER,
    names.DEFAULT_WEIGHT: _BY_NUMBER,
    names.QUANTUM: f"{_MILLISECONDS.format('{value}')} > {_MILLISECONDS.format('{ceiling}')}",
}

# A resolved path ends with "/": the root is "/", a folder is "/a/b/".  There is no loop over the segments, since the
# time of a loop grows with its square.  Each replacement halves a row of slashes; two remove a whole row of dots.
_CLEAN = "('/' + q + '/')" + ".replace('/./', '//')" * 2 + ".replace('//', '/')" * 16
_STEP_UP = (
    "(r.indexOf('/../') < 0 ? r : (r.substring(0, r.indexOf('/../')).lastIndexOf('/') < 0 ? ''"
    " : r.substring(0, r.substring(0, r.indexOf('/../')).lastIndexOf('/'))) + '/' + r.substring(r.indexOf('/../') + 4))"
)
_ONE_RUN = "(r.startsWith('/run/') ? '/var' + r : r)"


_STEPS_UP = f".map(r, {_STEP_UP})" * MOST_STEPS_UP


def resolved(path: str) -> str:
    """Return a list with the resolved form of the path expression, so that a macro can bind it."""
    return f"[{path}].map(q, {_CLEAN}){_STEPS_UP}.map(r, {_ONE_RUN})"


def passes_proc(path: str) -> str:
    """Return the condition that the path is in `/proc` or enters it on its way, as `host_paths.passes_proc` says."""
    seen = "r.contains('/../')"  # a step is left over
    for _ in range(MOST_STEPS_UP):
        seen = f"r.contains('/../') && [{_STEP_UP}].exists(r, r.startsWith('/proc/') || {seen})"
    return f"({path}.contains('proc') && [{path}].map(q, {_CLEAN}).exists(r, r.startsWith('/proc/') || {seen}))"


def resolves_to_touch(path: str, folders: str, *, or_into: str = "") -> str:
    """Return the condition that the path is one of the folders, in one or above one, or is or is in `or_into`.

    The folders are resolved, and each ends with `/`.
    """
    into = f" || r.startsWith({text(or_into)})" if or_into else ""
    climbs = "r.contains('/../')"  # a step is left over
    return f"{resolved(path)}.exists(r, {climbs} || {folders}.exists(g, g.startsWith(r) || r.startsWith(g)){into})"
