"""Put a mutant into loaded modules, by giving their functions other code: nothing is imported again.

That reaches every copy of a function, whoever imported it.  It does not reach what ran when the module was imported:
such a mutant is one for `reimport.py`.
"""

import functools
import gc
from collections.abc import Sequence
from types import CodeType, FunctionType
from typing import Any, TypeAlias

Key = tuple[str, str, int]
"""A function: its file, its qualified name, its first line."""
Cache: TypeAlias = "functools._lru_cache_wrapper[Any]"


def key_of(code: CodeType) -> Key:
    return (code.co_filename, code.co_qualname, code.co_firstlineno)


def changed_functions(before: CodeType, after: CodeType) -> list[tuple[CodeType, CodeType]] | None:
    """Return the functions that differ; None where the body of the module or of a class does."""
    if _is_function(before):
        return [] if _same(before, after) else [(before, after)]
    if not _same(before, after, nested=False):
        return None
    found = []
    for old, new in zip(_nested(before), _nested(after), strict=True):
        pairs = changed_functions(old, new)
        if pairs is None:
            return None
        found += pairs
    return found


def _is_function(code: CodeType) -> bool:
    return bool(code.co_flags & 0x2)  # CO_NEWLOCALS: neither a module nor a class


def _nested(code: CodeType) -> list[CodeType]:
    return [one for one in code.co_consts if isinstance(one, CodeType)]


def _same(before: CodeType, after: CodeType, *, nested: bool = True) -> bool:
    """Tell whether two are the same program, wherever its lines stand."""
    if _bare(before) != _bare(after) or len(_nested(before)) != len(_nested(after)):
        return False
    return not nested or all(_same(old, new) for old, new in zip(_nested(before), _nested(after), strict=True))


def _bare(code: CodeType) -> tuple[object, ...]:
    constants = [repr(one) for one in code.co_consts if not isinstance(one, CodeType)]
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_name)
    return (code.co_code, code.co_exceptiontable, constants, names, code.co_flags)


def live_functions(filenames: frozenset[str]) -> dict[Key, list[FunctionType]]:
    """Return the functions of these files that exist in this process."""
    found: dict[Key, list[FunctionType]] = {}
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and one.__code__.co_filename in filenames:
            found.setdefault(key_of(one.__code__), []).append(one)
    return found


def can_swap(pairs: list[tuple[CodeType, CodeType]], live: dict[Key, list[FunctionType]]) -> bool:
    """Tell whether each function exists and takes the other code."""
    return bool(pairs) and all(key_of(old) in live and old.co_freevars == new.co_freevars for old, new in pairs)


def swap(pairs: list[tuple[CodeType, CodeType]], live: dict[Key, list[FunctionType]], caches: Sequence[Cache]) -> None:
    """Give the functions their other code, and empty the caches of what the code before returned."""
    for old, new in pairs:
        for function in live[key_of(old)]:
            function.__code__ = new
    for cache in caches:
        cache.cache_clear()


def live_caches() -> tuple[Cache, ...]:
    """Return the caches of functions that exist in this process: to look for them takes longer than most tests."""
    return tuple(one for one in gc.get_objects() if isinstance(one, functools._lru_cache_wrapper))
