"""Stands for a service that is busy now and then."""

NOTES: list[str] = []
BUSY = 0


def note(user_id: int, text: str) -> None:
    """Write down something about a customer; raises TimeoutError while it is busy."""
    global BUSY  # noqa: PLW0603 - the smallest thing that a test can make fail
    if BUSY:
        BUSY -= 1
        raise TimeoutError("the CRM did not answer")
    NOTES.append(f"customer {user_id} {text}")
