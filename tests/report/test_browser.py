"""The page in a real browser, as a person meets it: on a desk and on a phone, light and dark."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from idqn import cli
from idqn.report.drawing import number

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
NOT_MADE_BY_FIGURES = ("findings", "missing")
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync")
SMALL = ("--episodes", "2", "--max-steps", "12", "--film-steps", "8", "--quiet")

# a map that lies over a picture may have nothing to show
SHAPELESS = """root => [...root.querySelectorAll("img, canvas, svg")]
  .filter((shape) => shape.checkVisibility({ visibilityProperty: true }))
  .filter((shape) => {
    const box = shape.getBoundingClientRect();
    if (box.width < 1 || box.height < 1) return true;
    if (shape.tagName === "IMG") return !shape.naturalWidth;
    if (shape.tagName !== "CANVAS") return false;
    const over = getComputedStyle(shape).position === "absolute";
    if (over && shape.parentElement.querySelector("img")) return false;
    const drawn = shape.getContext("2d").getImageData(0, 0, shape.width, shape.height).data;
    return !drawn.some((value, i) => i % 4 === 3 && value > 0);
  })
  .map((shape) => `${shape.closest('section')?.id}: ${shape.cloneNode().outerHTML.slice(0, 99)}`)"""
# a picture may leave it to the button, the figure or the group it is in
NAMELESS = """root => [...root.querySelectorAll("img, canvas, svg[role=img], button, input, video")]
  .filter((shape) => shape.checkVisibility({ visibilityProperty: true }))
  .filter((shape) => !shape.closest("[aria-hidden=true]"))
  .filter((shape) => !["IMG", "CANVAS"].includes(shape.tagName)
    || !shape.parentElement.closest("button, figure, [role=img][aria-label]"))
  .filter((shape) => !shape.textContent.trim()
    && !["aria-label", "alt", "title"].some((name) => shape.getAttribute(name)?.trim()))
  .map((shape) => `${shape.closest('section')?.id}: ${shape.cloneNode().outerHTML.slice(0, 99)}`)"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        missing = f"no browser is installed (looked for {', '.join(BROWSERS)})"
        if os.environ.get("IDQN_NEEDS_BROWSER") == "1":
            pytest.fail(f"{missing}, and IDQN_NEEDS_BROWSER=1")
        pytest.skip(missing)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=list(QUIET))
        yield running
        running.close()


def idqn(command: str, run: Path, *options: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_WAIT_POLICY", "PASSIVE")  # what `main` sets must not leak out
        patch.setenv("GOMP_SPINCOUNT", "1000")
        with pytest.raises(SystemExit) as exit_:
            cli.main([command, str(run), *options, "--device", "cpu"])
    assert exit_.value.code == 0


def page_of(run: Path, *options: str) -> Path:
    idqn("explain", run, *options, *SMALL)
    return run / "report" / "index.html"


@pytest.fixture(scope="module")
def report(browser: Browser, trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = shutil.copytree(trained / "own", tmp_path_factory.mktemp("report") / "own")
    for asked in (("--recipe", "extra-pellet"), ("--recipe", "pixel-max"), ("--budget", "40")):
        idqn("attack", run, *asked)
    return page_of(run, "--compare", str(trained / "other"))


@pytest.fixture(scope="module")
def report_without_keys(
    browser: Browser, trained: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    return page_of(shutil.copytree(trained / "ddqn", tmp_path_factory.mktemp("report") / "ddqn"))


class Opened(NamedTuple):
    page: Page
    complaints: list[str]  # what the console said, what failed
    requests: list[str]  # other than for the page itself


WIDTHS = [(1100, "light"), (390, "light")]


@pytest.fixture(params=[*WIDTHS, (1100, "dark"), (390, "dark")], ids=str)
def opened(request: pytest.FixtureRequest, browser: Browser, report: Path) -> Iterator[Opened]:
    yield from opening(browser, report, *request.param)


@pytest.fixture
def phone(browser: Browser, report: Path) -> Iterator[Opened]:
    yield from opening(browser, report, 390, "light")


def opening(browser: Browser, report: Path, width: int, scheme: str) -> Iterator[Opened]:
    context = browser.new_context(
        viewport={"width": width, "height": 800},
        color_scheme="dark" if scheme == "dark" else "light",
        has_touch=width < 500,
        offline=True,
    )
    page = context.new_page()
    page.set_default_timeout(10_000)
    complaints: list[str] = []
    requests: list[str] = []
    page.on("console", lambda said: said.type == "error" and complaints.append(said.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda sent: requests.append(sent.url))
    page.goto(report.as_uri())
    page.wait_for_load_state("load")
    settle(page)
    requests[:] = [url for url in requests if not url.startswith(("data:", "blob:"))]
    requests.remove(report.as_uri())
    yield Opened(page, complaints, requests)
    context.close()


def settle(page: Page) -> None:
    """Until pictures are there and what waits for the next frame is drawn."""
    page.evaluate(
        """async () => {
          await Promise.all([...document.images].map((image) => image.decode().catch(() => 0)));
          for (let i = 0; i < 3; i++) await new Promise(requestAnimationFrame);
        }"""
    )


def sections(page: Page) -> list[Locator]:
    found = page.locator("main > section").all()
    return [one for one in found if one.get_attribute("id") not in NOT_MADE_BY_FIGURES]


def assert_well(opened: Opened, doing: str) -> None:
    page = opened.page
    settle(page)
    assert opened.complaints == [], doing
    assert [u for u in opened.requests if not u.startswith(("data:", "blob:"))] == [], doing
    width, room = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert width <= room, f"the page scrolls sideways: {doing}"
    assert page.evaluate(f"({SHAPELESS})(document)") == [], doing
    assert page.evaluate(f"({NAMELESS})(document)") == [], doing


def test_every_section_says_what_it_shows(opened: Opened) -> None:
    assert_well(opened, "just opened")
    kinds = [section.get_attribute("id") for section in sections(opened.page)]
    assert {"performance", "keys", "embedding", "film"} <= set(kinds)
    assert opened.page.locator("#missing").count() == 0
    assert 1 <= opened.page.locator("#findings li").count() <= 3
    for section in sections(opened.page):
        for part in ("h2", "p.reading", "p.caveat"):
            assert section.locator(part).first.inner_text().strip()
        for text in section.locator("text=/undefined|NaN|\\[object/").all():
            pytest.fail(f"{section.get_attribute('id')}: {text.inner_text()}")


def test_numbers_of_scripts_are_those_of_the_page(phone: Opened) -> None:
    values = [0.0, -0.0, -0.004, 9.997, 12.345, -0.5, 1234.6]
    told = phone.page.evaluate("values => values.map((value) => idqn.number(value))", values)
    assert told == [number(value) for value in values]


def test_intervals_stay_in_one_line(phone: Opened) -> None:
    cells = [text for text in phone.page.locator("td").all_text_contents() if "(" in text]
    intervals = [text[text.index("(") :] for text in cells if "to" in text]
    assert intervals
    assert not [text for text in intervals if " " in text]


def test_the_navigation_says_where_one_is(phone: Opened) -> None:
    current = phone.page.locator("nav a[aria-current]")
    for kind in ("saliency", "keys"):
        phone.page.evaluate("id => document.getElementById(id).scrollIntoView()", kind)
        expect(current).to_have_count(1)
        expect(current).to_have_attribute("href", f"#{kind}")
        expect(current).to_be_in_viewport(ratio=1)


def test_the_key_that_is_told_about_is_in_sight(phone: Opened) -> None:
    gallery = phone.page.locator("#keys .keys-wide")
    phone.page.set_viewport_size({"width": 260, "height": 800})  # these keys are few
    gallery.locator("button").last.click()
    phone.page.locator("#keys").get_by_role("button", name="large", exact=True).click()
    assert gallery.evaluate("root => root.scrollWidth > root.clientWidth + 84"), "all fit anyway"
    key, room = gallery.locator("[aria-pressed=true]").bounding_box(), gallery.bounding_box()
    assert key is not None
    assert room is not None
    assert key["x"] >= room["x"]
    assert key["x"] + key["width"] <= room["x"] + room["width"] + 1


def test_the_navigation_leads_to_every_section(phone: Opened) -> None:
    links = phone.page.locator("nav a")
    targets = [link.get_attribute("href") for link in links.all()]
    assert targets == [f"#{section.get_attribute('id')}" for section in sections(phone.page)]
    links.last.click()
    expect(phone.page.locator(f"{targets[-1]} h2")).to_be_in_viewport()


@pytest.mark.parametrize("opened", WIDTHS, indirect=True, ids=str)
def test_the_theme_changes(opened: Opened) -> None:
    page = opened.page
    colour = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(colour)
    page.click("#theme")
    after = page.evaluate(colour)
    assert before != after
    assert_well(opened, "the other theme")
    page.click("#theme")
    assert page.evaluate(colour) == before


def test_every_view_can_be_chosen(opened: Opened) -> None:
    pressed = 0
    for section in sections(opened.page):
        for group in section.locator(".controls[role=group]").all():
            names = group.locator("button").all_inner_texts()
            for i, name in enumerate(names):
                button = group.locator("button").nth(i)
                if not button.is_visible() or button.is_disabled():
                    continue
                button.click()
                doing = (
                    f"{section.get_attribute('id')}, {group.get_attribute('aria-label')}: {name}"
                )
                if button.get_attribute("aria-pressed") is not None:
                    assert button.get_attribute("aria-pressed") == "true", doing
                assert_well(opened, doing)
                pressed += 1
    assert pressed >= 10


def test_every_slider_moves_something(phone: Opened) -> None:
    for slider in phone.page.locator("main input[type=range]").all():
        section = slider.locator("xpath=ancestor::section")
        slider.press("Home")
        first = section.inner_text()
        slider.press("End")
        assert section.inner_text() != first, slider.get_attribute("aria-label")
        assert_well(phone, "a slider at its end")


@pytest.mark.parametrize("opened", WIDTHS, indirect=True, ids=str)
def test_the_film_is_scrubbed_played_and_stepped_through(opened: Opened) -> None:
    film = opened.page.locator("#film")
    said, slider = film.locator(".film-step"), film.locator("input[type=range]")
    screen = film.locator("canvas").first
    expect(said).to_contain_text("step 1 of 8")
    before = screen.evaluate("canvas => canvas.toDataURL()")
    slider.evaluate("slider => { slider.value = 4; slider.dispatchEvent(new Event('input')); }")
    expect(said).to_contain_text("step 5 of 8")
    assert screen.evaluate("canvas => canvas.toDataURL()") != before
    film.get_by_label("one step back").click()
    expect(said).to_contain_text("step 4 of 8")
    opened.page.keyboard.press("ArrowRight")
    opened.page.keyboard.press("ArrowRight")
    expect(said).to_contain_text("step 6 of 8")
    film.get_by_label("first step").click()
    film.get_by_role("button", name="fast").click()
    film.get_by_label("play", exact=True).click()
    expect(said).to_contain_text("step 8 of 8")
    expect(film.get_by_label("play", exact=True)).to_be_visible()  # it has stopped
    strip = film.get_by_label("the whole game")
    strip.click(position={"x": 2, "y": 30})
    expect(said).to_contain_text("step 1 of 8")
    assert_well(opened, "the film")


def test_the_video_is_in_the_page(phone: Opened) -> None:
    film = phone.page.locator("#film")
    film.locator("summary").click()
    phone.page.wait_for_function("document.querySelector('#film video').videoWidth > 0")
    link = film.locator("a[download]").get_attribute("href")
    assert link is not None
    assert link.startswith("data:video/mp4")
    assert_well(phone, "the video")


def test_a_tap_on_the_map_shows_a_frame(phone: Opened) -> None:
    section = phone.page.locator("#embedding")
    board = section.locator("canvas").first
    board.scroll_into_view_if_needed()
    frame = section.locator("canvas[aria-label^='frame of step']")
    shown = frame.get_attribute("aria-label") if frame.count() else None
    box = board.bounding_box()
    assert box is not None
    places = [
        (x, y) for y in range(20, int(box["height"]), 40) for x in range(20, int(box["width"]), 40)
    ]
    for x, y in places:
        board.tap(position={"x": x, "y": y})
        if frame.count() and frame.get_attribute("aria-label") != shown:
            break
    else:
        pytest.fail("no tap brought another frame")
    expect(frame).to_be_visible()
    assert_well(phone, "a frame of the map")


@pytest.mark.parametrize("width", [1100, 390])
def test_the_page_of_an_agent_without_keys(
    width: int, browser: Browser, report_without_keys: Path
) -> None:
    for opened in opening(browser, report_without_keys, width, "light"):
        assert_well(opened, "without keys")
        kinds = [section.get_attribute("id") for section in sections(opened.page)]
        assert {"performance", "embedding", "film"} <= set(kinds)
        assert not {"keys", "attention", "interpolation"} & set(kinds)
        expect(opened.page.locator("#missing")).to_contain_text("this is a ddqn agent")
        opened.page.locator("#film").get_by_label("one step on").click()
        expect(opened.page.locator(".film-step")).to_contain_text("step 2 of")
