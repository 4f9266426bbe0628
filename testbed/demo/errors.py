"""What can stop the demo: each error says what, and how to fix it."""


class DemoError(Exception):
    """Base; `fix` is the sentence that helps."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.fix = fix
