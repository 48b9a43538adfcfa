"""The page in a real browser, opened from a file: stepping, copying, folding, a phone, the dark, and no network."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome, ChromeOptions, Keys
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from kvmodel.scope import Scope, both_schedulers
from tests.html.helpers import page_of, result_of

pytestmark = pytest.mark.slow

ARGUMENTS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-quic",
)  # fmt: skip
CONTRAST = """
const channel = (value) => { value /= 255; return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4; };
const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const behind = (element) => {
  for (let e = element; e; e = e.parentElement) {
    const colour = parts(getComputedStyle(e).backgroundColor);
    if (colour.length === 3 || colour[3] === 1) return colour;
  }
  return [255, 255, 255];
};
const weak = new Set();
for (const element of document.querySelectorAll("body *:not(script):not(svg *)")) {
  if (![...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim())) continue;
  if (!element.checkVisibility() || element.closest(".unseen")) continue;
  const [a, b] = [light(parts(getComputedStyle(element).color)), light(behind(element))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) weak.add(`${element.tagName}.${element.className}: ${ratio.toFixed(2)}`);
}
return [...weak];
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One page with findings of every look, and one with a loop."""
    folder = tmp_path_factory.mktemp("pages")
    (folder / "seed.html").write_text(page_of(result_of(*both_schedulers(Scope(("load_save",))))), encoding="utf-8")
    (folder / "loop.html").write_text(page_of(result_of(Scope(("save",)), contract="lossy")), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not browser or not driver:
        message = "the page is not tried in a browser: chromium and chromedriver are not installed"
        if os.environ.get("CI"):  # in CI a missing browser is a failure: a skipped test proves nothing
            pytest.fail(message)
        pytest.skip(message)
    options = ChromeOptions()
    options.binary_location = browser
    for argument in (*ARGUMENTS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    chrome = Chrome(options=options, service=Service(driver))
    try:
        yield chrome
    finally:
        chrome.quit()


@pytest.fixture
def seed(chromium: Chrome, folder: Path) -> Iterator[Chrome]:
    """The page with findings. Whatever a test does on it, nothing is complained of and nothing is fetched."""
    _open(chromium, folder / "seed.html")
    yield chromium
    _nothing_was_complained_of_or_fetched(chromium)


def _open(chromium: Chrome, page: Path, width: int = 1280, scheme: str = "light", fragment: str = "") -> None:
    chromium.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    feature = {"name": "prefers-color-scheme", "value": scheme}
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    chromium.get("about:blank")
    for kind in ("browser", "performance"):
        chromium.get_log(kind)
    chromium.get(page.as_uri() + fragment)


def _nothing_was_complained_of_or_fetched(chromium: Chrome) -> None:
    assert chromium.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in chromium.get_log("performance")]
    fetched = {e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"}
    assert {url.partition(":")[0] for url in fetched} == {"file"}
    assert len({url.partition("#")[0] for url in fetched}) == 1


def _finding(chromium: Chrome, number: int) -> WebElement:
    return chromium.find_element(By.ID, f"finding-{number}")


def _now(finding: WebElement) -> str:
    return finding.find_element(By.CSS_SELECTOR, ".now").text


def _press(finding: WebElement, go: str) -> None:
    finding.find_element(By.CSS_SELECTOR, f"button[data-go={go}]").click()


def _shown_state(finding: WebElement) -> str:
    (section,) = [s for s in finding.find_elements(By.CSS_SELECTOR, ".moments > section") if s.is_displayed()]
    return section.text


def _current(finding: WebElement) -> list[str]:
    """The numbers of the events that lane, grid and details show as the current one."""
    marked = finding.find_elements(By.CSS_SELECTOR, ".lanes .current, .grid .current, .moments > section:not([hidden])")
    return sorted({element.get_attribute("data-event") or "" for element in marked})


def test_it_opens_at_what_is_broken(seed: Chrome) -> None:
    finding = _finding(seed, 2)
    assert _now(finding) == "event 4 of 4: update save:A: no-use-after-free is broken"
    broken = finding.find_element(By.CSS_SELECTOR, ".grid td.broken")
    assert "◀ broken" in broken.text
    assert broken.value_of_css_property("border-top-color") != broken.value_of_css_property("background-color")
    assert _current(finding) == ["4"]


def test_stepping_by_buttons_and_by_keys(seed: Chrome) -> None:
    finding = _finding(seed, 2)
    at_the_end = _shown_state(finding)
    assert "load of A in block 1: running" in at_the_end
    _press(finding, "back")
    assert _now(finding) == "event 3 of 4: abort A"
    assert _current(finding) == ["3"]
    assert "save of A in block 1: running" in _shown_state(finding)
    keys = seed.switch_to.active_element
    keys.send_keys(Keys.ARROW_LEFT)
    assert _now(finding) == "event 2 of 4: schedule"
    keys.send_keys(Keys.HOME)
    assert _now(finding) == "the start, before any event"
    assert "State at the start" in _shown_state(finding)
    assert finding.find_element(By.CSS_SELECTOR, "button[data-go=back]").get_attribute("aria-disabled") == "true"
    keys.send_keys(Keys.ARROW_LEFT)
    assert _current(finding) == ["0"]
    keys.send_keys(Keys.ARROW_RIGHT)
    assert _current(finding) == ["1"]
    keys.send_keys(Keys.END)
    assert _shown_state(finding) == at_the_end
    assert _now(_finding(seed, 1)).startswith("event 4 of 4"), "other findings stay where they are"


def test_a_row_and_a_column_can_be_chosen(seed: Chrome) -> None:
    finding = _finding(seed, 2)
    finding.find_element(By.CSS_SELECTOR, ".lanes tr[data-event='2']").click()
    assert _current(finding) == ["2"]
    finding.find_element(By.CSS_SELECTOR, ".grid th[data-event='1']").click()
    assert _current(finding) == ["1"]
    seed.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    assert _current(finding) == ["2"]


def test_a_loop_goes_on_where_it_began(chromium: Chrome, folder: Path) -> None:
    _open(chromium, folder / "loop.html")
    finding = _finding(chromium, 2)
    assert "repeat for ever" in finding.find_element(By.CSS_SELECTOR, ".loop").text
    first, last = (row.get_attribute("data-event") for row in finding.find_elements(By.CSS_SELECTOR, ".lanes .repeats"))
    assert _current(finding) == [last]
    _press(finding, "forward")
    assert _current(finding) == [first]
    _press(finding, "forward")
    assert _current(finding) == [last]
    _nothing_was_complained_of_or_fetched(chromium)


def test_the_command_is_copied_or_else_selected(seed: Chrome) -> None:
    finding = _finding(seed, 1)
    command = finding.find_element(By.CSS_SELECTOR, ".replay code").text
    copy, told = finding.find_element(By.CSS_SELECTOR, ".copy"), finding.find_element(By.CSS_SELECTOR, ".copied")
    copy.click()
    WebDriverWait(seed, 5).until(lambda _: told.text)
    assert told.text == "copied"
    seed.execute_script(
        "Object.defineProperty(navigator, 'clipboard', {value: {writeText: () => Promise.reject(new Error('denied'))}});"
        "document.execCommand = () => false;"
    )
    copy.click()
    WebDriverWait(seed, 5).until(lambda _: told.text.startswith("selected"))
    assert seed.execute_script("return getSelection().toString()") == command


def test_cases_fold_and_links_lead_to_their_parts(seed: Chrome) -> None:
    fold = seed.find_element(By.CSS_SELECTOR, "details:has(.cases)")
    table = fold.find_element(By.CSS_SELECTOR, ".cases")
    assert table.is_displayed()
    fold.find_element(By.CSS_SELECTOR, "summary").click()
    assert not table.is_displayed()
    seed.find_element(By.CSS_SELECTOR, ".verdicts a[href='#finding-3']").click()
    in_view = "const r = arguments[0].getBoundingClientRect(); return r.top >= -1 && r.top < innerHeight"
    WebDriverWait(seed, 5).until(lambda d: d.execute_script(in_view, _finding(seed, 3)))


def test_a_link_into_a_folded_graph_opens_it(chromium: Chrome, folder: Path) -> None:
    _open(chromium, folder / "seed.html")
    graph = chromium.find_element(By.ID, "states-2")
    chromium.execute_script("arguments[0].open = false; location.hash = '#states-2'", graph)
    WebDriverWait(chromium, 5).until(lambda _: graph.find_element(By.TAG_NAME, "svg").is_displayed())
    _nothing_was_complained_of_or_fetched(chromium)


def test_a_walk_through_the_state_graph(seed: Chrome) -> None:
    graph = seed.find_element(By.CSS_SELECTOR, "#states-1 .graph")
    told = graph.find_element(By.CSS_SELECTOR, ".told")
    start, crash = (
        graph.find_element(By.CSS_SELECTOR, "[data-state='0']"),
        graph.find_element(By.CSS_SELECTOR, ".state:has(.crash)"),
    )
    start.click()
    assert told.text == "State 0, at rest: the start. Then: add A → 1."
    seed.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    assert told.text.startswith("State 1: add A. Then: schedule → 2; ")
    seed.switch_to.active_element.send_keys(Keys.ARROW_LEFT)
    assert told.text.startswith("State 0")
    crash.click()
    assert "the scheduler has crashed: add A, schedule, abort A, update" in told.text
    assert told.text.endswith("Nothing can follow.")
    way = graph.find_elements(By.CSS_SELECTOR, "path.way")
    assert len(way) == 4
    assert way[-1].get_attribute("data-to") == crash.get_attribute("data-state")


def test_the_keyboard_reaches_everything_and_shows_where_it_is(seed: Chrome) -> None:
    seed.execute_script(
        "document.querySelectorAll('.finding:not(#finding-1), .states:not(#states-1)').forEach(e => e.remove())"
    )
    seen: list[str] = []
    body = seed.find_element(By.TAG_NAME, "body")
    body.send_keys(Keys.TAB)
    for _ in range(60):
        here = seed.switch_to.active_element
        if here.tag_name == "body":
            break
        seen.append(here.get_attribute("data-go") or (here.get_attribute("class") or here.tag_name).split()[0])
        focused = "const e = arguments[0]; const s = getComputedStyle(e.matches('.state') ? e.querySelector('.s') : e);"
        visible = seed.execute_script(focused + "return s.outlineStyle !== 'none' || s.strokeWidth === '3px'", here)
        assert visible, f"no visible focus on {seen[-1]}"
        here.send_keys(Keys.TAB)
    assert seen[0] == "skip"
    assert {"first", "back", "forward", "last", "copy", "scroll", "state", "summary"} <= set(seen)


@pytest.mark.parametrize("page", ["seed.html", "loop.html"])
def test_a_phone_scrolls_tables_and_never_the_page(chromium: Chrome, folder: Path, page: str) -> None:
    _open(chromium, folder / page, width=360)
    for details in chromium.find_elements(By.TAG_NAME, "details"):
        chromium.execute_script("arguments[0].open = true", details)
    size = chromium.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    assert size == [360, 360]
    finding = _finding(chromium, 2)
    column = finding.find_element(By.CSS_SELECTOR, ".grid th.current")
    inside = "const [a, b] = [arguments[0], arguments[0].closest('.scroll')].map(e => e.getBoundingClientRect());"
    assert chromium.execute_script(inside + "return a.right <= b.right + 1 && a.left >= b.left", column)
    _nothing_was_complained_of_or_fetched(chromium)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_by_day_and_by_night(chromium: Chrome, folder: Path, scheme: str) -> None:
    _open(chromium, folder / "seed.html", scheme=scheme)
    brightness: Any = chromium.execute_script("return getComputedStyle(document.body).backgroundColor")
    red = int(brightness.removeprefix("rgb(").split(",")[0])
    assert red < 60 if scheme == "dark" else red > 200
    assert chromium.execute_script(CONTRAST) == []


def test_without_scripts_everything_is_there(chromium: Chrome, folder: Path) -> None:
    chromium.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        _open(chromium, folder / "seed.html")
        finding = _finding(chromium, 2)
        states = finding.find_elements(By.CSS_SELECTOR, ".moments > section")
        assert len(states) == 5
        assert all(state.is_displayed() for state in states)
        assert not any(button.is_displayed() for button in finding.find_elements(By.TAG_NAME, "button"))
    finally:
        chromium.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
