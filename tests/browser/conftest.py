"""A Chromium for all tests here, which are skipped, with the reason, where there is none."""

import subprocess

import pytest
from playwright.sync_api import sync_playwright
from tests.support import event_logs as logs
from tests.support.scripts import ROOT

from evenflow.dashboard.web.serving import DashboardServer
from evenflow.dashboard.web.sources import FileSource

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent.name == "browser":
            item.add_marker("browser")


@pytest.fixture(scope="session")
def chromium():
    found = subprocess.run([ROOT / "scripts/chromium.sh"], capture_output=True, text=True, timeout=60, check=False)
    if found.returncode:
        pytest.skip(found.stderr.strip())
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found.stdout.strip(), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium):
    """Opens a server's page; at the end of the test, no page may have had an error of its own."""
    contexts, errors = [], []

    def opening(server, width=1440, height=1000, expected=(), **options):
        context = chromium.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda told: _note(told, errors, expected))
        page.goto(server.link)
        page.wait_for_selector("#headline .says")
        return page

    yield opening
    for context in contexts:
        context.close()
    assert not errors


def _note(told, errors, expected):
    if told.type in ("error", "warning") and not any(each in told.text for each in expected):
        errors.append(told.text)


@pytest.fixture
def log(tmp_path):
    return logs.write(tmp_path / "events.jsonl", logs.keyed_run(seconds=8))


@pytest.fixture
def serve():
    """Starts servers over logs, and closes them."""
    servers = []

    def serving(log, port=0, now=8.5):
        servers.append(DashboardServer(FileSource(log, clock=lambda: logs.START + now), port=port))
        return servers[-1]

    yield serving
    for server in servers:
        server.close()
