"""The audit: does what a store holds follow from what its journal says?"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.pipeline.audit.run import audit as audit
else:
    from headrace._lazy import attach

    __getattr__, __dir__ = attach(__name__)
