"""What a compaction has done."""

from msgspec import Struct


class Compacted(Struct):
    """What a run has merged."""

    folders: int = 0
    """Days of queues of which files were merged."""
    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
