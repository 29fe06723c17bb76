"""Looks whether the functions are on the servers, without loading them."""

import re

from headrace.model.errors import BadConfig, HeadraceError, StoreUnavailable
from headrace.model.integrity import Schema
from headrace.stores.redis.connect import topology_of
from headrace.stores.redis.errors import Lost, NotSent, bad_start
from headrace.stores.redis.library import LAYOUT, Library, read_library
from headrace.stores.redis.options import Options
from headrace.stores.redis.server import Server

_LIBRARY = re.compile(rb"headrace_(\d+)_[0-9a-f]+")


async def schema_of(options: Options) -> Schema:
    """The layout that the libraries on the servers are of, None where there are none; pending is our own library where
    a master lacks it. Refuses servers on which a newer layout is in use."""
    topology = topology_of(options)
    try:
        library = read_library(clustered=topology.clustered)
        libraries = [await _libraries(server, library) for server in await topology.masters()]
    finally:
        await topology.close()
    layouts = [int(found.group(1)) for each in libraries for name in each if (found := _LIBRARY.fullmatch(name))]
    is_there = all(library.name.encode() in each for each in libraries)
    return library_schema(library, max(layouts, default=None), is_there=is_there)


def library_schema(library: Library, found: int | None, *, is_there: bool) -> Schema:
    """The schema of servers that have functions of a layout, and whether ours are among them."""
    return Schema(
        found=found, known=LAYOUT, pending=() if is_there else (f"load {library.name}",), library=library.name
    )


async def _libraries(server: Server, library: Library) -> list[bytes]:
    [reply] = await server.ask([["FUNCTION", "LIST", "LIBRARYNAME", "headrace_*"]])
    if isinstance(reply, HeadraceError):
        raise reply
    if isinstance(reply, (NotSent, Lost)):
        raise StoreUnavailable(f"redis at {server.address} dropped the connection ({reply}); is it running?")
    if isinstance(reply, Exception):
        raise bad_start(str(server.address), reply)
    names = [dict(zip(each[::2], each[1::2], strict=True))[b"library_name"] for each in reply]
    newest = max((int(found.group(1)) for name in names if (found := _LIBRARY.fullmatch(name))), default=LAYOUT)
    if newest > LAYOUT:
        raise BadConfig(
            f"redis at {server.address} has functions of layout {newest}, this Headrace knows {LAYOUT}"
            f" ({library.name}); use a newer Headrace"
        )
    return names
