"""What goes wrong here, as one family: a sentence of cause and one of remedy."""


class FrameworksError(Exception):
    """The base of all errors of this folder."""

    def __init__(self, cause: str, fix: str) -> None:
        super().__init__(cause)
        self.fix = fix


class NotCachedError(FrameworksError):
    """The wheels are not in the cache."""


class BuildError(FrameworksError):
    """A stand-in could not be built."""


class StepError(FrameworksError):
    """A step's surroundings did not come up: no result of the step itself."""
