"""The audit: does what a store holds follow from what its journal says?"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.pipeline.audit.run import audit

__all__ = ["audit"]


def __getattr__(name: str) -> Any:
    if name != "audit":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from headrace.pipeline.audit.run import audit

    return audit
