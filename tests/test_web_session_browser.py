"""The page of a session in Chromium: parts, keys, news, light and dark, wide and narrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from browser import NARROW, WIDE, Browser, a_browser, needs_browser, served_at
from builder import World as Files
from builder import text, tool_use
from demo_db import demo_folder
from hostile import HOSTILE, MARKUP
from readlab import fill
from test_web_session import NESTED, hostile_session, long_session, page_of
from world import World

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [needs_browser, pytest.mark.xdist_group("browser")]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with a_browser(tmp_path_factory.mktemp("browser")) as one:
        yield one


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with served_at(demo_folder() / "demo.db") as one:
        yield one


@pytest.fixture
def files() -> Files:
    return Files()


def current(browser: Browser) -> str:
    return browser.run("return document.querySelector('#contents [aria-current]')?.hash || ''")


def test_keys_and_calls_work_without_an_error(browser: Browser, base: str) -> None:
    browser.look(WIDE)
    browser.open(f"{base}{page_of(NESTED)}")
    browser.press("j")
    browser.wait("document.querySelector('#contents [aria-current]')?.hash === '#turn-2'")
    browser.press("k")
    browser.wait("document.querySelector('#contents [aria-current]')?.hash === '#turn-1'")
    browser.press("t")  # opens all calls, which loads them
    browser.wait(
        "[...document.querySelectorAll('#turns > section details.call')].length > 3"
        " && !document.querySelector('details.call[open] a.later[data-when=open]')"
    )
    assert browser.run("return document.querySelectorAll('pre.terminal').length") > 0
    browser.press("t")
    browser.wait("!document.querySelector('details.call[open]')")
    browser.press("?")
    browser.wait("document.getElementById('keys').open")
    browser.run("document.getElementById('keys').close()")
    browser.press("/")
    browser.wait("document.activeElement.id === 'find-here'")
    browser.run(
        "document.getElementById('find-here').value = 'parcels';"
        "document.querySelector('.find-here').requestSubmit()"
    )
    browser.wait("document.querySelectorAll('#found mark').length > 0")
    browser.check(base)


def test_an_agent_opens_in_place(browser: Browser, base: str) -> None:
    browser.look(WIDE)
    browser.open(f"{base}{page_of(NESTED)}")
    browser.run("document.querySelector('details.agent').open = true")
    browser.wait("document.querySelector('details.agent .call')")
    browser.check(base)


@pytest.mark.parametrize(
    ("size", "dark"),
    [
        (WIDE, False),
        (NARROW, True),
        pytest.param(WIDE, True, marks=pytest.mark.slow),
        pytest.param(NARROW, False, marks=pytest.mark.slow),
    ],
)
def test_the_page_fits_and_everyone_can_use_it(
    browser: Browser, base: str, size: tuple[int, int], dark: bool
) -> None:
    browser.look(size, dark=dark)
    browser.open(f"{base}{page_of(NESTED)}")
    browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    browser.wait("!document.querySelector('details[open] > .body > a.later')")
    assert browser.fits()
    browser.check(base)
    assert browser.problems() == []


def test_errors_and_turns_that_are_not_loaded_are_reached(
    browser: Browser, world: World, files: Files
) -> None:
    one = long_session(files, turns=8, steps=40)
    call = tool_use(files, "Bash", {"command": "false"})
    one.prompt("fail, please")
    one.reply(call)
    one.result(call["id"], "it failed", is_error=True)
    fill(world, files)
    with served_at(world.db) as base:
        browser.look(WIDE)
        browser.open(f"{base}{page_of(one.session)}")
        assert browser.run("return document.querySelector('#turn-9').className") == "turn waiting"
        browser.press("e")
        browser.wait("document.querySelector('.call-error.here')")
        browser.wait("document.querySelector('.call-error.here').textContent.includes('it failed')")
        browser.open(f"{base}{page_of(one.session)}#turn-8")
        browser.wait("document.querySelector('#turn-8').className === 'turn'")
        browser.wait(
            "Math.abs(document.querySelector('#turn-8').getBoundingClientRect().top) < 200"
        )
        browser.check(base)


def test_a_live_session_grows_on_the_page(
    browser: Browser, world: World, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The lines are from another day. The server is a thread of this process.
    monkeypatch.setattr("ctxdb.web.pages.session.LIVE_SECONDS", 10**10)
    one = files.session()
    one.prompt("begin the long task")
    first = one.tool("Bash", {"command": "echo first"}, "first output")
    waiting = tool_use(files, "Bash", {"command": "sleep 99"})
    one.reply(waiting)
    fill(world, files)
    with served_at(world.db) as base:
        browser.look(WIDE)
        browser.open(f"{base}{page_of(one.session)}")
        browser.wait("document.querySelector('.call-pending')")
        browser.run("document.querySelector('details.call').open = true")
        browser.wait("document.querySelector('details.call').textContent.includes('first output')")
        one.result(waiting["id"], "slept")
        one.reply(text("The task is **done**."))
        one.prompt("and another one")
        fill(world, files)
        browser.wait("document.querySelector('#turn-2')")
        browser.wait("[...document.querySelectorAll('#contents li')].length === 2")
        assert browser.run("return !document.querySelector('.call-pending')")
        assert browser.run("return document.querySelector('#turn-1').textContent.includes('done')")
        # What was open stays open.
        browser.wait("document.querySelector('details.call').open")
        browser.wait("document.querySelector('details.call').textContent.includes('first output')")
        assert first
        browser.check(base)


def test_case_101_hostile_text_does_nothing_in_a_browser(
    browser: Browser, world: World, files: Files
) -> None:
    payloads = {**HOSTILE, **MARKUP}
    del payloads["half of a pair"]
    one = hostile_session(files, "\n\n".join(payloads.values()))
    fill(world, files)
    with served_at(world.db) as base:
        browser.look(WIDE)
        browser.open(f"{base}{page_of(one.session)}")
        browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        browser.wait("!document.querySelector('details[open] > .body > a.later')")
        # A policy that had to block something, or a request that left, would show here.
        browser.check(base)
        tags = "script:not([src]), iframe, img, svg, math, base, object, embed, [onerror], [onload]"
        assert browser.run("return document.querySelectorAll(arguments[0]).length", tags) == 0
