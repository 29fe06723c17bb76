"""The raw Redis reference: one function call a batch that moves ids between sorted sets and bodies into a hash.

The same client process, one blocking socket and the parser in C, no event loop: what a queue on Redis could reach at
most with this layout.
"""

import socket
from collections.abc import Callable, Iterator
from itertools import count

import hiredis

_LIBRARY = b"""#!lua name=raw
redis.register_function('raw_enqueue', function(keys, args)
  local bodies, places = {}, {}
  for at = 2, #args, 2 do
    bodies[at - 1], bodies[at] = args[at], args[at + 1]
    places[at - 1], places[at] = args[1] + at, args[at]
  end
  redis.call('HSET', keys[1], unpack(bodies))
  redis.call('ZADD', keys[2], unpack(places))
  return 1
end)
redis.register_function('raw_claim', function(keys, args)
  local ids = redis.call('ZRANGE', keys[2], 0, args[1] - 1)
  if #ids == 0 then return {ids, ids} end
  local leases = {}
  for at, id in ipairs(ids) do
    leases[2 * at - 1], leases[2 * at] = args[2], id
  end
  redis.call('ZREM', keys[2], unpack(ids))
  redis.call('ZADD', keys[3], unpack(leases))
  return {ids, redis.call('HMGET', keys[1], unpack(ids))}
end)
redis.register_function('raw_settle', function(keys, args)
  redis.call('ZREM', keys[3], unpack(args))
  return redis.call('HDEL', keys[1], unpack(args))
end)
"""
_KEYS = (b"3", b"raw:b", b"raw:r", b"raw:x")
READ_BYTES = 1 << 20


def pack(*words: str | bytes) -> bytes:
    """A command as it goes over the wire."""
    packed: bytes = hiredis.pack_command(words)  # type: ignore[arg-type]  # its stub knows tuples of one word only
    return packed


class RawRedis:
    """One blocking connection."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = hiredis.Reader()
        self._ask(pack(b"FUNCTION", b"LOAD", b"REPLACE", _LIBRARY))

    def _ask(self, packed: bytes) -> object:
        self._socket.sendall(packed)
        while (reply := self._reader.gets()) is False:
            self._reader.feed(self._socket.recv(READ_BYTES))
        if isinstance(reply, hiredis.ReplyError):
            raise reply
        return reply

    def ping(self) -> None:
        """One bare round trip."""
        self._ask(b"PING\r\n")

    def command(self, *words: str) -> object:
        """The reply to a plain command."""
        return self._ask(pack(*words))

    def insert(self, ids: list[list[str]], payload: bytes) -> Iterator[Callable[[], object]]:
        """One call per batch that inserts it; packing it is part of the call."""
        places = count(0, 10_000)
        for batch in ids:
            words = [word for id in batch for word in (id, payload)]
            call = (b"FCALL", b"raw_enqueue", *_KEYS, str(next(places)), *words)
            yield lambda call=call: self._ask(pack(*call))  # type: ignore[misc]

    def claim(self, limit: int) -> list[str]:
        """Take the first ids in order, with their bodies."""
        reply = self._ask(pack(b"FCALL", b"raw_claim", *_KEYS, str(limit), b"1700000030000"))
        assert isinstance(reply, list)
        return [id.decode() for id in reply[0]]

    def delete(self, ids: list[str]) -> None:
        """Drop them."""
        self._ask(pack(b"FCALL", b"raw_settle", *_KEYS, *ids))

    def close(self) -> None:
        """Let go of the server."""
        self._socket.close()
