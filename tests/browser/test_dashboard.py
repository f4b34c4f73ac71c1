"""The live page in Chromium."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect
from tests.support import event_logs as logs

from evenflow.dashboard.view import PageView
from evenflow.eventlog.reading import LogReader

HOSTILE = "<img src=x onerror=\"document.title='owned'\">{{7*7}}<script>window.owned=1</script>"
LOST = ("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_RESET")
"""What Chromium says of a server that is gone."""


def texts(page, selector):
    return [each.strip() for each in page.locator(selector).all_inner_texts()]


def row_bar(page, worker):
    """How busy a worker is, as a bar."""
    return page.locator("#workers tbody tr").nth(worker).locator(".bar")


def test_the_worker_that_the_verdict_names_stands_out_in_its_tone(tmp_path, serve, open_page):
    log = logs.write(tmp_path / "uneven.jsonl", logs.keyed_run(seconds=20, until_move=25))
    page = open_page(serve(log, now=20.5))
    expect(page.locator("#headline strong").first).to_have_text("Uneven: worker 0 is the bottleneck")
    tone = page.locator("#headline .says").first.get_attribute("data-tone")
    expect(row_bar(page, 0)).to_have_attribute("data-tone", tone)
    assert [row_bar(page, worker).get_attribute("data-tone") or "" for worker in (1, 2)] == ["", ""]


def hostile(log):
    """Names and errors that are markup, in every kind of entry that is shown."""
    told = [logs.opened(HOSTILE, units=3, time=9.0), logs.keyed_sample(9.1, [], region=HOSTILE, counts={HOSTILE: 1})]
    hot = {"hottest": [(0, 50)], "keys": {"0": HOSTILE}}
    told += [logs.keyed_sample(9.1 + part, [], **hot | {"hottest": [(0, 100 * part)]}) for part in (0.1, 0.2)]
    told.append(logs.move(9.2, 7, [1], 1, 2, why=HOSTILE, region=HOSTILE))
    fields = {"units": [1], "source": 0, "target": 1}
    told.append(logs.entry(9.3, "move-refused", region=HOSTILE, **fields, why=HOSTILE))
    told.append(logs.entry(9.4, "worker-lost", worker=2, incarnation=1, pid=1, reason=HOSTILE))
    told.append(logs.entry(9.4, "balance-failed", region=HOSTILE, balance=HOSTILE, error=HOSTILE))
    told.append(logs.entry(9.5, "feeder-joined", region=HOSTILE, partition=0, attempt=0, query=HOSTILE, epoch=1))
    told.append(logs.entry(9.5, "executors", workers={"0": HOSTILE}))
    node = {"name": HOSTILE, "kind": HOSTILE, "units": 1, "endpoint": True}
    shape = {"units": 2, "sources": [HOSTILE], "operators": [node], "edges": [[-1, 0]]}
    told.append(logs.entry(9.6, "region-opened", region="graph", placement=HOSTILE, **shape))
    return logs.write(log, told)


def test_the_numbers_agree_with_the_event_log(log, serve, open_page):
    view = PageView()
    reader = LogReader(log)
    for entry in reader.entries():
        view.apply(entry)
    frame = view.frame(logs.START + 8.5)
    page = open_page(serve(log))
    assert texts(page, "#headline strong") == [said["title"] for said in frame["headline"]]
    figures = frame["figures"]
    names = ("rows", "imbalance", "moved")
    shown = {name: page.locator(f"#figure-{name}").inner_text().split("\n")[0] for name in names}
    assert shown["rows"].startswith(f"{figures['rows_s']:,.0f}")
    assert shown["imbalance"] == f"{figures['imbalance']:.2f}"
    assert shown["moved"] == "2"
    rows = [row.locator("td").all_inner_texts() for row in page.locator("#workers tbody tr").all()]
    for cells, worker in zip(rows, frame["workers"], strict=True):
        assert cells[0] == str(worker["id"])
        assert float(cells[3].strip().removesuffix(" %")) == pytest.approx(100 * worker["utilisation"], abs=0.501)
        assert cells[4] == f"{worker['rows_s']:,.0f}"
        assert (row_bar(page, worker["id"]).get_attribute("data-tone") or "") == worker["tone"]
    assert texts(page, "#actions .what") == ["2 units of orders moved"]
    assert page.locator("#region canvas").get_attribute("aria-label") == (
        "Units by worker: worker 0 2, worker 1 6, worker 2 4"
    )


def test_it_follows_a_move(log, serve, open_page):
    page = open_page(serve(log))
    canvas = page.locator("#region canvas")
    logs.write(log, [logs.move(9.0, 2, [6, 9], 0, 2, why="again")])
    expect(page.locator("#headline strong").nth(1)).to_have_text("4 units on the way")
    logs.write(log, [logs.moved(9.2, 2, [6, 9], 0, 2)])
    expect(canvas).to_have_attribute("aria-label", "Units by worker: worker 0 0, worker 1 6, worker 2 6")
    assert canvas.get_attribute("data-moved") == "2"  # two squares flew
    expect(page.locator("#figure-moved")).to_contain_text("4")


def test_it_says_when_the_server_is_gone_and_comes_back(log, serve, open_page):
    server = serve(log)
    page = open_page(server, expected=LOST)
    server.close()
    banner = page.locator("#banner")
    expect(banner).to_contain_text("No connection to the server; this is how it was at")
    expect(page.locator("#state")).to_have_text("no connection")
    assert texts(page, "#workers tbody tr td:first-child") == ["0", "1", "2"]  # what was known stays
    logs.write(log, [logs.joined(3, 8.2)])
    serve(log, port=server.port)
    expect(banner).to_be_hidden()
    expect(page.locator("#workers tbody tr")).to_have_count(4)


def test_it_says_when_the_controller_is_gone_and_comes_back(log, serve, open_page):
    page = open_page(serve(log, now=30.0))
    expect(page.locator("#state")).to_have_text("quiet")
    again = [dict(each, at=each["at"] + 40) for each in [logs.joined(0, 1.0), logs.opened("anew", time=1.1)]]
    logs.write(log, again)
    expect(page.locator("#state")).to_have_text("live")
    expect(page.locator("#tabs button")).to_have_text(["anew · keyed"])


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_is_accessible(log, serve, open_page, width, scheme):
    page = open_page(serve(log), width=width, color_scheme=scheme)
    page.wait_for_selector(".uplot canvas")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for part in ("#headline", "#workers", "#region canvas", "#actions"):
        box = page.locator(part).bounding_box()
        assert box["x"] >= 0
        assert box["width"] > 100
    found = Axe().run(page).response["violations"]
    serious = [each for each in found if each["impact"] in ("serious", "critical")]
    assert not serious, [(each["id"], [node["html"][:100] for node in each["nodes"]]) for each in serious]


def test_texts_of_users_are_texts(log, serve, open_page):
    page = open_page(serve(hostile(log), now=9.7))
    expect(page.locator("#tabs button")).to_have_count(3)
    for tab in page.locator("#tabs button").all():
        tab.click()
    page.wait_for_timeout(300)
    page.locator("#tabs button", has_text="orders").click()
    expect(page.locator("#region")).to_contain_text(f"0 · {HOSTILE}")
    assert page.evaluate("window.owned") is None
    assert "owned" not in page.title()
    assert page.locator("img[src=x], main script").count() == 0
    assert HOSTILE in page.locator("#troubles").inner_text()
    assert HOSTILE in page.locator("#actions").inner_text()
    assert HOSTILE in page.locator("#workers").inner_text()


def test_the_slider_shows_what_was(log, serve, open_page):
    logs.write(log, logs.keyed_run(first=8, seconds=4))
    twice = [logs.entry(11.5, "worker-trouble", worker=1, what="x", reason="why", ends=False)] * 2
    logs.write(log, twice)
    page = open_page(serve(log, now=12.2))
    expect(page.locator("#troubles li")).to_have_count(2)
    page.locator("#slider").fill(str(logs.START + 3.5))
    expect(page.locator("#state")).to_have_text("replay")
    expect(page.locator("#troubles li")).to_have_count(0)
    expect(page.locator("#figure-moved")).to_contain_text("0")
    expect(page.locator("#headline strong").first).to_have_text("Uneven: worker 0 is the bottleneck")
    page.locator("#live").click()
    expect(page.locator("#figure-moved")).to_contain_text("2")
    expect(page.locator("#headline strong").first).to_have_text("The input is the bottleneck")


def test_arrow_keys_move_the_slider_by_one_step(log, serve, open_page):
    page = open_page(serve(log))
    slider = page.locator("#slider")
    slider.focus()
    page.keyboard.press("Home")
    for key, seconds in (("ArrowRight", 2), ("ArrowRight", 3), ("ArrowUp", 4), ("ArrowLeft", 3)):
        page.keyboard.press(key)
        assert float(slider.input_value()) == pytest.approx(logs.START + seconds)
    expect(page.locator("#state")).to_have_text("replay")
    expect(page.locator("#clock")).to_have_text(page.locator("#shown").inner_text())
    for _ in range(8):
        page.keyboard.press("ArrowRight")
    expect(page.locator("#live")).to_be_disabled()


def test_regions_that_are_not_shown_are_told_of(log, serve, open_page):
    told = [logs.opened(f"r{number}", time=8.1) for number in range(14)]
    page = open_page(serve(logs.write(log, told)))
    expect(page.locator("#tabs button")).to_have_count(12)
    expect(page.locator("#more-regions")).to_have_text("and 3 more regions, whose last rows are older")


@pytest.mark.parametrize("width", [1440, 390, 320])
def test_the_table_of_workers_fits_and_nothing_in_it_is_cut(log, serve, open_page, width):
    again = [logs.joined(0, 8.1 + life / 100, incarnation=life) for life in (2, 3)]
    again.append(logs.entry(8.2, "memory-set", worker=1, memory=2 << 30, resident=1 << 30, spilled=3 << 30))
    page = open_page(serve(logs.write(log, again)), width=width)
    expect(page.locator("#workers tbody tr td:nth-child(2)").first).to_have_text("live, 2 restarts")
    expect(page.locator("#workers tbody")).to_contain_text("1.1 GB of 2.1 GB")
    shown = page.locator("#workers td:visible")
    assert shown.count() >= 16  # those of a worker that has just begun again are not known
    assert shown.evaluate_all("cells => cells.filter(c => c.scrollWidth > c.clientWidth).length") == 0
    assert shown.evaluate_all("cells => Math.max(...cells.map(c => c.getBoundingClientRect().right))") <= width
    assert page.locator(".scroll:has(#workers)").evaluate("box => box.scrollWidth <= box.clientWidth")


def test_a_file_that_is_no_log_is_said_to_be_none(tmp_path, serve, open_page):
    (tmp_path / "photo.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    page = open_page(serve(tmp_path / "photo.png"))
    expect(page.locator("#note")).to_contain_text("2 lines of photo.png could not be read")


def test_a_replay_plays_to_the_end(log, serve, open_page):
    page = open_page(serve(log))
    page.locator("#pace").select_option("16")
    page.locator("#play").click()
    expect(page.locator("#state")).to_have_text("replay")
    expect(page.locator("#live")).to_be_disabled(timeout=15_000)
    expect(page.locator("#play")).to_have_attribute("aria-label", "Play from here")


def test_colours_are_as_chosen(log, serve, open_page):
    page = open_page(serve(log), color_scheme="light", reduced_motion="reduce")
    back = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(back)
    page.locator("#theme").click()
    page.locator("#theme").click()
    expect(page.locator("#theme")).to_have_attribute("aria-label", "Colours: dark")
    assert page.evaluate(back) != light
    page.reload()
    page.wait_for_selector("#headline .says")
    expect(page.locator("#theme")).to_have_attribute("aria-label", "Colours: dark")
