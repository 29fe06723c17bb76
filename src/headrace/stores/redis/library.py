"""Assembles the Lua files into one function library, and puts it on servers."""

import hashlib
import re
from collections.abc import Callable
from functools import cache

from headrace.model.errors import BadConfig
from headrace.stores.package_files import read_folder

_TEXTS = read_folder("headrace.stores.redis", "lua", ".lua")
_PARTS = "parts/"

LAYOUT = 3
"""The layout of the keys; a store with another one needs another library."""

PARTS = (
    "prelude",
    "json",
    "job_codec",
    "journal",
    "shard",
    "notify",
    "live_jobs",
    "single_enqueue",
    "finished_jobs",
    "dead_letters",
    "blocked_jobs",
    "outcome",
    "settle",
    "claim",
    "sweep",
    "healing",
    "integrity",
    "rank",
    "feed",
    "items",
    "feed_position",
    "directory",
    "bounded_scan",
)
"""The shared parts in the order of their use; a part sees those before it."""

_FLAGS = re.compile(r"^-- flags(.*)$", re.MULTILINE)
_KNOWN_FLAGS = {"no-writes", "allow-oom"}

_GUARD = """
local function guarded(run)
  return function(keys, args)
    for _, key in ipairs(keys) do
      local probe = redis.pcall('EXISTS', key .. ':never')
      if type(probe) == 'table' then
        return redis.error_reply('TRYAGAIN the slot is on its way to another server')
      end
    end
    return run(keys, args)
  end
end
"""
# A slot moves key by key, so a function could meet half a shard. On a server that is giving a slot away, touching a key
# that does not exist is an error: found here, before anything is written, instead of half-way through.


class Library:
    """The functions of this version, under names that carry it, so that two versions live side by side."""

    def __init__(self, source: str, *, clustered: bool = False) -> None:
        body = (_GUARD if clustered else "local function guarded(run) return run end\n") + source
        digest = hashlib.sha256(body.encode()).hexdigest()[:8]
        self.name = f"headrace_{LAYOUT}_{digest}"
        self.source = f"#!lua name={self.name}\nlocal LIBRARY, LAYOUT = '{self.name}', {LAYOUT}\n{body}"

    def function(self, operation: str) -> str:
        """The name under which a server knows an operation."""
        return f"{self.name}_{operation}"


def read_library(*, clustered: bool = False, edit: Callable[[str], str] | None = None) -> Library:
    """The library of the Lua files; `edit` changes the source first, for tests that plant a fault."""
    source = _assembled()
    return Library(edit(source) if edit else source, clustered=clustered)


@cache
def _assembled() -> str:
    parts = {name.removeprefix(_PARTS): text for name, text in _TEXTS.items() if name.startswith(_PARTS)}
    if unlisted := sorted(parts.keys() - set(PARTS)):
        raise BadConfig(f"the Lua parts {', '.join(unlisted)} are in no order; name them in library.PARTS")
    texts = [parts[name] for name in PARTS if name in parts]
    texts += [_operation(name, text) for name, text in _TEXTS.items() if not name.startswith(_PARTS)]
    return "\n".join(texts)


def _operation(name: str, text: str) -> str:
    found = _FLAGS.search(text)
    flags = found.group(1).split() if found else []
    if unknown := set(flags) - _KNOWN_FLAGS:
        raise BadConfig(f"{name}.lua asks for flags {sorted(unknown)}; known flags: {sorted(_KNOWN_FLAGS)}")
    quoted = ", ".join(f"'{flag}'" for flag in flags)
    return (
        f"do\n{text}\nredis.register_function{{\n"
        f"  function_name = LIBRARY .. '_{name}', callback = guarded(run), flags = {{{quoted}}}\n}}\nend"
    )
