"""Finding a handler by its name, in the process that is to run it."""

import importlib
import os
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from headrace.client.arguments import Arguments
from headrace.client.codec import JSON, RAW, Codec
from headrace.model.errors import BadConfig
from headrace.worker.handlers import Handler
from headrace.worker.pools import main
from headrace.worker.pools.messages import ChildTask, Setup
from headrace.worker.raising import job_error

CODECS: dict[str, Codec] = {JSON.name: JSON, RAW.name: RAW}


class Loaded(Struct, frozen=True):
    """What is needed to call a handler."""

    function: Callable[..., Any]
    arguments: Arguments[Any]
    codec: Codec


class Loader:
    """Finds handlers, each once."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._loaded: dict[tuple[str, str, str], Loaded] = {}

    def find(self, task: ChildTask) -> Loaded:
        """The handler of a task; raises `BadConfig` with a sentence that names what is missing."""
        key = task.target, task.style, task.codec
        loaded = self._loaded.get(key)
        if loaded is None:
            loaded = self._loaded[key] = self._load(task)
        return loaded

    def _load(self, task: ChildTask) -> Loaded:
        module, colon, qualname = task.target.partition(":")
        if not (module and colon and qualname):
            raise _unable(task, "it is to be named as module:function")
        found = self._import(task, module)
        for name in qualname.split("."):
            try:
                found = getattr(found, name)
            except AttributeError as error:
                raise _unable(task, f"{module} has no {qualname!r}; define it at the top of the module") from error
        handler = getattr(found, "handler", None)
        if isinstance(handler, Handler):
            return Loaded(handler.function, handler.arguments, handler.codec)
        if not callable(found):
            raise _unable(task, f"a function was wanted; found {type(found).__name__}")
        codec = CODECS.get(task.codec)
        if codec is None:
            raise _unable(task, f"another process does not know the codec {task.codec!r}; give the function a handler")
        return Loaded(found, Arguments.of(found, codec, task.style), codec)

    def _import(self, task: ChildTask, module: str) -> Any:
        try:
            if module in ("__main__", main.BROUGHT):
                path = self._setup.main_path
                main.bring(self._setup.main_name, None if path is None else os.fsdecode(path))
            return importlib.import_module(module)
        except BaseException as error:  # a module may do anything, even exit
            told = job_error(error)
            raise _unable(task, f"importing {module} raised {told.cls}: {told.message}") from error


def _unable(task: ChildTask, why: str) -> BadConfig:
    return BadConfig(f"Unable to load handler {task.target!r}: {why}")
