"""Settings > Environments: what each asks for before a plan may run, and the form that changes it."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect

from console.forms.approvals import RuleForm, form_values
from console.forms.said import list_problems
from console.middleware import PageRequest
from console.pages.base import page, refusal_of, render_page
from console.presenters.approving import rule_lines
from recovery.approvals import changing, selectors
from recovery.approvals.rules import LENIENT
from recovery.errors import NotFound, RepriseError, WrongUse
from recovery.models import EnvironmentRule
from recovery.people.roles import Actor, Right
from recovery.strategies.catalogue import EXECUTABLE


@page(Right.MANAGE)
def list_environments(request: PageRequest, by: Actor) -> HttpResponse:
    """Every environment and its rule, the shipped ones marked as such."""
    changed = {r.environment: r for r in EnvironmentRule.objects.all()}
    rows = [(n, rule_lines(selectors.rule_for(n)), changed.get(n)) for n in selectors.list_environments()]
    return render_page(request, "settings/environments.html", {"section": "settings", "rows": rows})


@page(Right.MANAGE, methods=("GET", "POST"))
def edit_environment(request: PageRequest, by: Actor, name: str) -> HttpResponse:
    """One rule. What was typed stays when it is refused."""
    if name not in selectors.list_environments():
        raise NotFound(f"There is no environment {name}. See the list of environments.")
    refusal: RepriseError | None = None
    values: Any = form_values(selectors.rule_for(name), changing.version_of(name))
    ticked = list(values["strategies"] or EXECUTABLE)
    if request.method == "POST":
        form, ticked = RuleForm(request.POST), request.POST.getlist("strategies")
        refusal = _change_rule(form, name, ticked, by)
        if refusal is None:
            return redirect("environments")
        values = {k: request.POST.get(k, "") for k in form.fields}
    context = {
        "section": "settings", "environment": name, "name": name, "values": values, "strict": name not in LENIENT,
        "strategies": [(s, s in ticked) for s in EXECUTABLE],
        "voters": selectors.names_of_approvers(selectors.rule_for(name)),
    }  # fmt: skip
    return render_page(
        request, "settings/environment.html", context, refusal=refusal, status=422 if refusal else None
    )


def _change_rule(form: RuleForm, name: str, ticked: list[str], by: Actor) -> RepriseError | None:
    if not form.is_valid():
        return WrongUse(list_problems(form))
    rule = form.rule(name, ticked, list(EXECUTABLE))
    return refusal_of(lambda: changing.change_rule(rule=rule, version=form.cleaned_data["version"], by=by))
