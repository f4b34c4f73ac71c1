"""What verbs of a graph refuse, what they are called, and how a graph shows itself."""

import xml.etree.ElementTree as ET

import pyarrow as pa
import pytest

import evenflow as ef
from evenflow.errors import InvalidArgument
from evenflow.graph.draw.layout import layout

SCHEMA = pa.schema([("x", pa.int64())])
MEAN = ef.RollingMean("price", rows=3)


def same(batch):
    return batch


def some():
    """A graph of every kind of node, and its streams by name."""
    g = ef.Graph("some")
    ticks, news = g.source("ticks"), g.source("news")
    hot = ticks.filter("price > 100", name="hot")
    means = hot.keyed("symbol", MEAN, units=8)
    joined = means.join(news, on="symbol", rows=10)
    g.endpoint("alerts", joined.map(same, SCHEMA, name="score"))
    g.endpoint("audit", hot)
    g.endpoint("found", ticks.detect("select * from Tick where price > 3", key="symbol"))
    return g, {stream.name: stream for stream in (*g.sources, *g.nodes)}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g, s: g.source(""), "a source is called '': give a name"),
        (lambda g, s: g.source(3), "a source is called 3: give a name"),
        (lambda g, s: g.source("ticks"), "source 'ticks': the graph has a source of this name already"),
        (lambda g, s: g.source("hot"), "source 'hot': the graph has a filter of this name already"),
        (lambda g, s: ef.Graph(name=""), "the graph is called ''"),
        (lambda g, s: g.endpoint("", s["hot"]), "an endpoint is called ''"),
        (lambda g, s: g.endpoint("audit", s["hot"]), "endpoint 'audit' gives 'hot' already"),
        (lambda g, s: g.endpoint("new", None), r"endpoint 'new' is to give None: give a stream, as g.endpoint\('new'"),
        (lambda g, s: g.endpoint("new"), "endpoint 'new' is to give None: give a stream"),
        (lambda g, s: g.endpoint("new", "hot"), "endpoint 'new' is to give 'hot': give a stream"),
        (
            lambda g, s: ef.Graph("b").endpoint("x", s["hot"]),
            "endpoint 'x' of graph 'b' is to read 'hot' of another gr",
        ),
        (lambda g, s: s["hot"].filter(3), "the condition is 3: give a SQL expression"),
        (lambda g, s: s["hot"].filter(" "), "the condition is empty"),
        (lambda g, s: s["hot"].filter("x > 1", commutative=1), "commutative=1: give True or False"),
        (lambda g, s: s["hot"].filter("x > 1", name="keyed"), "filter 'keyed': the graph has a keyed of this name"),
        (lambda g, s: s["hot"].filter("x > 1", name=""), "a filter is called ''"),
        (lambda g, s: s["hot"].map("f", SCHEMA), "the function is 'f': give something that can be called"),
        (lambda g, s: s["hot"].map(same, None), "schema=None: give the columns"),
        (lambda g, s: s["hot"].map(same, SCHEMA, input="polars"), "input='polars': one of 'arrow', 'pandas'"),
        (lambda g, s: s["hot"].map(same, SCHEMA, ordered="yes"), "ordered='yes': give True or False"),
        (lambda g, s: s["keyed"].map(same, SCHEMA, ordered=True), "ordered=True behind keyed 'keyed'"),
        (lambda g, s: s["score"].map(same, SCHEMA, ordered=True), "ordered=True behind join 'join'"),
        (lambda g, s: s["hot"].keyed([], MEAN), r"key=\[\]: give the name of a column"),
        (lambda g, s: s["hot"].keyed(3, MEAN), "key=3: give the name of a column"),
        (lambda g, s: s["hot"].keyed(["a", "a"], MEAN), "a column is named twice"),
        (lambda g, s: s["hot"].keyed("a", "mean"), "the operator is 'mean': give an object of a subclass"),
        (lambda g, s: s["hot"].keyed("a", MEAN, units=0), "units=0: give a whole number from 1"),
        (lambda g, s: s["hot"].keyed("a", MEAN, units=True), "units=True"),
        (lambda g, s: s["hot"].join("news", on="a", rows=1), "the other side of the join is 'news': give a stream"),
        (lambda g, s: s["hot"].join(s["news"], on=[], rows=1), r"on=\[\]: give the name of a column, a list"),
        (lambda g, s: s["hot"].join(s["news"], on=[("a", "b", "c")], rows=1), r"on=\[\('a', 'b', 'c'\)\]: give"),
        (lambda g, s: s["hot"].join(s["news"], on=["a", "a"], rows=1), "a column is named twice"),
        (lambda g, s: s["hot"].join(s["news"], on="a"), "join got rows=None and seconds=None: give one of the two"),
        (lambda g, s: s["hot"].join(s["news"], on="a", rows=0), "join got rows=0: give a whole number"),
        (lambda g, s: s["hot"].join(s["news"], on="a", seconds=1), "join got seconds=1 and time=None: name the column"),
        (lambda g, s: s["hot"].join(s["news"], on="a", seconds=1, time=3), "time=3: give the name of a column, or a"),
        (lambda g, s: s["hot"].join(s["news"], on="a", rows=1, time="t"), "time goes with seconds="),
        (lambda g, s: s["hot"].join(s["news"], on="a", rows=1, units=-1), "units=-1"),
        (lambda g, s: s["hot"].join(ef.Graph("b").source("x"), on="a", rows=1), "read 'x' of another graph, 'b'"),
        (lambda g, s: s["hot"].detect("select", key="a"), "the rule ends where"),
        (lambda g, s: s["hot"].detect({}, key="a"), "rules is empty"),
        (lambda g, s: s["hot"].detect("select * from T", key="a", variables={"H": 1}), "which no rule uses"),
        (lambda g, s: s["hot"].detect("select * from T.win:time(3 sec)", key="a"), "the rules go by time and time is"),
        (lambda g, s: s["hot"].detect("select * from T", key=None), "key=None"),
        (lambda g, s: g.plot(placement={"cold": 0}), "placement has 'cold', and the graph has no such node"),
        (lambda g, s: g.plot(placement={"hot": "w"}), "placement has 'hot' on 'w': give the number"),
        (lambda g, s: g.plot(placement=3), "placement=3: give a dict"),
        (lambda g, s: g.plot(placement=[{}, {}, {}]), "give a dict of workers by node, or a pair"),
    ],
)
def test_bad_input(call, message):
    g, streams = some()
    before = repr(g)
    with pytest.raises(InvalidArgument, match=message):
        call(g, streams)
    assert repr(g) == before, "what was refused is not in the graph"


def test_names_are_given_in_order():
    g = ef.Graph()
    source = g.source("filter")
    names = [source.filter("a > 1").name, source.filter("a > 1", name="filter-3").name, source.filter("a > 1").name]
    assert names == ["filter-2", "filter-3", "filter-4"]
    assert source.keyed("k", MEAN).name == "keyed"


def test_a_graph_tells_what_it_is():
    g, _ = some()
    assert repr(g).splitlines() == [
        "Graph 'some': 2 sources, 5 nodes, 3 endpoints",
        "  source ticks",
        "  source news",
        "  ticks -> filter hot: price > 100",
        "  hot -> keyed keyed: RollingMean('price') by symbol",
        "  keyed, news -> join join: on symbol, 10 rows",
        "  join -> map score: same",
        "  ticks -> detect detect: a rule by symbol",
        "  score -> endpoint alerts",
        "  hot -> endpoint audit",
        "  detect -> endpoint found",
    ]


def test_streams_tell_what_they_are():
    g, streams = some()
    assert repr(streams["ticks"]) == "<source 'ticks'>"
    assert repr(streams["join"]) == "<join 'join' of keyed, news: on symbol, 10 rows>"
    assert [stream.kind for stream in g.nodes] == ["filter", "keyed", "join", "map", "detect"]


def test_what_nobody_reads():
    g, streams = some()
    idle = streams["hot"].filter("price < 200", name="idle")
    idle.map(same, SCHEMA, name="more")
    assert g.unread() == ("idle", "more")


def test_html_is_one_svg_with_every_name():
    g, streams = some()
    streams["ticks"].filter("price < 3 and symbol like '<b>'", name="a<b")
    root = ET.fromstring(g._repr_html_())
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {*streams, "a<b", "alerts", "audit", "found"} <= set(texts)
    assert not any("href" in name for element in root.iter() for name in element.attrib)


def apart(boxes):
    """Whether no two boxes touch."""
    places = [(box.x, box.y - box.height / 2, box.x + box.width, box.y + box.height / 2) for box in boxes]
    return not any(
        a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
        for number, a in enumerate(places)
        for b in places[:number]
    )


def test_layout_goes_from_left_to_right_without_overlaps():
    g, streams = some()
    for number in range(12):
        late = streams["score"].join(streams["ticks"], on="x", rows=number + 1)
        g.endpoint(f"late{number}", late)
    found = layout(g.sketch())
    assert apart(found.boxes)
    for edge in found.edges:
        xs = [x for x, _ in edge.points]
        assert xs == sorted(xs)
        assert all(0 <= x <= found.width and 0 <= y <= found.height for x, y in edge.points)


def test_parts_without_edges_between_them_lie_close():
    g = ef.Graph()
    for number in range(6):
        source = g.source(f"s{number}")
        g.endpoint(f"a{number}", source.keyed("k", MEAN))
        if number % 2:
            g.endpoint(f"b{number}", source.filter("x > 1"))
            g.endpoint(f"c{number}", source.filter("x > 2").join(source.filter("x > 3"), on="k", rows=1))
    found = layout(g.sketch())
    assert apart(found.boxes)
    ends = sorted((box.y - box.height / 2, box.y + box.height / 2) for box in found.boxes)
    bottom = ends[0][1]
    for top, low in ends:
        assert top - bottom <= 40
        bottom = max(bottom, low)


def test_edges_that_skip_layers_pass_beside_the_boxes():
    g, _ = some()
    found = layout(g.sketch())
    for edge in found.edges:
        for (x, y), (end, low) in zip(edge.points[1:-1:2], edge.points[2:-1:2], strict=True):
            assert y == low, "a lane is straight"
            for box in found.boxes:
                crosses = box.x < end and x < box.x + box.width and abs(box.y - y) < box.height / 2
                assert not crosses


def test_plot_is_saved(tmp_path):
    g, _ = some()
    path = tmp_path / "graph.png"
    g.plot(path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_plot_shows_before_and_after():
    g, _ = some()
    figure = g.plot(placement=({"hot": 0, "keyed": [0, 1]}, {"hot": 1, "keyed": [0, 1]}))
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["before", "after"]
    texts = [{text.get_text() for text in ax.texts} for ax in figure.axes]
    assert {"hot @ 0", "keyed @ 0,1"} <= texts[0]
    assert {"hot @ 1", "keyed @ 0,1"} <= texts[1]


def test_an_empty_graph_can_be_shown():
    g = ef.Graph()
    assert repr(g) == "Graph 'graph': 0 sources, 0 nodes, 0 endpoints"
    assert ET.fromstring(g._repr_html_()).tag.endswith("svg")
    g.plot()
