"""Folders on this machine and in stores: one spelling of each, and whether two are the same."""

import os

from recovery.checkpoints import access
from recovery.checkpoints.uris import spell_place
from recovery.errors import RepriseError


def real_place(place: str) -> str:
    """The one spelling of a place; links on this machine are followed. Raises WrongUse, Refused."""
    read = access.read_place(place)
    return spell_place(place) if read.store else os.path.realpath(read.path)


def is_same_place(place: str, other: str) -> bool:
    """Whether both are one folder, however each is spelled; links on this machine are followed."""
    return spell_place(place) == spell_place(other) or spell_real_place(place) == spell_real_place(other)


def spell_real_place(place: str) -> str:
    """As `real_place`; of what is no place here, as it is spelled."""
    try:
        return real_place(place)
    except RepriseError:  # a log names whatever its program was given
        return spell_place(place)
