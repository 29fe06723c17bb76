"""Packs journal lines that nearly every call writes, and makes the lines of them; parts/journal.lua says where."""

from collections.abc import Sequence
from functools import lru_cache

import msgspec

_PRIORITY_AT = 10
"""Of the head of a new body without its times."""
_NO_PRIORITY = 255
_UUID_CHARS = 36
_DASHES_AT = (8, 13, 18, 23)
_DIGITS_AT = [at for at in range(_UUID_CHARS) if at not in _DASHES_AT]
_Sorts = list[tuple[str, int | None]]
_Packed = tuple[_Sorts, list[int] | None, bytes | list[str], list[int]]
"""What the lines of each sort say and its priority; the sort of each job where there are several; ids; sizes."""
_ENQUEUED_BYTES = len('{"event":"enqueued","id":,,"payload_bytes":,"priority":5,"run_at_ms":}\n')
"""Of a line without its time, id, size and what its sort says."""
_json = msgspec.json.Encoder().encode
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(_Packed).decode


def pack_enqueued(
    ids: list[str], sorts: Sequence[tuple[bytes, str]], picked: list[int], sizes: list[int]
) -> tuple[bytes, int]:
    """What differs between the lines of jobs that are new, due at once and steered by nothing; and how many bytes the
    lines have without their times."""
    count = len(ids)
    if count == 1:
        sort, size = _sort_of(*sorts[0])
        return _pack(([sort], None, ids, sizes)), size + len(_json(ids[0])) + len(str(sizes[0]))
    found = [_sort_of(*sort) for sort in sorts]
    uuids = _uuids_in(ids)
    size = count * (_UUID_CHARS + 2) if uuids else sum(len(_json(id)) for id in ids)
    size += _digits(sizes) + (count * found[0][1] if len(found) == 1 else sum(found[which][1] for which in picked))
    return _pack(([sort for sort, _ in found], picked if len(found) > 1 else None, uuids or ids, sizes)), size


@lru_cache(4_096)
def _sort_of(head: bytes, said: str) -> tuple[tuple[str, int | None], int]:
    """What the lines of a sort say and its priority; and the bytes of a line without its time, id and size."""
    priority = head[_PRIORITY_AT]
    return (said, None if priority == _NO_PRIORITY else priority), _ENQUEUED_BYTES + len(said.encode())


def _digits(sizes: list[int]) -> int:
    most = len(str(max(sizes)))
    return most * len(sizes) if most == len(str(min(sizes))) else sum(len(str(size)) for size in sizes)


def enqueued_lines(common: bytes, packed: bytes) -> bytes:
    """The lines of jobs that were enqueued."""
    _, at_ms, priority = common.decode().split(" ")
    sorts, picked, ids, sizes = _unpack(packed)
    texts = _uuids_of(ids) if isinstance(ids, bytes) else [_json(id).decode()[1:-1] for id in ids]
    middles = [f',{said},"payload_bytes":' for said, _ in sorts]
    ends = [f',"priority":{priority if own is None else own},"run_at_ms":{at_ms}}}\n' for _, own in sorts]
    if picked is None:
        [middle], [end] = middles, ends
        lines = [f'{{"event":"enqueued","id":"{id}"{middle}{size}{end}' for id, size in zip(texts, sizes, strict=True)]
    else:
        lines = [
            f'{{"event":"enqueued","id":"{id}"{middles[which]}{size}{ends[which]}'
            for id, size, which in zip(texts, sizes, picked, strict=True)
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
    """Ids that all are UUIDs as they are usually written, in 16 bytes each."""
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
    return packed if len(packed) == 16 * len(ids) else None  # it passes over blanks


def _uuids_of(packed: bytes) -> list[str]:
    """The ids, a digit of all of them at a time: half of what it takes to cut and join each of them."""
    digits = packed.hex().encode()
    text = bytearray(b"-" * (len(packed) // 16 * _UUID_CHARS))
    for digit, at in enumerate(_DIGITS_AT):
        text[at::_UUID_CHARS] = digits[digit::32]
    joined = text.decode()
    return [joined[at : at + _UUID_CHARS] for at in range(0, len(joined), _UUID_CHARS)]
