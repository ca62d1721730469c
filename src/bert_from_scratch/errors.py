"""The one error that a user sees: what is wrong, and what to type next."""


class BertError(Exception):
    """Something the user gave cannot be used.

    The library raises it for bad files, texts and settings; the command line
    prints it as `error: ...` and `hint: ...` and exits with status 2.

    Attributes:
        message: What is wrong, with the values.
        hint: What to do about it, or None.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message
