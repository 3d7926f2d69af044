"""Names of files as `checkpoints.uris` compares them."""

from recovery.checkpoints.uris import LEGAL, canonical, decoded, encoded

__all__ = ["LEGAL", "canonical", "decoded", "encoded"]
