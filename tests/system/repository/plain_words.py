"""Measure how many docstrings begin with a verb: `python -m tests.system.repository.plain_words [FOLDER …]`.

The rule: a function's docstring begins with a verb in the imperative, or is left out where the name says it.  A verb
that is missing below is added; "what", "whom" and "whether" are none.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
ROOMS = ("contract", "adapters", "webhook", "deviceplugin", "schedulerd", "testbed", "hook", "simgpu", "tests")
VERBS = frozenset(
    ["abort", "accept", "account", "acquire", "act", "add", "adjust", "admit", "adopt", "advance", "age", "allocate", "allow", "announce", "answer", "append", "apply", "ask", "assemble", "assert", "attach", "await", "awake", "begin", "believe", "bind", "block", "bound", "break", "bring", "build", "calculate", "call", "cancel", "carry", "catch", "change", "charge", "check", "choose", "claim", "clamp", "clean", "clear", "close", "collect", "combine", "come", "compare", "compile", "complete", "compute", "configure", "connect", "consume", "convert", "copy", "count", "cover", "create", "cut", "deal", "decide", "decode", "decrypt", "defer", "define", "delete", "deliver", "deny", "deploy", "derive", "describe", "detach", "detect", "determine", "differ", "disconnect", "discover", "discard", "dispatch", "displace", "divide", "do", "drain", "draw", "drive", "drop", "dump", "emit", "empty", "enable", "encode", "end", "ensure", "enter", "escape", "estimate", "evaluate", "evict", "examine", "exchange", "execute", "exit", "expect", "expire", "explain", "export", "express", "extend", "extract", "fail", "fall", "feed", "fetch", "fill", "filter", "find", "finish", "fire", "fix", "flush", "follow", "forbid", "force", "forget", "fork", "form", "format", "forward", "free", "freeze", "generate", "get", "give", "go", "grant", "greet", "group", "grow", "guard", "guess", "halt", "hand", "handle", "hang", "have", "hash", "hear", "hide", "hold", "ignore", "import", "include", "increase", "inject", "insert", "inspect", "install", "interpret", "interrupt", "invite", "issue", "join", "judge", "keep", "kill", "know", "launch", "lay", "learn", "leave", "lend", "let", "limit", "link", "list", "listen", "load", "lock", "log", "look", "lose", "lower", "make", "map", "mark", "match", "matter", "measure", "mention", "merge", "mirror", "miss", "mount", "move", "name", "narrow", "need", "normalise", "note", "notice", "notify", "number", "obey", "observe", "offer", "open", "order", "own", "pack", "page", "paint", "parse", "pass", "pause", "perform", "pick", "place", "plan", "play", "poll", "post", "postpone", "prefer", "prepare", "present", "print", "probe", "process", "produce", "promise", "prove", "provide", "publish", "pull", "purge", "push", "put", "query", "quote", "raise", "reach", "react", "read", "rebuild", "receive", "recognise", "reckon", "record", "recover", "reduce", "refer", "refresh", "refuse", "register", "reject", "release", "reload", "remember", "remind", "remove", "rename", "render", "renew", "reorder", "repair", "repeat", "replace", "replay", "reply", "report", "request", "require", "reserve", "reset", "resize", "resolve", "respond", "restart", "restore", "restrict", "resume", "retry", "return", "revoke", "ride", "roll", "rotate", "round", "run", "save", "say", "scale", "scan", "schedule", "score", "search", "see", "select", "send", "separate", "serve", "set", "settle", "shift", "show", "shut", "sign", "simulate", "skip", "sleep", "sort", "spawn", "speak", "split", "stand", "start", "state", "stay", "steal", "step", "stop", "store", "stream", "strip", "submit", "subtract", "sum", "supply", "surround", "swap", "switch", "take", "teach", "tell", "terminate", "test", "throw", "tie", "time", "touch", "trace", "track", "translate", "treat", "trim", "try", "turn", "unblock", "undo", "unite", "unload", "unlock", "unmount", "update", "use", "validate", "verify", "visit", "wait", "wake", "walk", "want", "warn", "watch", "wear", "weaken", "widen", "withdraw", "work", "wrap", "write", "yield"]
)


def docstrings(folder: Path) -> Iterator[tuple[Path, int, str]]:
    """Yield file, line and first word of each function's docstring below a folder."""
    for path in sorted(folder.rglob("*.py")):
        if path.name.endswith(("_pb2.py", "_pb2_grpc.py")):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            text = ast.get_docstring(node)
            if text and not any(isinstance(one, ast.Name) and one.id == "property" for one in node.decorator_list):
                yield path, node.lineno, text.split()[0].strip("`.,:;").lower()


def offenders(folder: Path) -> tuple[list[str], int]:
    """Return the docstrings that begin with no verb, each as `file:line word`, and how many docstrings there are."""
    found = list(docstrings(folder))
    bad = [f"{path.relative_to(ROOT)}:{line} {word}" for path, line, word in found if word not in VERBS]
    return bad, len(found)


def main(folders: list[str]) -> int:
    """Print the offenders of the folders that are named, or a line a room."""
    for name in folders or ROOMS:
        bad, count = offenders(ROOT / name)
        if folders:
            print("\n".join(bad))
        print(f"{name}: {count - len(bad)} of {count} begin with a verb")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
