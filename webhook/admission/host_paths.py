"""Paths compared in their resolved form.

The rule it owns: paths are compared as node and container will resolve them.  So `//`, `.`, `..` and a missing leading
slash make no difference, and `/run` is `/var/run`.
"""

MOST_STEPS_UP = 4
"""A path with more `..` may lead anywhere, so it is refused.  The CEL for the API server resolves as many, no more."""


def resolve(path: str) -> str:
    """Return the path in its one resolved form; the root is `/`."""
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
    """Tell whether the path is in `/proc`, or enters it on its way.

    A link such as `/proc/self/root` leads back to the container's root: the text of a path does not say where it ends.
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
    """Tell whether `path` is the folder or lies in it; both are resolved."""
    return path == folder or path.startswith(folder + "/") or folder == "/"


def touches(path: str, folder: str) -> bool:
    """Tell whether `path` is the folder, lies in it, or holds it; both are resolved."""
    return is_within(path, folder) or is_within(folder, path)


def climbs_too_often(path: str) -> bool:
    """Tell whether the path has more `..` than are resolved."""
    return ".." in path and path.split("/").count("..") > MOST_STEPS_UP
