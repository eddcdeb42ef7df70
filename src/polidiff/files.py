"""Files written whole or not at all, and read only up to a size."""

from __future__ import annotations

import contextlib
import glob
import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from polidiff.errors import InvalidInputError


def write_whole(path: str | os.PathLike[str], content: str | bytes) -> Path:
    """Write `content` to `path` so that readers see the old file or the new one, never a part.

    The content goes to a temporary file beside the target, is flushed to disk and then renamed over it. A link is
    followed, the permissions of an existing file stay, and what is no file (a pipe, a terminal) is written straight to.
    Temporary files of writers that were killed go with the next write of the same target.
    """
    write_together({Path(path): content})
    return Path(path)


def write_together(contents: Mapping[Path, str | bytes], folder: Path | None = None) -> None:
    """As `write_whole`, for files that belong together: none is renamed before all are on disk.

    A `folder` for some of them is made where it is missing, and goes again where nothing could be written.
    """
    parts: list[tuple[str, Path]] = []
    made, place = folder is not None and not folder.exists(), folder
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        for place, content in contents.items():
            target = Path(os.path.realpath(place))
            data = content.encode("utf-8") if isinstance(content, str) else content
            if target.exists() and not target.is_file() and not target.is_dir():
                target.write_bytes(data)
                continue
            handle, temporary = _part_beside(target)
            parts.append((temporary, target))
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            os.chmod(temporary, stat.S_IMODE(target.stat().st_mode) if target.exists() else _mode_of_new_files())
        for temporary, target in parts:
            os.replace(temporary, target)
        made, parts = False, []
    except OSError as error:
        raise InvalidInputError(
            f"cannot write {place}: {error.strerror or error}. Hint: nothing was changed; choose another place"
        ) from error
    finally:
        for temporary, _ in parts:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        if made and folder is not None:
            with contextlib.suppress(OSError):
                folder.rmdir()


def _part_beside(target: Path) -> tuple[int, str]:
    """A new temporary file beside the target, locked while it is open, and its path; leftovers that nobody locks go."""
    prefix = f".{target.name[:60]}."
    for leftover in target.parent.glob(f"{glob.escape(prefix)}*.part"):
        with contextlib.suppress(OSError), leftover.open("rb") as stream:
            if _locks(stream.fileno(), wait=False):
                leftover.unlink()
    while True:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=prefix, suffix=".part")
        _locks(handle, wait=True)
        if os.path.exists(temporary):
            return handle, temporary
        os.close(handle)  # another writer took it for a leftover before it was locked


def _locks(handle: int, *, wait: bool) -> bool:
    """Whether an open file is now locked by this process; not where another one locks it, nor on Windows."""
    try:
        from fcntl import LOCK_EX, LOCK_NB, flock

        flock(handle, LOCK_EX if wait else LOCK_EX | LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


def checked_path(path: str | os.PathLike[str]) -> Path:
    """A path; a number, which would stand for an open file, is none."""
    try:
        return Path(path)
    except TypeError:
        raise InvalidInputError(f"expected the path of a file; got {path!r:.80}") from None


def check_text(name: str, error: type[InvalidInputError]) -> None:
    """An error of the given kind for a name that is no text: a file may have one, a result cannot hold it."""
    if name != name.encode(errors="replace").decode():
        raise error(f"expected names in UTF-8; got {name!r}. Hint: set LANG=C.UTF-8, or rename the file")


def read_limited(path: str | os.PathLike[str], most: int, error: type[InvalidInputError]) -> bytes:
    """The bytes of a file; an error of the given kind if there are more than `most`, before they fill the memory."""
    with open(path, "rb") as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise error(
            f"{path} is larger than {most / 1e6:g} MB, more than is read of such a file. Hint: is it the right file?"
        )
    return content


def _mode_of_new_files() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
