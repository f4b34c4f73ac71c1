"""Late rows are warned of once, with their number by input, and the event log has all of them."""

from evenflow.control.events import WarnInstruction
from evenflow.control.regions.late_rows import NOTED_S, SETTLED_S, LateRows
from evenflow.model.entries import RowsLateEntry
from tests.support.records import fields_of, record


def said(late, time, counts, final=False):
    return list(late.note(time, counts, final))


def test_one_warning_with_the_number_and_an_entry_now_and_then():
    late = LateRows("pairs")
    assert said(late, 0.0, {}) == said(late, 0.0, {"late": 0, "late of left": 0}) == []
    assert said(late, 5.0, {"late": 3, "late of left": 3, "late of right": 0}) == []
    warning, noted = said(late, 5.0 + SETTLED_S, {"late": 1200, "late of left": 1200, "late of right": 0})
    assert isinstance(warning, WarnInstruction)
    assert "pairs: 1,200 rows came too late so far (left: 1,200)" in warning.text
    assert "Give lateness=, or a larger one" in warning.text
    fields = {"region": "pairs", "rows": 1200, "total": 1200, "inputs": {"left": 1200}}
    assert noted == record(5.0 + SETTLED_S, "rows-late", fields)
    assert said(late, 7.0, {"late": 1200}) == []
    assert said(late, 8.0, {"late": 1201}) == said(late, 9.0, {"late": 1202}) == []
    (later,) = said(late, 8.0 + NOTED_S, {"late": 1203})
    assert (later.event, fields_of(later)["rows"], fields_of(later)["total"]) == ("rows-late", 3, 1203)


def test_nothing_is_left_unsaid_at_the_end_and_a_restarted_query_is_warned_again():
    late = LateRows("counts")
    (warning, noted) = said(late, 1.0, {"late": 1}, final=True)
    assert "counts: 1 row came too late so far: time, or later rows, had" in warning.text
    assert fields_of(noted)["inputs"] == {}
    assert [type(each) for each in said(late, 1.1, {"late": 2}, final=True)] == [RowsLateEntry]
    late.start_again()
    assert [type(each) for each in said(late, 1.2, {"late": 3}, final=True)] == [WarnInstruction, RowsLateEntry]
    assert said(late, 1.3, {"late": 3}, final=True) == []
