"""The errors that can stop the demo: each one says what is wrong, and how to fix it."""


class DemoError(Exception):
    """Base; `fix` is the sentence that helps."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.fix = fix
