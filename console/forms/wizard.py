"""What the wizard's forms send: a strategy with its key, and edited source."""

from collections.abc import Mapping
from typing import Any, Final

from django import forms
from django.http import QueryDict

from console.forms.said import list_problems
from recovery.contracts.acceptance import Effect
from recovery.contracts.choices import ChoicesChange
from recovery.contracts.names import Strategy
from recovery.errors import WrongUse
from recovery.sources import targets

KEY_CHARACTERS: Final = 4000
REASON_CHARACTERS: Final = 10


class StrategyForm(forms.Form):
    strategy = forms.CharField(label="Strategy", max_length=30, required=False)
    key = forms.CharField(label="Key columns", max_length=KEY_CHARACTERS, required=False)
    to = forms.CharField(label="What to go back to", max_length=100, required=False)

    def read_change(self) -> ChoicesChange:
        """Strategy and key, whose columns are split at commas; of a replay what it goes back to. Raises WrongUse."""
        if not self.is_valid():
            raise WrongUse(f"{list_problems(self)} Nothing was saved.", code="bad_choice")
        given: Mapping[str, Any] = self.cleaned_data
        columns = [c.strip() for c in str(given.get("key") or "").split(",")]
        strategy, to = given.get("strategy") or "", str(given.get("to") or "").strip()
        return ChoicesChange(
            strategy=strategy,
            key=tuple(column for column in columns if column),
            target=targets.parse_target(to) if to and strategy == Strategy.REPLAY else None,
        )


class AcceptForm(forms.Form):
    accept = forms.MultipleChoiceField(label="What is accepted", choices=[(e.value, e.value) for e in Effect])
    reason = forms.CharField(label="Reason", min_length=REASON_CHARACTERS, max_length=1000)

    shown = forms.CharField(label="What was shown", max_length=200, required=False)

    def accepted(self) -> dict[str, Any]:
        """Arguments of `accept_and_seal`. Raises WrongUse."""
        if not self.is_valid():
            raise WrongUse(f"{list_problems(self)} Nothing was saved.", code="bad_choice")
        given = self.cleaned_data
        effects = [Effect(name) for name in given["accept"]]
        return {"effects": effects, "shown": given["shown"], "reason": given["reason"]}


def read_edits(post: QueryDict) -> dict[str, str]:
    """Text by workspace path from `path.0`, `text.0`, …; line ends are LF.

    Browsers send CRLF for every line end of a textarea, whatever the file had; `lineends` gives it its own again.
    """
    edits = {}
    for name, path in post.items():
        number = name.removeprefix("path.")
        if name.startswith("path.") and f"text.{number}" in post and isinstance(path, str):
            edits[path] = str(post[f"text.{number}"]).replace("\r\n", "\n")
    return edits
