"""A SQL text over something else in place of the tables that it reads as streams."""

import pytest

from recovery.spark.sql_streams import Unclear, over_others


@pytest.mark.parametrize(
    ("text", "over"),
    [
        ("SELECT * FROM STREAM t", "SELECT * FROM <t> AS `t`"),
        ("SELECT * FROM STREAM(t)", "SELECT * FROM <t> AS `t`"),
        ("select * from stream ( c.s.`T` ) where t.id > 1", "select * from <c.s.`T`> AS `t` where t.id > 1"),
        ("SELECT x.id FROM STREAM t AS x", "SELECT x.id FROM <t> AS x"),
        ("SELECT x.id FROM STREAM(t) x WHERE x.id > 1", "SELECT x.id FROM <t> x WHERE x.id > 1"),
        (
            "SELECT * FROM STREAM a LEFT JOIN STREAM(b) ON a.id = b.id",
            "SELECT * FROM <a> AS `a` LEFT JOIN <b> AS `b` ON a.id = b.id",
        ),
        ("SELECT * FROM (SELECT * FROM STREAM t)", "SELECT * FROM (SELECT * FROM <t> AS `t`)"),
        (
            "SELECT * FROM STREAM a UNION ALL SELECT * FROM STREAM b",
            "SELECT * FROM <a> AS `a` UNION ALL SELECT * FROM <b> AS `b`",
        ),
        (
            "WITH w AS (SELECT * FROM STREAM t) SELECT * FROM w",
            "WITH w AS (SELECT * FROM <t> AS `t`) SELECT * FROM w",
        ),
        ("SELECT * FROM STREAM /* here */ t -- there", "SELECT * FROM <t> AS `t` -- there"),
        ("SELECT k, count(*) FROM STREAM t GROUP BY k", "SELECT k, count(*) FROM <t> AS `t` GROUP BY k"),
        # no stream of a table
        ("SELECT stream FROM t", "SELECT stream FROM t"),
        ("SELECT 'FROM STREAM t' FROM u", "SELECT 'FROM STREAM t' FROM u"),
        ("SELECT * FROM `stream`", "SELECT * FROM `stream`"),
        ("SELECT * FROM STREAM read_files('/x')", None),
        # a word of which it is not known whether it is an alias
        ("SELECT * FROM STREAM t WATERMARK at DELAY OF INTERVAL 1 MINUTE", None),
        ("SELECT * FROM STREAM t WITH ('startingVersion' = '3')", None),
        ("SELECT * FROM STREAM t TABLESAMPLE (10 ROWS)", None),
    ],
)
def test_each_stream_is_replaced_under_its_own_name(text: str, over: str | None) -> None:
    """None: nothing is put in the place of anything."""
    if over is not None:
        assert over_others(text, lambda name: f"<{name}>") == over
        return
    replaced = []
    try:
        over_others(text, lambda name: replaced.append(name) or "")  # type: ignore[func-returns-value]
    except Unclear:
        return
    assert replaced == []


def test_all_other_parts_are_kept_as_wanted() -> None:
    kept = over_others("SELECT '{x}' FROM STREAM t", lambda name: "{s}", lambda part: part.replace("{", "{{"))
    assert kept.split() == ["SELECT", "'{{x}'", "FROM", "{s}", "AS", "`t`"]
