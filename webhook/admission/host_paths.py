"""Paths compared as node and container will resolve them: `//`, `.`, `..`, no leading slash, `/run` = `/var/run`.

May import nothing but the standard library's text functions.
"""

MOST_STEPS_UP = 4
"""A path with more `..` than this is taken to lead anywhere; the API server's CEL resolves as many and no more."""


def resolve(path: str) -> str:
    """The path in its one form; `/` for the root."""
    if path.startswith("/") and "/." not in path and "//" not in path and not path.endswith("/"):
        return _one_run(path)
    kept: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del kept[-1:]
        elif part not in ("", "."):
            kept.append(part)
    return _one_run("/" + "/".join(kept))


def _one_run(path: str) -> str:
    return "/var" + path if path == "/run" or path.startswith("/run/") else path


def passes_proc(path: str) -> bool:
    """The path is in `/proc`, or is there after some of its steps.

    A link such as `/proc/self/root` leads back to the container's root, so text cannot tell where such a path ends.
    """
    if "proc" not in path:
        return False
    if climbs_too_often(path):
        return True
    walked: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del walked[-1:]
        elif part not in ("", "."):
            walked.append(part)
        if walked[:1] == ["proc"]:
            return True
    return False


def is_within(path: str, folder: str) -> bool:
    """`path` is the folder or something in it; both resolved."""
    return path == folder or path.startswith(folder + "/") or folder == "/"


def touches(path: str, folder: str) -> bool:
    """`path` is the folder, in it, or above it; both resolved."""
    return is_within(path, folder) or is_within(folder, path)


def climbs_too_often(path: str) -> bool:
    """More steps up than are followed."""
    return ".." in path and path.split("/").count("..") > MOST_STEPS_UP
