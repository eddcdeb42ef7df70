"""Policies from and to files. What only holds numbers is read freely; what runs code when it is loaded needs trust.

The JSON form of a policy is a table, or a base with a patch::

    {"schema": "polidiff/policy", "version": 1, "table": [[1.0, 0.0], …]}
    {"schema": "polidiff/policy", "version": 1, "base": "model.onnx" or a table, "patch": {…}}

Array files are never unpickled. A header may promise a shape that would fill the memory, and an archive may unpack to a
thousand times its size. Both are seen before a byte of data is read: the header is compared with the bytes that are
there, and the sizes that the archive declares (beyond which nothing is unpacked) with a limit.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from polidiff.errors import InvalidInputError, InvalidPolicyError, MissingExtraError, PolidiffError, UntrustedFileError
from polidiff.files import read_limited, write_whole
from polidiff.policies.functions import TablePolicy
from polidiff.policies.models import MEMORY
from polidiff.policies.patched import PatchedPolicy
from polidiff.policies.protocol import ForeignModel, Policy
from polidiff.records.arrays import AnyArray
from polidiff.records.codec import Json, encode, from_dict
from polidiff.records.patch import Patch

KEYS = ("policy", "probabilities", "actions", "table")
MOST_TEXT = 256_000_000  # bytes of a table written as text
MOST_BYTES = 2**30  # of all arrays of a file, unpacked
MOST_HEADER = 2**16
FAULTS = (OSError, ValueError, EOFError, RuntimeError, KeyError, zlib.error, zipfile.BadZipFile, csv.Error)


def read_object(path: str | os.PathLike[str], *, trust: bool = False) -> ForeignModel:
    """What a file holds: an array, a model, or the JSON form of a policy, still to be made a policy.

    Parameters
    ----------
    path : path
        ``.npz``, ``.npy``, ``.csv`` and ``.json`` hold numbers. ``.zip``, ``.d3``, ``.pkl``, ``.joblib`` and ``.pt``
        run code when loaded.
    trust : bool
        Whether such code may run.
    """
    file = Path(path)
    suffix = file.suffix.lower()
    if suffix not in READERS and suffix not in LOADERS:
        raise InvalidPolicyError(
            f"a policy file must end in {', '.join([*READERS, '.onnx', *LOADERS])}; got {file.name!r}"
            + ". Hint: who wrote a log is known beside that log only, as in explain(log, 'log', patch)"
            * (str(path) == "log")
        )
    if not os.path.isfile(file):
        raise InvalidPolicyError(f"there is no policy file {str(path)!r}")
    if suffix in READERS:
        with _one_line(file):
            return READERS[suffix](file)
    load, what = LOADERS[suffix]
    if not trust:
        raise UntrustedFileError(
            f"{file.name} is {what}: loading it runs whatever code it contains, and nothing was loaded. Hint: "
            "if you know who made it, allow it with trust=True (--trust on the command line), or export to ONNX"
        )
    with _one_line(file, (Exception,)):
        return load(file)


@contextmanager
def _one_line(
    path: Path,
    faults: tuple[type[Exception], ...] = FAULTS,
    error: type[InvalidInputError] = InvalidPolicyError,
) -> Iterator[None]:
    """What goes wrong while a file is read, as an error of one line that names it; our own errors as they are."""
    try:
        yield
    except PolidiffError:
        raise
    except faults as fault:
        what = "a policy" if error is InvalidPolicyError else "arrays of numbers"
        lines = str(fault).splitlines() or [type(fault).__name__]
        raise error(f"{path.name} cannot be read as {what}: {lines[0]}") from fault


def _npy(path: Path) -> AnyArray:
    size = os.stat(path).st_size
    _check_size(size)
    with open(path, "rb") as stream:
        return _array(stream, size)


def read_npz(path: Path, error: type[InvalidInputError]) -> dict[str, AnyArray]:
    """The arrays of an .npz file by name."""
    with _one_line(path, error=error):
        return _arrays(path)


def _arrays(path: Path) -> dict[str, AnyArray]:
    with zipfile.ZipFile(path) as archive:
        members = [member for member in archive.infolist() if member.filename.endswith(".npy")]
        _check_size(sum(member.file_size for member in members))
        arrays = {}
        for member in members:
            with archive.open(member) as stream:
                arrays[member.filename.removesuffix(".npy")] = _array(stream, member.file_size)
        return arrays


def _check_size(size: int) -> None:
    if size > MOST_BYTES:
        raise ValueError(f"its arrays take {size / 1e6:.0f} MB unpacked; at most {MOST_BYTES / 1e6:.0f} MB are read")


def _array(stream: IO[bytes], size: int) -> AnyArray:
    head = io.BytesIO(stream.read(MOST_HEADER))  # a header may say that it is four gigabytes long
    shape, fortran, dtype = _header(head)
    if dtype.hasobject:
        raise ValueError("it holds pickled objects, which may run code, and nothing was loaded. Hint: save numbers")
    needed = math.prod(shape) * dtype.itemsize
    if needed > size:
        raise ValueError(f"its header promises {needed} bytes of data; there are {size}. Hint: it may be cut off")
    begun = head.read(needed)
    data = begun + stream.read(needed - len(begun))
    if len(data) < needed:
        raise ValueError(f"its header promises {needed} bytes of data; {len(data)} came. Hint: it may be cut off")
    if not dtype.itemsize:
        raise ValueError(f"it must hold numbers; it holds {dtype}")
    return np.frombuffer(data, dtype=dtype).reshape(shape, order="F" if fortran else "C").copy()


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    """Shape, order and type; the reader of headers fails in as many ways as there are broken headers."""
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    try:
        reader = readers[np.lib.format.read_magic(stream)]
        shape, fortran, dtype = reader(stream)
    except (zipfile.BadZipFile, zlib.error):
        raise
    except Exception as fault:
        raise ValueError("it has no header of an array of numbers") from fault
    if any(length < 0 for length in shape):
        raise ValueError(f"its shape must not be negative; got {shape}")
    return tuple(shape), bool(fortran), dtype


def _npz(file: Path) -> AnyArray:
    arrays = _arrays(file)
    names = list(arrays)
    key = next((key for key in KEYS if key in names), names[0] if len(names) == 1 else None)
    if key is None:
        raise InvalidPolicyError(f"{file.name} must hold one array, or one named {' or '.join(KEYS)}; it has {names}")
    return arrays[key]


def _json(file: Path) -> Json:
    data = json.loads(_text(file))
    if isinstance(data, dict) and "schema" not in data:
        key = next((key for key in KEYS if key in data), None)
        if key is None:
            raise InvalidPolicyError(
                f"{file.name} must hold a table, or one under {' or '.join(KEYS)}; it has {sorted(data)[:5]}"
            )
        return data[key]
    return data


def _csv(file: Path) -> AnyArray:
    """Columns ``action``, or one per action with probabilities; a column ``state`` gives the order of rows."""
    rows = [row for row in csv.reader(io.StringIO(_text(file), newline="")) if row]
    header = None if not rows or _is_number(rows[0][0]) else [name.strip().lower() for name in rows.pop(0)]
    table = np.array([[float(entry) for entry in row] for row in rows])
    if table.ndim != 2 or not table.size:
        raise InvalidPolicyError(f"{file.name} must hold rows of the same length; got {len(rows)} rows")
    if header is not None and len(header) != table.shape[1]:
        raise InvalidPolicyError(
            f"every row of {file.name} must have the {len(header)} entries that its header names; got {table.shape[1]}"
        )
    if header is not None and "state" in header:
        order = table[:, header.index("state")]
        if not np.array_equal(np.sort(order), np.arange(len(table))):
            raise InvalidPolicyError(
                f"column state of {file.name} must hold every index from 0 to {len(table) - 1} once"
            )
        table = np.delete(table[np.argsort(order)], header.index("state"), axis=1)
        header = [name for name in header if name != "state"]
    if header is not None and "action" in header:
        return np.asarray(table[:, header.index("action")])
    return table[:, 0] if table.shape[1] == 1 else table


def _text(file: Path) -> str:
    return read_limited(file, MOST_TEXT, InvalidPolicyError).decode("utf-8-sig")


def _pickle(file: Path) -> ForeignModel:
    import joblib

    return joblib.load(file)


def _torch(file: Path) -> ForeignModel:
    try:
        import torch
    except ImportError:
        raise MissingExtraError("torch", "torch") from None
    module = torch.load(file, map_location="cpu", weights_only=False)
    if isinstance(module, dict):
        raise InvalidPolicyError(
            f"{file.name} holds weights only ({len(module)} entries), not a module. Hint: build the module, "
            "load_state_dict(torch.load(path)), and pass the module"
        )
    return module


def _zip(file: Path) -> ForeignModel:
    """A model of Stable-Baselines3 or sb3-contrib, with the statistics of VecNormalize that lie beside it."""
    try:
        with zipfile.ZipFile(file) as archive:
            data = json.loads(archive.read("data"))
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise InvalidPolicyError(f"{file.name} is not an archive of Stable-Baselines3: {error}") from error
    module = str(dict(data["policy_class"]).get("__module__"))
    if ".recurrent." in module:
        raise InvalidPolicyError(f"{file.name} {MEMORY}")
    library, name = next(pair for key, *pair in ALGORITHMS if key in data or key in module)
    try:
        model = getattr(import_module(library), name).load(file, device="cpu")
    except ImportError:
        raise MissingExtraError(library.replace("_", "-"), "sb3") from None
    beside = (
        file.with_name(near) for near in (f"{file.stem}.pkl", f"{file.stem}_vecnormalize.pkl", "vecnormalize.pkl")
    )
    statistics = next((near for near in beside if near.is_file()), None)
    if statistics is not None:
        model._vec_normalize_env = _pickle(statistics)
    return model


ALGORITHMS = (  # a setting that only this algorithm has (the archive does not name it), the first that is met
    ("cg_max_steps", "sb3_contrib", "TRPO"),
    ("n_quantiles", "sb3_contrib", "QRDQN"),
    (".maskable.", "sb3_contrib", "MaskablePPO"),
    ("exploration_fraction", "stable_baselines3", "DQN"),
    ("clip_range", "stable_baselines3", "PPO"),
    ("policy_delay", "stable_baselines3", "TD3"),
    ("target_entropy", "stable_baselines3", "SAC"),
    ("policy_class", "stable_baselines3", "A2C"),
)


def _d3(file: Path) -> ForeignModel:
    try:
        import d3rlpy
    except ImportError:
        raise InvalidPolicyError(
            f"{file.name} needs d3rlpy, which is not installed. Hint: pip install d3rlpy"
        ) from None
    return d3rlpy.load_learnable(str(file))


READERS: dict[str, Callable[[Path], ForeignModel]] = {".npz": _npz, ".npy": _npy, ".csv": _csv, ".json": _json}
LOADERS: dict[str, tuple[Callable[[Path], ForeignModel], str]] = {  # what runs code, and what to call it
    ".pkl": (_pickle, "a pickle"),
    ".pickle": (_pickle, "a pickle"),
    ".joblib": (_pickle, "a pickle"),
    ".pt": (_torch, "a pickle of torch objects"),
    ".pth": (_torch, "a pickle of torch objects"),
    ".zip": (_zip, "a Stable-Baselines3 archive with pickled parts"),
    ".d3": (_d3, "a d3rlpy archive with pickled parts"),
}


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


SCHEMA = "polidiff/policy"


def save_policy(policy: Policy, path: str | os.PathLike[str], *, n_states: int | None = None) -> Path:
    """Write a policy over the states of a table, `n_states` of them unless it is a table itself."""
    base = policy
    while isinstance(base, PatchedPolicy):
        base = base.base
    count = len(base.table) if isinstance(base, TablePolicy) else n_states
    if count is None:
        raise InvalidPolicyError(
            f"only policies over a table can be written as JSON; got {type(base).__name__}. Hint: save the patch, and "
            "keep the model in its own file"
        )
    table = encode(policy.probabilities(np.arange(count)))
    document = {"schema": SCHEMA, "version": 1, "table": table}
    return write_whole(path, json.dumps(document, allow_nan=False) + "\n")


def from_stored(data: Mapping[str, Json], path: Path, *, trust: bool = False) -> AnyArray | Policy:
    """The table or policy whose JSON form was read from `path`; a base named there lies beside it."""
    if data.get("schema") == "polidiff/patch":
        raise InvalidPolicyError(
            f"{path.name} is a patch, which needs a policy to change. Hint: polidiff patch apply {path.name} POLICY, "
            f"or explain(world, current, load({path.name!r}))"
        )
    if data.get("schema") != SCHEMA or data.get("version") != 1:
        raise InvalidPolicyError(
            f"{path.name} must hold a {SCHEMA} of version 1; it holds {data.get('schema')!r}, version "
            f"{data.get('version')!r}"
        )
    if "table" in data:
        return _table(data["table"], path)
    if "base" not in data or "patch" not in data:
        raise InvalidPolicyError(f"{path.name} must hold a table, or a base and a patch; it has {sorted(data)}")
    inner, patch = _base(data["base"], path, trust), from_dict(data["patch"])
    if not isinstance(patch, Patch):
        raise InvalidPolicyError(f"the patch of {path.name} must be one; it is a {type(patch).__name__.lower()}")
    if patch.edits and len(patch.actions) != inner.n_actions:
        raise InvalidPolicyError(
            f"the patch of {path.name} names {len(patch.actions)} actions; its base has {inner.n_actions}"
        )
    return PatchedPolicy(inner, patch)


def _base(base: Json, path: Path, trust: bool) -> Policy:
    """The policy that is patched: a table, or a file beside the patched policy that is not patched itself."""
    from polidiff.policies.adapters import as_policy

    if not isinstance(base, str):
        return as_policy(_table(base, path))
    place = path.parent / base
    if place.suffix.lower() == ".json":
        stored = read_object(place, trust=trust)
        if isinstance(stored, dict) and "base" in stored:
            raise InvalidPolicyError(f"the base of {path.name} must be a table or a model; {base!r} is patched itself")
    return as_policy(place, trust=trust)


def _table(rows: npt.ArrayLike, path: Path) -> AnyArray:
    try:
        return np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidPolicyError(f"the table of {path.name} must hold rows of numbers of the same length") from None
