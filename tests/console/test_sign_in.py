"""Sign-in with a token or a link."""

import time

import jwt

from tests.console.browsing import Console, eventually, publish
from tests.serving import ALL_GROUPS, JWT_KEY, Member, Server


def test_pasted_token_is_kept_in_this_tab_only(console: Console, demo: Member) -> None:
    page = console.page
    page.goto(demo.server.url)
    page.get_by_label("Token", exact=True).fill(f"Bearer {demo.token}")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Live").wait_for()
    assert page.evaluate("sessionStorage.getItem('annals.token')") == demo.token
    assert page.evaluate("Object.values(localStorage).join()") == ""
    assert console.context.cookies() == []
    assert demo.token not in page.url


def test_enter_submits_the_token(console: Console, demo: Member) -> None:
    page = console.page
    page.goto(demo.server.url)
    page.get_by_label("Token", exact=True).fill(demo.token)
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Live").wait_for()


def test_unknown_address_says_so(console: Console, demo: Member) -> None:
    page = console.open(demo, "#/dashboard")
    page.get_by_text("There is no page at #/dashboard").wait_for()
    page.get_by_role("main").get_by_role("link", name="System").click()
    page.get_by_role("heading", name="System").wait_for()


def test_refused_token_shows_an_error(console: Console, server: Server) -> None:
    page = console.page
    page.goto(server.url)
    page.get_by_label("Token", exact=True).fill("not a token")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("alert").get_by_text("The server does not accept this token").wait_for()


def test_printed_link_signs_in_once(console: Console, server: Server) -> None:
    link = _start_link(server)
    page = console.page
    page.goto(link)
    page.get_by_role("heading", name="Live").wait_for()
    assert "code" not in page.url
    again = Console(console.context)
    again.page.goto(link)
    again.page.get_by_text("This link does not sign in").wait_for()
    assert "code" not in again.page.url


def test_link_opens_its_organization_after_sign_in(console: Console, server: Server) -> None:
    """Both organizations have a job 7, as job numbers are not unique."""
    (first, second) = (server.organization(), server.organization())
    for member, kind in ((first, "backup"), (second, "restore")):
        create = {"event": "create", "node": "n1", "id": 7, "type": kind}
        publish(member, create, vocabulary="job")
    both = server.member(first.organization, second.organization)
    page = console.page
    page.goto(f"{server.url}/#/objects/job/7?org={second.organization}")
    page.get_by_label("Token", exact=True).fill(both.token)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text("job/create/n1/restore").first.wait_for()
    assert page.get_by_label("Organization", exact=True).input_value() == second.organization
    page.get_by_label("Organization", exact=True).select_option(first.organization)
    page.get_by_text("job/create/n1/backup").first.wait_for()


def test_link_to_foreign_organization_says_so(console: Console, member: Member) -> None:
    page = console.open(member, "#/objects/job/7?org=elsewhere")
    page.get_by_text("This address belongs to the organization elsewhere").wait_for()
    page.get_by_role("button", name=f"Open {member.organization}").click()
    page.get_by_role("heading", name="No such job").wait_for()


def test_sign_out_shows_sign_in_page(console: Console, demo: Member) -> None:
    page = console.open(demo)
    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("Token", exact=True).wait_for()
    assert page.evaluate("sessionStorage.length") == 0


def test_expired_token_returns_to_sign_in(console: Console, demo: Member) -> None:
    page = console.open(demo, "#/system")
    page.get_by_role("heading", name="Consumers").wait_for()
    claims = {"sub": "anna", "org": [demo.organization], "groups": ALL_GROUPS, "exp": int(time.time()) - 60}
    expired = jwt.encode(claims, JWT_KEY, algorithm="HS256")
    page.evaluate("token => sessionStorage.setItem('annals.token', token)", expired)
    page.get_by_role("alert").get_by_text("Your session has ended").wait_for()


def test_theme_follows_the_system_until_chosen(console: Console, demo: Member) -> None:
    page = console.page
    page.emulate_media(color_scheme="dark")
    console.open(demo)
    assert _scheme(console) == "dark"
    page.get_by_role("button", name="Use the light theme").click()
    assert _scheme(console) == "light"
    page.reload()
    page.get_by_role("heading", name="Live").wait_for()
    assert _scheme(console) == "light"


def test_shortcuts_open_pages_and_are_listed(console: Console, demo: Member) -> None:
    page = console.open(demo)
    page.get_by_role("heading", name="Live").wait_for()
    page.keyboard.press("?")
    page.get_by_role("dialog").get_by_text("Go to Objects").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("s")
    page.get_by_role("heading", name="System").wait_for()
    page.reload()
    page.get_by_role("heading", name="System").wait_for()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Enter")
    eventually(page, lambda: bool(page.evaluate("document.activeElement.id === 'main'")))
    assert page.url.endswith("#/system")


def _scheme(console: Console) -> str:
    dark: bool = (
        console.page.evaluate("getComputedStyle(document.body.parentElement).backgroundColor") == "rgb(15, 17, 21)"
    )
    return "dark" if dark else "light"


def _start_link(server: Server) -> str:
    assert server.process.stdout is not None
    lines = iter(server.process.stdout.readline, b"")
    return next(line for line in lines if b"#code=" in line).decode().split()[-1]
