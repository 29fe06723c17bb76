"""What endangers jobs in a SQLite file, in sentences."""

from pathlib import Path, PurePosixPath

MOUNTS = Path("/proc/self/mounts")
NETWORKED = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "lustre", "fuse.sshfs", "fuse.glusterfs", "glusterfs"}
)
"""File systems over a network: SQLite's WAL mode needs memory that all processes share, and locks that hold."""
FAST = (
    "profile=fast: a power cut or a crash of the system may lose the last moments; open the file without it to keep"
    " every answered call"
)


def notes_on(path: str, profile: str) -> tuple[str, ...]:
    """What a person should know of a file that is open under a profile."""
    notes = [FAST] if profile == "fast" else []
    try:
        mounts = MOUNTS.read_text("utf-8", "replace")
    except OSError:  # another system than Linux does not say
        mounts = ""
    kind = file_system(str(Path(path).resolve()), mounts)
    if kind in NETWORKED:
        notes.append(
            f"{path!r} is on a network file system ({kind}), where SQLite may lose or ruin it; move it to a local disk"
        )
    return tuple(notes)


def file_system(path: str, mounts: str) -> str:
    """The kind of file system that a path is on, by the system's list of mounts; empty when it does not say."""
    found, depth = "", -1
    for line in mounts.splitlines():
        _, point, kind, *_ = [*line.split(" "), "", "", ""]
        point = point.replace("\\040", " ")  # how the list writes a space
        if point and PurePosixPath(path).is_relative_to(point) and len(PurePosixPath(point).parts) >= depth:
            found, depth = kind, len(PurePosixPath(point).parts)
    return found
