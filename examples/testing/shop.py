"""A shop that sends jobs, and the functions that do them: what `tests/test_shop.py` tests.

cd examples/testing && python -m pytest
"""

import crm

from headrace import App, Fail

app = App()


@app.job(queue="mail")
async def welcome(user_id: int, name: str) -> str:
    """Greet a new customer, and remind them a day later."""
    await remind.options(delay="1d").enqueue(user_id=user_id)
    return f"welcome, {name}!"


@app.job(queue="mail")
def remind(user_id: int) -> None:
    """A plain function runs in a thread."""
    crm.note(user_id, "was reminded")


@app.job(queue="crm", max_attempts=3, backoff="10s")
async def sync(user_id: int) -> None:
    """Tell the CRM of a customer; it is not always there."""
    if user_id < 0:
        raise Fail(f"there is no customer {user_id}")
    crm.note(user_id, "is a customer")


def sign_up(user_id: int, name: str) -> None:
    """What a web handler calls."""
    welcome.blocking.enqueue(user_id=user_id, name=name)
    sync.blocking.options(id=f"sync/{user_id}", tag="sign-up").enqueue(user_id=user_id)
