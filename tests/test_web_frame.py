"""The frame of the web pages: which requests are answered, and with which headers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ctxdb.web import door, safety
from ctxdb.web.links import Links
from ctxdb.web.routes import ROUTES
from demo_db import demo_folder
from weblab import HOST, Client, served

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with served(demo_folder() / "demo.db") as one:
        yield one


def test_the_root_leads_to_the_dashboard(client: Client) -> None:
    reply = client.get("/")
    assert (reply.status, reply.headers["location"]) == (302, "/-/ctxdb")
    page = client.get("/-/ctxdb")
    assert page.status == 200
    assert "Dashboard" in page.text


def test_the_page_of_every_route_can_be_imported() -> None:
    assert all(callable(route.load()) for route in ROUTES)


def test_our_pages_allow_nothing_inline_and_nothing_remote(client: Client) -> None:
    page = client.get("/-/ctxdb")
    assert page.headers["content-security-policy"] == safety.STRICT
    assert "unsafe-inline" not in safety.STRICT
    assert "style=" not in page.text
    assert "onclick" not in page.text
    assert "http://" not in page.text.replace("http://www.w3.org", "")
    assert "https://" not in page.text


def test_pages_of_datasette_allow_nothing_remote(client: Client) -> None:
    page = client.get("/demo")
    assert page.status == 200
    assert page.headers["content-security-policy"] == safety.INLINE
    assert page.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example:8400",
        "127.0.0.1:8400@evil.example",
        "127.0.0.1 evil.example",
        "[::1",
        "",
    ],
)
def test_case_101_a_forged_host_gets_403(client: Client, host: str) -> None:
    for path in ("/", "/-/ctxdb", "/demo", "/demo.json", "/-/ctxdb/static/ctxdb.css"):
        assert client.get(path, host=host).status == 403


@pytest.mark.parametrize("host", ["localhost:8400", "127.0.0.1", "[::1]:8400", "LOCALHOST:1"])
def test_names_of_this_machine_are_answered(client: Client, host: str) -> None:
    assert client.get("/-/ctxdb", host=host).status == 200


@pytest.mark.parametrize(
    "origin",
    ["null", "http://evil.example", f"http://{HOST}.evil.example", "http://127.0.0.1:9999", "x"],
)
def test_case_101_a_forged_origin_gets_403(client: Client, origin: str) -> None:
    for path in ("/", "/-/ctxdb", "/demo.json", "/-/ctxdb/static/ctxdb.css"):
        assert client.get(path, origin=origin).status == 403
    assert client.get("/-/ctxdb", origin=f"http://{HOST}").status == 200


def test_a_page_of_another_site_cannot_load_anything(client: Client) -> None:
    fetched = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors"}
    assert client.get("/demo.json", **fetched, sec_fetch_dest="script").status == 403
    framed = {"sec_fetch_site": "same-site", "sec_fetch_mode": "navigate"}
    assert client.get("/-/ctxdb", **framed, sec_fetch_dest="iframe").status == 403
    linked = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}
    assert client.get("/-/ctxdb", **linked, sec_fetch_dest="document").status == 200


def test_an_allowed_host_is_answered() -> None:
    with served(demo_folder() / "demo.db", hosts=("box.example",)) as client:
        assert client.get("/-/ctxdb", host="box.example:1234").status == 200
        assert client.get("/-/ctxdb", host="evil.example").status == 403


def test_without_the_cookie_everything_gets_403() -> None:
    with served(demo_folder() / "demo.db", secret="s3cret") as client:
        for path in ("/", "/-/ctxdb", "/demo", "/demo.json", "/-/static/app.css", "/-/metadata"):
            assert client.get(path).status == 403
            assert client.get(path, cookie="ctxdb=wrong").status == 403
        assert client.get(f"{door.LOGIN}?token=wrong").status == 403
        assert client.get(f"{door.LOGIN}?token=wrong.wrong").status == 403


def test_a_token_becomes_a_cookie_and_works_once() -> None:
    with served(demo_folder() / "demo.db", secret="s3cret") as client:
        token = door.new_token("s3cret")
        entered = client.get(f"{door.LOGIN}?token={token}")
        assert entered.status == 200
        cookie = entered.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert token not in cookie
        value = cookie.partition(";")[0]
        assert client.get("/-/ctxdb", cookie=value).status == 200
        assert client.get(f"{door.LOGIN}?token={token}").status == 403
        assert client.get(f"{door.LOGIN}?token={door.new_token('other')}").status == 403


def test_static_files_are_kept_by_their_digest(client: Client) -> None:
    page = client.get("/-/ctxdb")
    (url,) = {
        part.partition('"')[0] for part in page.text.split('href="') if "ctxdb.css" in part[:60]
    }
    reply = client.get(url)
    assert reply.headers["content-type"].startswith("text/css")
    assert "immutable" in reply.headers["cache-control"]
    assert client.get("/-/ctxdb/static/ctxdb.css").headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    "path",
    [
        "/-/ctxdb/static/../plugin.py",
        "/-/ctxdb/static/..%2fplugin.py",
        "/-/ctxdb/static/%2e%2e/plugin.py",
        "/-/ctxdb/static/..%5cplugin.py",
        "/-/ctxdb/static/plugin.py",
        "/-/ctxdb/static//etc/passwd",
        "/-/ctxdb/static/..",
        "/-/ctxdb/static/ctxdb.css%00",
        "/-/ctxdb/../../etc/passwd",
    ],
)
def test_case_101_no_path_leads_out_of_the_static_files(client: Client, path: str) -> None:
    reply = client.get(path)
    assert reply.status in (302, 404)
    assert b"hookimpl" not in reply.body
    assert b"root:" not in reply.body


def test_the_database_is_downloaded_only_if_allowed(client: Client) -> None:
    for path in ("/-/ctxdb/download", "/demo.db"):
        assert client.get(path).status in (403, 404)
    with served(demo_folder() / "demo.db", download=True) as allowing:
        reply = allowing.get("/-/ctxdb/download")
        assert reply.status == 200
        assert reply.body.startswith(b"SQLite format 3\0")


def test_links_write_values_as_text() -> None:
    links = Links("my db", query_path="/-/query")
    made = links.sql("SELECT :_since, :limit", {"_since": "it's", "limit": 3})
    assert made == "/my~20db/-/query?sql=SELECT+%27it%27%27s%27%2C+%3Alimit&limit=3"
    assert links.session("a/b") == "/-/ctxdb/session/a%2Fb"
