"""What chaos did and what it cost, as JSON and as the page docs/chaos.md."""

import platform
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tests.chaos.person import Outcome
from tests.chaos.strikes import Strike


@dataclass(frozen=True)
class Report:
    seed: int
    database: str
    seconds: float
    strikes: Sequence[Strike]
    outcomes: Sequence[Outcome]
    chain_breaks: int
    chain: str
    left_out: Sequence[str] = ()

    @property
    def kills(self) -> int:
        return sum(1 for s in self.strikes if s.how == "kill")

    @property
    def bad(self) -> bool:
        return bool(self.chain_breaks) or any(o.bad for o in self.outcomes)

    def as_dict(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "database": self.database,
            "seconds": round(self.seconds),
            "recoveries": len(self.outcomes),
            "succeeded": sum(1 for o in self.outcomes if o.state == "succeeded"),
            "strikes": len(self.strikes),
            "kills": self.kills,
            "by": {f"{how} {who}": n for (who, how), n in sorted(self._by().items())},
            "lost": sum(o.lost for o in self.outcomes),
            "doubled": sum(o.doubled for o in self.outcomes),
            "double_resets": sum(o.double_resets for o in self.outcomes),
            "chain_breaks": self.chain_breaks,
            "chain": self.chain,
            "unknown_steps": sum(o.unknown for o in self.outcomes),
            "resumed_by_a_person": sum(o.resumed for o in self.outcomes),
            "slowest_seconds": max((o.seconds for o in self.outcomes), default=0),
            "left_out": list(self.left_out),
            "not_good": [asdict(o) for o in self.outcomes if o.bad],
        }

    def _by(self) -> Counter[tuple[str, str]]:
        return Counter((s.victim, s.how) for s in self.strikes)

    def page(self) -> str:
        """The Markdown page."""
        said = self.as_dict()
        four = [
            ("rows lost", said["lost"]),
            ("rows doubled", said["doubled"]),
            ("double resets", said["double_resets"]),
            ("chain breaks", said["chain_breaks"]),
        ]
        lines = [
            "# Chaos",
            "",
            "Recoveries by strategy *continue*, each of a pipeline that real Spark had failed, while parts of the",
            "instance were killed (SIGKILL), frozen (SIGSTOP, then SIGCONT after up to 9 s), the broker flushed,",
            "or the disk filled (the last table says what was done how often; what is not in it was not done).",
            "A responder planned, ran and resumed through the command line only. Rows were",
            "counted on the table without Spark, resets on the disk, the chain by `audit verify`.",
            "Made by `python -m tests.chaos`.",
            "",
            f"Seed {self.seed}, {self.database}, {platform.python_implementation()} {platform.python_version()}, "
            f"{said['seconds'] // 60} min {said['seconds'] % 60} s.",
            "",
            "| recoveries | proven | strikes | of these kills | unknown steps | resumed by a person | slowest |",
            "|---|---|---|---|---|---|---|",
            f"| {said['recoveries']} | {said['succeeded']} | {said['strikes']} | {said['kills']} | "
            f"{said['unknown_steps']} | {said['resumed_by_a_person']} | {said['slowest_seconds']:.0f} s |",
            "",
            "| must be 0 | found |",
            "|---|---|",
            *(f"| {name} | {found} |" for name, found in four),
            "",
            "| strike | times |",
            "|---|---|",
            *(f"| {name} | {times} |" for name, times in said["by"].items()),
        ]
        lines += ["", *(f"Not done here: {what}" for what in self.left_out)] if self.left_out else []
        for outcome in said["not_good"]:
            lines += ["", f"- {outcome['name']}: {outcome['state']}; {'; '.join(outcome['said'][-3:])}"]
        return "\n".join(lines) + "\n"
