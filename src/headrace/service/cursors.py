"""Makes the store's cursors opaque: a cursor is good for the tenant and the list that it was made for only."""

import base64
import hashlib

from headrace.model.errors import Refused
from headrace.model.limits import CURSOR_CHARS_MAX
from headrace.service.operation import Call

_DIGEST_BYTES = 8
_CHARS_MAX = 4 * CURSOR_CHARS_MAX


def write_page_cursor(call: Call, cursor: str | None, *scope: object) -> str | None:
    """The cursor of a page, for the client; `scope` is what the list was made of besides tenant and operation.

    In MessagePack it is the store's own, since `stores/http` is a store: its cursors name places, and no tenant."""
    if cursor is None or call.packed:
        return cursor
    data = cursor.encode("utf-8", "surrogatepass")
    return base64.urlsafe_b64encode(_digest(call, scope, data) + data).rstrip(b"=").decode()


def read_page_cursor(call: Call, text: str | None, *scope: object) -> str | None:
    """The store's cursor; refuses a cursor of another list or tenant."""
    if text is None or call.packed:
        return text
    cursor = _opened(call, text, scope) if len(text) <= _CHARS_MAX and text.isascii() else None
    if cursor is None:
        raise Refused(
            "bad_cursor", "the cursor is not one that this list gave; pass on the cursor of the page before, or none"
        )
    return cursor


def _opened(call: Call, text: str, scope: tuple[object, ...]) -> str | None:
    try:
        found = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        digest, data = found[:_DIGEST_BYTES], found[_DIGEST_BYTES:]
        return data.decode("utf-8", "surrogatepass") if digest == _digest(call, scope, data) else None
    except ValueError:
        return None


def _digest(call: Call, scope: tuple[object, ...], data: bytes) -> bytes:
    parts = repr((call.operation.name, call.tenant, *scope)).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(parts + b"\0" + data, digest_size=_DIGEST_BYTES).digest()
