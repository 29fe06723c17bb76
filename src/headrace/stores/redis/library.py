"""Assembles the Lua files into one function library under a name of its own.

A file names the parts that it uses in its header (`-- uses  journal, shard`). A part is a function that returns its
table, so it shares nothing but that table; the prelude and the constants of the model come before all parts.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter

import msgspec

from headrace.model import limits, rank
from headrace.model.decision import EXPIRED, STALLED
from headrace.model.errors import BadConfig
from headrace.model.job import UNBOUNDED_HI_MS, UNBOUNDED_LO_MS
from headrace.model.names import FAIL_KIND
from headrace.model.policy import FAIL_QUEUE_CONFIG
from headrace.stores.package_files import read_folder

_TEXTS = read_folder("headrace.stores.redis", "lua", ".lua")
_PARTS = "parts/"
_PRELUDE = "prelude"

LAYOUT = 3
"""The layout of the keys; a store with another one needs another library."""

_LIMITS = (
    "BATCH_MAX",
    "CHANGES_PAGE_BYTES",
    "CHANGES_SLACK",
    "CHANGES_TRIM_PER_CALL_MAX",
    "CLAIM_BYTES_MAX",
    "CONSUMER_SILENT_MS",
    "EVICT_PER_CALL_MAX",
    "EXPIRIES_PER_CALL_MAX",
    "FENCE_JUMP",
    "FUNCTION_CACHE_MAX",
    "JITTER_PPM",
    "JOURNAL_TRIM_PER_CALL_MAX",
    "LEASE_MS_DEFAULT",
    "PROMOTIONS_PER_CALL_MAX",
    "QUARANTINE_MAX",
    "RANK_CHARS_MAX",
    "REPAIRS_PER_CALL_MAX",
    "RERANK_MAX",
    "SWEEP_PER_CALL_MAX",
    "WORKER_KEEP_MS",
    "WORKER_SEEN_MS",
)
_CONSTANTS: dict[str, object] = {
    "LIMITS": {name.lower(): getattr(limits, name) for name in _LIMITS},
    "PRIORITY_MAX": limits.PRIORITY_MAX,
    "TIER": 1 << limits.NUMBER_BITS,
    "UNBOUNDED_LO_MS": UNBOUNDED_LO_MS,
    "UNBOUNDED_HI_MS": UNBOUNDED_HI_MS,
    "FAIL_QUEUE_CONFIG": msgspec.json.encode(FAIL_QUEUE_CONFIG).decode(),
    "FAIL_KIND": FAIL_KIND,
    "STALLED": {"class": STALLED.cls, "message": STALLED.message},
    "EXPIRED": {"class": EXPIRED.cls, "message": EXPIRED.message},
    "RANK": {
        "signs": rank.SIGNS,
        "first_end": len(rank.SIGNS) ** rank.FIRST_CHARS,
        "next_end": len(rank.SIGNS) ** rank.NEXT_CHARS,
        "step": rank.STEP,
    },
}
"""Constants of the model, as Lua locals at the head of the library."""

_USES = re.compile(r"^-- uses((?:.*,\n--)*.*)$", re.MULTILINE)
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
    source = assemble_source()
    return Library(edit(source) if edit else source, clustered=clustered)


@cache
def assemble_source() -> str:
    """The constants, the prelude, the parts in the order of their use, and the operations."""
    parts = {name.removeprefix(_PARTS): text for name, text in _TEXTS.items() if name.startswith(_PARTS)}
    operations = {name: text for name, text in _TEXTS.items() if not name.startswith(_PARTS)}
    prelude = parts.pop(_PRELUDE)
    for name, text in operations.items():
        _check_uses(name, read_uses(text), parts)
    texts = [f"local {name} = {_lua_literal(value)}" for name, value in _CONSTANTS.items()]
    texts.append(prelude)
    texts += [f"local {name} = (function()\n{parts[name]}\nend)()" for name in order_parts(parts)]
    texts += [_register(name, text) for name, text in operations.items()]
    return "\n".join(texts)


def read_uses(text: str) -> list[str]:
    """The parts that the header of a Lua file names."""
    found = _USES.search(text)
    return re.findall(r"\w+", found.group(1)) if found else []


def order_parts(parts: Mapping[str, str]) -> list[str]:
    """The names of Lua parts in an order in which each comes behind those that it uses."""
    uses = {name: read_uses(text) for name, text in parts.items()}
    for name, used in uses.items():
        _check_uses(_PARTS + name, used, parts)
    try:
        return list(TopologicalSorter(uses).static_order())
    except CycleError as error:
        raise BadConfig(f"the Lua parts {' -> '.join(error.args[1])} use each other; break the cycle") from error


def _check_uses(name: str, used: Iterable[str], parts: Iterable[str]) -> None:
    if unknown := sorted(set(used) - set(parts)):
        raise BadConfig(f"{name}.lua uses unknown parts {', '.join(unknown)}; known parts: {', '.join(sorted(parts))}")


def _register(name: str, text: str) -> str:
    """An operation in its own scope, with its registration as a function."""
    found = _FLAGS.search(text)
    flags = found.group(1).split() if found else []
    if unknown := set(flags) - _KNOWN_FLAGS:
        raise BadConfig(f"{name}.lua asks for flags {sorted(unknown)}; known flags: {sorted(_KNOWN_FLAGS)}")
    quoted = ", ".join(f"'{flag}'" for flag in flags)
    return (
        f"do\n{text}\nredis.register_function{{\n"
        f"  function_name = LIBRARY .. '_{name}', callback = guarded(run), flags = {{{quoted}}}\n}}\nend"
    )


def _lua_literal(value: object) -> str:
    """A number, text or table of these in Lua."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{name} = {_lua_literal(each)}" for name, each in value.items()) + " }"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return str(value)
