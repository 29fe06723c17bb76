"""Packs and unpacks the journal lines of plain enqueues and claims, as `lua/parts/journal.lua` keeps them."""

from collections.abc import Sequence
from functools import lru_cache

import msgspec

_PRIORITY_AT = 10
"""In the head of a new body without its times."""
_NO_PRIORITY = 255
_UUID_CHARS = 36
_DASHES_AT = (8, 13, 18, 23)
_DIGITS_AT = [at for at in range(_UUID_CHARS) if at not in _DASHES_AT]
_Templates = list[tuple[str, int | None]]
_Packed = tuple[_Templates, list[int] | None, bytes | list[str], list[int]]
"""Line members and priority of each template; the template of each job if there are several; ids; sizes."""
_ENQUEUED_BYTES = len('{"event":"enqueued","id":,,"payload_bytes":,"priority":5,"run_at_ms":}\n')
"""The bytes of a line without its time, id, size and the members of its template."""
_json = msgspec.json.Encoder().encode
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(_Packed).decode


def pack_enqueued(
    ids: list[str], templates: Sequence[tuple[bytes, str]], picks: list[int], sizes: list[int]
) -> tuple[bytes, int]:
    """The varying parts of the lines of jobs that are due at once and set nothing besides their body; and the bytes of
    the lines without their times."""
    count = len(ids)
    if count == 1:
        template, size = _template_of(*templates[0])
        return _pack(([template], None, ids, sizes)), size + len(_json(ids[0])) + len(str(sizes[0]))
    found = [_template_of(*template) for template in templates]
    uuids = _uuids_in(ids)
    size = count * (_UUID_CHARS + 2) if uuids else sum(len(_json(id)) for id in ids)
    size += _digits(sizes) + (count * found[0][1] if len(found) == 1 else sum(found[index][1] for index in picks))
    return _pack(([template for template, _ in found], picks if len(found) > 1 else None, uuids or ids, sizes)), size


@lru_cache(4_096)
def _template_of(head: bytes, members: str) -> tuple[tuple[str, int | None], int]:
    """Line members and priority of a template; and the bytes of a line without its time, id and size."""
    priority = head[_PRIORITY_AT]
    return (members, None if priority == _NO_PRIORITY else priority), _ENQUEUED_BYTES + len(members.encode())


def _digits(sizes: list[int]) -> int:
    most = len(str(max(sizes)))
    return most * len(sizes) if most == len(str(min(sizes))) else sum(len(str(size)) for size in sizes)


def enqueued_lines(common: bytes, packed: bytes) -> bytes:
    """The lines of jobs that were enqueued."""
    _, at_ms, priority = common.decode().split(" ")
    templates, picks, ids, sizes = _unpack(packed)
    texts = _uuids_of(ids) if isinstance(ids, bytes) else [_json(id).decode()[1:-1] for id in ids]
    middles = [f',{members},"payload_bytes":' for members, _ in templates]
    ends = [f',"priority":{priority if own is None else own},"run_at_ms":{at_ms}}}\n' for _, own in templates]
    if picks is None:
        [middle], [end] = middles, ends
        lines = [f'{{"event":"enqueued","id":"{id}"{middle}{size}{end}' for id, size in zip(texts, sizes, strict=True)]
    else:
        lines = [
            f'{{"event":"enqueued","id":"{id}"{middles[index]}{size}{ends[index]}'
            for id, size, index in zip(texts, sizes, picks, strict=True)
        ]
    return "".join(lines).encode()


def claimed_lines(common: bytes, packed: bytes) -> bytes:
    """The lines of jobs that were claimed."""
    _, first_fence = common.split(b" ")
    ids = packed.decode().split("\n")
    return "".join(
        [f'{{"event":"claimed","id":"{id}","fence":{fence}}}\n' for fence, id in enumerate(ids, int(first_fence))]
    ).encode()


def _uuids_in(ids: list[str]) -> bytes | None:
    """The ids in 16 bytes each if all are UUIDs in their usual form, else None."""
    if set(map(len, ids)) != {_UUID_CHARS}:
        return None
    joined = "".join(ids)
    digits = joined.replace("-", "")
    dashes = "-" * len(ids)
    if len(digits) != 32 * len(ids) or digits != digits.lower():
        return None
    if any(joined[at::_UUID_CHARS] != dashes for at in _DASHES_AT):
        return None
    try:
        packed = bytes.fromhex(digits)
    except ValueError:
        return None
    return packed if len(packed) == 16 * len(ids) else None  # `fromhex` skips blanks


def _uuids_of(packed: bytes) -> list[str]:
    """The ids, one digit of all of them at a time: half the time of slicing and joining each id."""
    digits = packed.hex().encode()
    text = bytearray(b"-" * (len(packed) // 16 * _UUID_CHARS))
    for digit, at in enumerate(_DIGITS_AT):
        text[at::_UUID_CHARS] = digits[digit::32]
    joined = text.decode()
    return [joined[at : at + _UUID_CHARS] for at in range(0, len(joined), _UUID_CHARS)]
