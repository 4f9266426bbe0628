"""Say on a container's own socket what is not so, many times over, and go on as an idle program would.

Run as `liar.py SOCKET CONNECTIONS LINE…`: each connection says hello as a process of its own that does not exist, then
each line for each GPU of the container, whose UUID stands for `{gpu}`.  It yields its turns and wants them again.
"""

import os
import select
import socket
import sys

INVENTED = 90_000


class Liar:
    """One connection."""

    def __init__(self, path: str, number: int, gpus: list[str], lines: list[str]) -> None:
        self.gpus, self.lines, self.rest = gpus, lines, ""
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.say(f"hello v=1 pid={INVENTED + number} gpus={','.join(gpus)}")

    def say(self, line: str) -> None:
        self.socket.sendall(f"{line}\n".encode())

    def hear(self) -> int:
        """Answer what has come; return how many welcomes were among it."""
        data = self.socket.recv(1 << 16).decode()
        if not data:
            sys.exit("the daemon has hung up")
        *lines, self.rest = (self.rest + data).split("\n")
        return sum(self.answer(line.split(" ")) for line in lines)

    def answer(self, words: list[str]) -> bool:
        if words[0] == "welcome":
            for line in self.lines:
                for gpu in self.gpus:
                    self.say(line.format(gpu=gpu))
        elif words[0] == "yield":
            self.say(f"done {words[1]}")
            for gpu in self.gpus:
                self.say(f"want gpus={gpu}")
        elif words[0] == "error":
            sys.stdout.write(f"{words}\n")
        return words[0] == "welcome"


def main(path: str, connections: str, *lines: str) -> None:
    gpus, number = os.environ["NVIDIA_VISIBLE_DEVICES"].split(","), int(connections)
    liars = [Liar(path, each, gpus, list(lines)) for each in range(number)]
    watched, by_descriptor, welcomed = select.poll(), {one.socket.fileno(): one for one in liars}, 0
    for descriptor in by_descriptor:
        watched.register(descriptor, select.POLLIN)
    while True:
        for descriptor, _ in watched.poll():
            came = by_descriptor[descriptor].hear()
            welcomed += came
            if came and welcomed == number:
                sys.stdout.write("all is said\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
