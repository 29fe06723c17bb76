"""A guard that outlives this program for a moment, to kill what its processes leave behind."""

import logging
import subprocess
from contextlib import suppress

LOGGER = logging.getLogger("headrace.worker")

# A shell, because it is a hundredth of a Python in memory. It is told of process groups that begin and end, and when
# the program is gone, however it went, the end of its input says so.
SCRIPT = """
trap '' HUP INT TERM
groups=' '
while read -r verb group; do
    case $verb in
        +) groups="$groups$group " ;;
        -) groups="${groups%% $group *} ${groups#* $group }" ;;
    esac
done
for group in $groups; do kill -s KILL -- "-$group"; done
"""


class OrphanKiller:
    """Kills the process groups it was told of when this program dies. The processes themselves die anyway; the guard
    is for the programs that handlers have started. Where there is no shell, there is no guard."""

    def __init__(self) -> None:
        self._shell: subprocess.Popen[bytes] | None = None
        try:
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", SCRIPT],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            LOGGER.info("no shell to guard the processes of handlers (%s); they are killed without it", error)

    def watch(self, group: int) -> None:
        """This group is to end with the program."""
        self._tell(f"+ {group}\n")

    def forget(self, group: int) -> None:
        """This group is gone; call it before its number can belong to somebody else."""
        self._tell(f"- {group}\n")

    def close(self) -> None:
        """End the guard, and nothing else."""
        if self._shell is not None:
            self._shell.kill()
            self._shell.wait()
            assert self._shell.stdin is not None
            self._shell.stdin.close()
            self._shell = None

    def _tell(self, line: str) -> None:
        if self._shell is not None and self._shell.stdin is not None:
            with suppress(OSError):  # somebody killed the guard; the work goes on without
                self._shell.stdin.write(line.encode())
