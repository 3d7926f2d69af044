"""What is wrong in a form, in words."""

from django import forms


def list_problems(form: forms.Form) -> str:
    """Every error in one sentence each, with the field's label."""
    problems = []
    for name, errors in form.errors.items():
        label = form.fields[name].label if name in form.fields else ""
        problems += [f"{label}: {e}" if label else str(e) for e in errors]
    return " ".join(problems)
