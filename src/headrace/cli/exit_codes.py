"""Exit codes: what a program may learn from how a command ended."""

from typing import Final

OK: Final = 0
NO: Final = 1
"""It worked, and the answer is no: the job failed, nothing was found, the doctor found something to fix."""
BAD_INPUT: Final = 2
"""Asked for something that cannot be: a wrong option, name, value or setting. Nothing was changed."""
NO_SERVER: Final = 3
"""The store cannot be reached. Nothing was changed; asking again may help."""
UNKNOWN: Final = 4
"""The store was asked and its answer got lost: look before asking again."""
STOPPED: Final = 5
"""A bound was reached before all was looked at: what was asked for may be behind it. Raise the bound, or ask again."""
BROKEN: Final = 70
"""A fault of Headrace itself."""
INTERRUPTED: Final = 130
