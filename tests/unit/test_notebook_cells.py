"""`%run` of an exported notebook runs the other one's cells in its place; what Python would skip is refused."""

import posixpath
from collections.abc import Mapping
from typing import Any

import pytest

from recovery.notebook_cells import (
    MOST_BYTES,
    MOST_DEEP,
    MOST_RUNS,
    NotebookCode,
    NotebookProblem,
    NotebookReader,
    choose_root,
    list_run_targets,
)

HEAD = "# Databricks notebook source\n"
CELL = "\n# COMMAND ----------\n\n"


def run(files: Mapping[str, str], first: str = "/app/main.py", **how: Any) -> dict[str, Any]:
    """The names that a notebook leaves."""
    raw = {path: text.encode() for path, text in files.items()}
    names: dict[str, Any] = {}
    NotebookReader("/app", raw.get, **how).open_notebook(first, raw[first]).run_cells(names)
    return names


def problem_of(files: Mapping[str, str], **how: Any) -> NotebookProblem:
    with pytest.raises(NotebookProblem) as raised:
        run(files, **how)
    return raised.value


@pytest.mark.parametrize(
    "named", ["./other", "other", "other.py", "./other.py", '"./other"', "./sub/../other"]
)
def test_the_other_notebooks_cells_run_in_its_place_and_in_the_same_names(named: str) -> None:
    main = f"{HEAD}seen = ['before']{CELL}# MAGIC %run {named}{CELL}seen.append(GIVEN)\n"
    names = run({"/app/main.py": main, "/app/other.py": f"{HEAD}seen.append('other')\nGIVEN = 'after'\n"})
    assert names["seen"] == ["before", "other", "after"]


def test_a_notebook_is_named_from_the_folder_of_the_one_that_names_it() -> None:
    names = run(
        {
            "/app/main.py": "# MAGIC %run ./sub/deep/a\n",
            "/app/sub/deep/a.py": "# MAGIC %run ../b\n",
            "/app/sub/b": "B = 1\n",
            "/app/b.py": "B = 2\n",
        }
    )
    assert names["B"] == 1


def test_a_notebook_that_two_others_run_is_run_twice() -> None:
    names = run(
        {
            "/app/main.py": "n = 0\n# MAGIC %run ./a\n# MAGIC %run ./b\n",
            "/app/a.py": "# MAGIC %run ./c\n",
            "/app/b.py": "# MAGIC %run ./c\n",
            "/app/c.py": "n += 1\n",
        }
    )
    assert names["n"] == 2


def test_lines_keep_their_numbers_and_files_their_names() -> None:
    files = {
        "/app/main.py": "x = 1\n# MAGIC %run ./other\n\nfailed()\n",
        "/app/other.py": "\ndef failed(): 1 / 0\n",
    }
    with pytest.raises(ZeroDivisionError) as raised:
        run(files)
    assert [(str(at.path), at.lineno + 1) for at in raised.traceback[-2:]] == [
        ("/app/main.py", 4),
        ("/app/other.py", 2),
    ]


def test_what_a_future_import_changes_holds_below_a_run() -> None:
    main = "from __future__ import annotations\n# MAGIC %run ./other\ndef f(x: Nowhere): ...\n"
    assert run({"/app/main.py": main, "/app/other.py": ""})["f"].__annotations__ == {"x": "Nowhere"}


CODES = NotebookCode


@pytest.mark.parametrize(
    ("cell", "code"),
    [
        ("%sql\n# MAGIC select 1", CODES.NOT_PYTHON),
        ("%pip install x", CODES.NOT_PYTHON),
        ("%sh rm -r /ck", CODES.NOT_PYTHON),
        ("%scala\n# MAGIC val x = 1", CODES.NOT_PYTHON),
        ("%run", CODES.UNREADABLE),
        ("%run ./other $x=1", CODES.UNREADABLE),
        ("%run ./$name", CODES.UNREADABLE),
        ("%run './other", CODES.UNREADABLE),
        ("%run /app/other", CODES.OUTSIDE),
        ("%run ../other", CODES.OUTSIDE),
        ("%run ../app2/other", CODES.OUTSIDE),
        ("%run ~/other", CODES.OUTSIDE),
        ("%run s3://bucket/other", CODES.OUTSIDE),
        ("%run .", CODES.OUTSIDE),
        ("%run ./absent", CODES.ABSENT),
        ("%run ./main", CODES.CYCLE),
        ("%run ./back", CODES.CYCLE),
    ],
)
def test_what_is_not_run_is_refused_with_its_line_before_anything_runs(cell: str, code: NotebookCode) -> None:
    main = f"ran.append(1){CELL}# MAGIC {cell}\n"
    files = {
        "/app/main.py": main,
        "/app/other.py": "",
        "/app/back.py": "# MAGIC %run ./main\n",
        "/other.py": "",
    }
    problem = problem_of(files)  # `ran` is not there: a cell that ran would be a NameError
    where = ("/app/back.py", 1) if "back" in cell else ("/app/main.py", 4)
    assert (problem.code, problem.path, problem.line) == (code, *where)
    assert str(problem).partition(" ")[0] == f"[{code}]"


@pytest.mark.parametrize(
    "text",
    [
        "# MAGIC %md\n# MAGIC %run ./nowhere\n# MAGIC %pip install x\n",
        "# DBTITLE 1,About\n# MAGIC %md-sandbox\n# MAGIC %sql\n",
        "# MAGIC plain words\n",
    ],
)
def test_a_cell_of_text_runs_nothing(text: str) -> None:
    assert run({"/app/main.py": text + CELL + "x = 1\n"})["x"] == 1


def test_a_magic_below_a_cell_of_text_is_none_of_it() -> None:
    main = f"# MAGIC %md\n# MAGIC about{CELL}# MAGIC %sh ls\n"
    assert problem_of({"/app/main.py": main}).line == 5


def test_a_magic_that_the_caller_passes_over_is_no_problem() -> None:
    text = "# MAGIC %pip install x\nx = 1\n"
    assert run({"/app/main.py": text}, passed={"pip"})["x"] == 1


def test_notebooks_that_run_each_other_too_deep_or_too_often_or_with_too_much_are_refused() -> None:
    deep = {f"/app/{n}.py": f"# MAGIC %run ./{n + 1}\n" for n in range(MOST_DEEP)}
    chain = {"/app/main.py": "# MAGIC %run ./1\n", **deep, f"/app/{MOST_DEEP}.py": ""}
    assert problem_of(chain).code == CODES.TOO_MUCH
    run({**chain, f"/app/{MOST_DEEP - 1}.py": ""})

    often = {f"/app/{n}.py": f"# MAGIC %run ./{n + 1}\n# MAGIC %run ./{n + 1}\n" for n in range(7)}
    assert problem_of({"/app/main.py": "# MAGIC %run ./0\n", **often, "/app/7.py": ""}).code == CODES.TOO_MUCH

    large = {"/app/main.py": "# MAGIC %run ./1\n", "/app/1.py": "#" * (MOST_BYTES + 1)}
    assert problem_of(large).code == CODES.TOO_MUCH


def test_the_runs_of_all_cells_count_together() -> None:
    most = "# MAGIC %run ./a\n" * MOST_RUNS
    run({"/app/main.py": most, "/app/a.py": ""})
    assert problem_of({"/app/main.py": f"{most}# MAGIC %run ./a\n", "/app/a.py": ""}).line == MOST_RUNS + 1
    half = "# MAGIC %run ./a\n" * (MOST_RUNS // 2)
    two = {"/app/main.py": "# MAGIC %run ./b\n# MAGIC %run ./b\n", "/app/b.py": half, "/app/a.py": ""}
    assert problem_of(two).code == CODES.TOO_MUCH


def test_a_notebook_in_a_store_runs_what_is_in_its_folder_there() -> None:
    text = b"# MAGIC %run ./a\n# MAGIC %run ../b\n# MAGIC %run ../../c\n"
    found = list(list_run_targets("s3a://bucket/app/sub/main.py", text, "s3a://bucket/app"))
    assert [candidates[0] for candidates in found] == ["s3a://bucket/app/sub/a.py", "s3a://bucket/app/b.py"]


@pytest.mark.parametrize("encoding", ["hex", "undefined", "no-such", "utf-8"])
def test_a_file_that_cannot_be_decoded_names_no_notebook_and_is_refused_as_one(encoding: str) -> None:
    source = f"# coding: {encoding}\n".encode() + b"\xff"
    assert list(list_run_targets("/app/x.py", source, "/app")) == []
    with pytest.raises(SyntaxError):
        NotebookReader("/app", {}.get).open_notebook("/app/x.py", source)


def test_no_more_notebooks_are_looked_for_than_a_file_could_run_and_each_once() -> None:
    many = "".join(f"# MAGIC %run ./{n}\n" for n in range(10 * MOST_RUNS)).encode()
    assert len(list(list_run_targets("/app/x.py", many, "/app"))) == MOST_RUNS
    assert len(list(list_run_targets("/app/x.py", b"# MAGIC %run ./a\n" * 9, "/app"))) == 1


def test_a_path_longer_than_any_is_not_taken_apart() -> None:
    """Words are split in the square of their length: 1 MB took 21 s."""
    assert list(list_run_targets("/app/x.py", b"# MAGIC %run ./" + b"a" * 1_000_000, "/app")) == []
    assert problem_of({"/app/main.py": "# MAGIC %run ./" + "a" * 5000}).code == CODES.UNREADABLE


def test_what_a_notebook_may_run_is_named_without_running_it() -> None:
    text = b"# MAGIC %run ./a\n# MAGIC %run ../b.py\n# MAGIC %run /c\n# MAGIC %md\n# MAGIC %run ./d\n"
    assert list(list_run_targets("/app/sub/main.py", text, "/app")) == [
        ("/app/sub/a.py", "/app/sub/a"), ("/app/b.py",), ("/app/sub/d.py", "/app/sub/d"),
    ]  # fmt: skip
    assert list(list_run_targets("/app/main.py", b"\xff", "/app")) == []


@pytest.mark.parametrize(
    ("path", "root", "chosen"),
    [
        ("/app/sub/a.py", "/app", "/app"),
        ("/lib/a.py", "/app", "/lib"),
        ("/a.py", "/", "/"),
        ("/x/y/a.py", "/", "/x/y"),
        ("/x/a.py", "/", "/x"),
        ("/app2/a.py", "/app", "/app2"),
    ],
)
def test_a_file_outside_of_the_pipelines_folder_runs_what_is_in_its_own(
    path: str, root: str, chosen: str
) -> None:
    assert choose_root(path, root) == chosen
    assert posixpath.isabs(chosen)


def test_a_notebook_in_no_folder_runs_none_that_is_in_one() -> None:
    text = b"# MAGIC %run ./beside\n# MAGIC %run ./other/secret\n"
    assert [c[0] for c in list_run_targets("/x.py", text, choose_root("/x.py", "/"))] == ["/beside.py"]
