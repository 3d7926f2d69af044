#!/usr/bin/env python3
"""Checks an evidence pack where it was unpacked: python3 verify.py [--key PUBLIC_KEY_HEX]

Needs Python 3.9 or newer and nothing else. It proves that no file of the pack was changed since it was made, that
every entry is what the audit log held, that the entries stand in one chain up to a signed anchor, and that plans have
the hash that was sealed. Who signed is proven only if you give the public key that the operator of the console
published (bin/manage audit keys); without --key, compare the one that is printed.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

P = 2**255 - 19
Q = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
Point = tuple[int, int, int, int]


def _add_points(a: Point, b: Point) -> Point:
    e, f = (a[1] - a[0]) * (b[1] - b[0]) % P, (a[1] + a[0]) * (b[1] + b[0]) % P
    g, h = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    e, f, g, h = f - e, h - g, h + g, f + e
    return e * f % P, g * h % P, f * g % P, e * h % P


def _multiply_point(n: int, point: Point) -> Point:
    product: Point = (0, 1, 1, 0)
    while n > 0:
        if n & 1:
            product = _add_points(product, point)
        point, n = _add_points(point, point), n >> 1
    return product


def _recover_x(y: int, sign: int) -> int | None:
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if (x * x - square) % P or (x == 0 and sign):
        return None
    return P - x if (x & 1) != sign else x


def _decode_point(raw: bytes) -> Point | None:
    number = int.from_bytes(raw, "little")
    y = number & ((1 << 255) - 1)
    x = _recover_x(y, number >> 255)
    return None if x is None else (x, y, 1, x * y % P)


def is_signed(public: bytes, message: bytes, signature: bytes) -> bool:
    """Ed25519, RFC 8032 section 5.1.7."""
    key = _decode_point(public) if len(public) == 32 else None
    first = _decode_point(signature[:32]) if len(signature) == 64 else None
    s = int.from_bytes(signature[32:], "little")
    if key is None or first is None or s >= Q:
        return False
    base_y = 4 * pow(5, P - 2, P) % P
    base_x = _recover_x(base_y, 0) or 0
    h = int.from_bytes(hashlib.sha512(signature[:32] + public + message).digest(), "little") % Q
    left, right = (
        _multiply_point(s, (base_x, base_y, 1, base_x * base_y % P)),
        _add_points(first, _multiply_point(h, key)),
    )
    return not (
        (left[0] * right[2] - right[0] * left[2]) % P or (left[1] * right[2] - right[1] * left[2]) % P
    )


def canonical_bytes(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode("ascii")


FIRST = ("seq", "at", "actor", "role", "via", "request_id", "action", "outcome", "target_kind", "target", "recovery",
         "says", "before", "after", "prev_hash")  # fmt: skip
SECOND = (*FIRST[:-1], "format", "behalf", "task_id", "session", "address", "environment", "reason")


def hash_entry(entry: dict[str, Any]) -> str:
    names = FIRST if entry["format"] == 1 else SECOND
    return hashlib.sha256(canonical_bytes({n: entry[n] for n in names})).hexdigest()


def check_files(folder: Path, manifest: dict[str, str]) -> list[str]:
    """Files that are missing, changed, or were put in afterwards."""
    wrong = []
    for name, digest in manifest.items():
        file = folder / name
        if not file.is_file():
            wrong.append(f"{name} is missing.")
        elif hashlib.sha256(file.read_bytes()).hexdigest() != digest:
            wrong.append(f"{name} was changed.")
    known = {*manifest, "manifest.json", "manifest.sig"}
    names = (
        str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_file() and "__pycache__" not in f.parts
    )
    return wrong + [f"{name} does not belong to the pack." for name in names if name not in known]


def check_chain(proof: dict[str, Any], entries: dict[int, dict[str, Any]]) -> list[str]:
    """Walk from the recovery's first entry to the anchor; each entry of the pack must be a link of it."""
    wrong, met, hash = [], set(), proof["prev_hash"]
    for seq, form, given in proof["links"]:
        digest = given
        if form == 1:
            digest = hashlib.sha256(given.encode("ascii")).hexdigest()
            if json.loads(given)["prev_hash"] != hash:
                wrong.append(f"Entry {seq} does not follow the one before it.")
        entry = entries.get(seq)
        if entry is not None:
            met.add(seq)
            if hash_entry(entry) != digest:
                wrong.append(f"Entry {seq} is not what was written.")
        hash = digest if form == 1 else hashlib.sha256(f"{hash}\n{digest}".encode()).hexdigest()
        if entry is not None and entry["hash"] != hash:
            wrong.append(f"Entry {seq} has another hash than the chain.")
    wrong += [f"Entry {seq} is not in the chain." for seq in sorted(set(entries) - met)]
    anchor = proof["anchor"]
    if anchor and (not proof["links"] or proof["links"][-1][0] != anchor["seq"] or hash != anchor["hash"]):
        wrong.append("The chain does not lead to the signed anchor.")
    return wrong


def check_signatures(folder: Path, proof: dict[str, Any], key: str | None) -> tuple[list[str], list[str]]:
    """(what is wrong, what the reader has to know)."""
    public, anchor = proof["public_key"], proof["anchor"]
    if not anchor or not public:
        if key:
            return ["The pack is not signed, so it is not proven that your key's owner made it."], []
        return [], [
            "NOT SIGNED: this pack was made without a key. The chain within it fits; who made it is not proven."
        ]
    wrong = []
    if key and key.lower() != public:
        wrong.append(f"The pack is signed with another key than yours: {public}.")
    raw = bytes.fromhex(public)
    said = {k: anchor[k] for k in ("kind", "seq", "hash", "at", "detail")}
    message = canonical_bytes({"what": "reprise audit anchor", **said})
    if not is_signed(raw, message, bytes.fromhex(anchor["signature"])):
        wrong.append("The signature of the anchor does not fit.")
    manifest = (folder / "manifest.json").read_bytes()
    if not is_signed(raw, manifest, bytes.fromhex((folder / "manifest.sig").read_text().strip())):
        wrong.append("The signature of the manifest does not fit.")
    note = "given by you" if key else "compare it with what the console's operator published"
    return wrong, [f"Signed with key {public} ({note})."]


def seal_of(body: dict[str, Any]) -> str:
    """Of a plan, or a joint one."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def check_plans(folder: Path) -> list[str]:
    """A plan's hash is over its own canonical JSON: UTF-8, not escaped. So is that of a joint plan, which names it."""
    plans = json.loads((folder / "plan.json").read_text("utf-8"))["plans"]
    bad = []
    for plan in plans:
        if seal_of(plan["body"]) != plan["hash"]:
            bad.append(plan["hash"])
        if joint := plan.get("joint"):
            named = [member["plan"] for member in joint["plans"]]
            if seal_of(joint) != plan["joint_hash"] or plan["hash"] not in named:
                bad.append(plan["joint_hash"])
    return [f"Plan {h[:8]} is not what was sealed." for h in bad]


def check_pack(folder: Path, key: str | None = None) -> tuple[list[str], list[str]]:
    """(what is wrong, what the reader has to know). Raises OSError, ValueError, KeyError for what is no pack."""
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    proof = json.loads((folder / "proof.json").read_text("utf-8"))
    lines = (folder / "entries.jsonl").read_text("utf-8").split("\n")
    entries = {e["seq"]: e for e in map(json.loads, filter(None, lines))}
    wrong, notes = check_signatures(folder, proof, key)
    wrong += check_files(folder, manifest) + check_chain(proof, entries) + check_plans(folder)
    return wrong, [*notes, f"{len(entries)} entries, chain from {proof['first']} to {proof['last']}."]


def main(arguments: list[str]) -> int:
    key = arguments[1] if len(arguments) == 2 and arguments[0] == "--key" else None
    if arguments and key is None:
        sys.stderr.write("Use: python3 verify.py [--key PUBLIC_KEY_HEX]\n")
        return 2
    try:
        wrong, notes = check_pack(Path(__file__).resolve().parent, key)
    except (OSError, ValueError, KeyError, TypeError) as error:
        wrong, notes = [f"This is no whole pack: {error!r}."], []
    sys.stdout.write("\n".join([*notes, *wrong, "NOT GOOD." if wrong else "GOOD: everything fits."]) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
