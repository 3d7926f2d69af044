"""What the audit log gives out, written without a log: an archive of three entries, signed with a key of its own."""

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from recovery.audit import chain
from recovery.audit.offline.archive import key_id


def write_archive(folder: Path) -> tuple[Path, str]:
    """The file, its signature beside it, and the public key in hex."""
    hash, lines = chain.GENESIS, []
    for seq in (1, 2, 3):
        at = datetime(2026, 11, 21, 3, seq, tzinfo=UTC)
        fields = {**dict.fromkeys(chain.FIELDS, ""), "seq": seq, "format": 2, "at": at, "says": f"Ran step {seq}.",
                  "before": None, "after": None, "prev_hash": hash}  # fmt: skip
        hash = chain.entry_hash(fields)
        lines.append(json.dumps({**fields, "at": at.isoformat(), "hash": hash}) + "\n")
    file = folder / "reprise-audit-1-3.jsonl"
    file.write_text("".join(lines))
    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes_raw()
    said = {"what": "reprise audit archive", "first": 1, "last": 3, "entries": 3, "last_hash": hash,
            "sha256": hashlib.sha256(file.read_bytes()).hexdigest(), "key_id": key_id(public)}  # fmt: skip
    message = json.dumps(said, sort_keys=True, separators=(",", ":")).encode()
    text = json.dumps({**said, "signature": key.sign(message).hex()})
    file.with_name(f"{file.name}.sig").write_text(text)
    return file, public.hex()
