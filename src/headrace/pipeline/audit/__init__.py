"""Compares the records of a store with its journal, and reports every difference."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.pipeline.audit.run import audit as audit
else:
    from headrace._lazy import attach

    __getattr__, __dir__ = attach(__name__)
