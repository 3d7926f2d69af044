"""Whether two codes put rows into windows in the same way: told by Spark's plan of each, else not at all."""

import pytest

from recovery.spark.explained import groups, windows

# As Spark 4.2 writes it, but for the length of the window's own expression.
COUNTED = """== Analyzed Logical Plan ==
start: timestamp, page: string, clicks: bigint
~Project [minute#26-T120000ms.start AS start#33, page#23, clicks#27L]
+- ~Aggregate [window#32-T120000ms, page#23], [window#32-T120000ms AS minute#26-T120000ms, page#23, count(1) AS clicks#27L]
   +- ~Project [named_struct(start, (at#25-T120000ms % 60000000)) AS window#32-T120000ms, page#23, country#24, at#25-T120000ms]
      +- ~Filter isnotnull(at#25-T120000ms)
         +- ~EventTimeWatermark 6668dc9c-acf3-4081-bfea-bb541003b041, at#25: timestamp, 2 minutes
            +- ~Project [click#21.page AS page#23, click#21.country AS country#24, click#21.at AS at#25]
               +- ~StreamingRelationV2 org.Provider@20949888, kafka, org.Table@79b6d1ff, [subscribe=t], [value#15], name=<x>

== Physical Plan ==
StateStoreSave [window#32-T120000ms, page#23]
"""  # noqa: E501 - as Spark writes it
ANOTHER_SESSION = (
    COUNTED.replace("6668dc9c-acf3-4081-bfea-bb541003b041", "91f88b68-e1f2-4eb6-9f08-51774a639703")
    .replace("@20949888", "@a2203d7")
    .replace("#2", "#5")
    .replace("#3", "#6")
    .replace("#15", "#45")
)

SAME = {
    "another session": ANOTHER_SESSION,
    "one key more": ANOTHER_SESSION.replace("page#53], [", "page#53, country#54], [", 1),
    "another aggregate": ANOTHER_SESSION.replace("count(1)", "sum(page#53)"),
    "fewer rows afterwards": ANOTHER_SESSION.replace(
        "+- ~Aggregate", "+- ~Filter (clicks#57 > 1)\n+- ~Aggregate"
    ),
}


@pytest.mark.parametrize("text", SAME.values(), ids=SAME.keys())
def test_what_happens_above_the_windows_does_not_matter(text: str) -> None:
    assert text != COUNTED
    assert windows(text) == windows(COUNTED) != ""


OTHER = {
    "another length": COUNTED.replace("60000000", "30000000"),
    "another watermark": COUNTED.replace("2 minutes", "1 minutes"),
    "another column": COUNTED.replace("click#21.at AS", "click#21.sent AS"),
    "fewer rows before": COUNTED.replace("Filter isnotnull", "Filter (page#23 = home) AND isnotnull"),
    "another topic": COUNTED.replace("subscribe=t", "subscribe=u"),
    "late by another key": COUNTED.replace("[window#32-T120000ms, page#23], [", "[at#25-T120000ms, page#23], ["),
    "columns changed places": COUNTED.replace("click#21.page AS page#23, click#21.country AS country#24",
                                              "click#21.page AS country#24, click#21.country AS page#23"),
}  # fmt: skip


@pytest.mark.parametrize("text", OTHER.values(), ids=OTHER.keys())
def test_other_windows_rows_or_sources_are_told_apart(text: str) -> None:
    assert text != COUNTED
    assert windows(text) not in ("", windows(COUNTED))


UNTOLD = {
    "a Python function": COUNTED.replace("click#21.at AS", "<lambda>(click#21.at)#94 AS"),
    "the time of the run": COUNTED.replace("click#21.at AS", "current_timestamp() AS"),
    "a sample": COUNTED.replace("Filter isnotnull", "Filter (rand(7) < 0.5) AND isnotnull"),
    "repeats dropped before": COUNTED.replace("~Filter isnotnull(at#25-T120000ms)", "~Deduplicate [page#23]"),
    "two sources": COUNTED.replace("~Filter isnotnull(at#25-T120000ms)", "~Union false, false"),
    "two aggregations": COUNTED.replace("~Filter isnotnull(at#25-T120000ms)", "~Aggregate [at#25], [at#25]"),
    "two watermarks": COUNTED.replace("~Filter isnotnull(", "~EventTimeWatermark 6668, "),
    "no watermark in the key": COUNTED.replace("[window#32-T120000ms, page#23], [", "[page#23], ["),
    "no aggregation": COUNTED.replace("~Aggregate", "~Project"),
    "no plan": "",
}  # fmt: skip


@pytest.mark.parametrize("text", UNTOLD.values(), ids=UNTOLD.keys())
def test_what_a_plan_does_not_say_whole_is_not_told(text: str) -> None:
    assert text != COUNTED
    assert windows(text) == ""


ABOVE = [
    (COUNTED, "one"),
    (COUNTED.replace("+- ~Aggregate", "+- ~Filter (clicks#27 > 1)\n+- ~Aggregate"), "at most one"),
    (COUNTED.replace("+- ~Aggregate", "+- ~SubqueryAlias counted\n+- ~Aggregate"), "one"),
    (COUNTED.replace("+- ~Aggregate", "+- ~Generate explode(page#23)\n+- ~Aggregate"), ""),
    (COUNTED.replace("+- ~Aggregate", "+- ~Deduplicate [page#23]\n+- ~Aggregate"), ""),
    (COUNTED.replace("~Filter isnotnull", "~Aggregate [at#25], [at#25]\n~Filter isnotnull"), ""),
    (COUNTED.replace("~Aggregate", "~Project"), ""),
    ("", ""),
]


@pytest.mark.parametrize(("text", "rows"), ABOVE)
def test_how_many_rows_come_of_a_group_is_told_by_what_stands_above_it(text: str, rows: str) -> None:
    assert groups(text) == rows
