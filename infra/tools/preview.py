"""`make preview`: all messages about sample events on one page. TEMPLATES_PATH=... previews custom templates."""

import json
import os
from datetime import UTC, datetime
from html import escape, unescape
from pathlib import Path
from typing import Any

from chalicelib.adapters.templates.renderer import TemplateRenderer
from chalicelib.domain import vocabularies
from chalicelib.domain.events.event import Event
from chalicelib.domain.notifications.delivery import Channel, Delivery
from chalicelib.domain.notifications.observer import Configuration, Observer
from chalicelib.services.notifications.event_messages import build_event_message
from infra.tools.samples import ALARM_EVENTS, DIGEST, FAILED, OTHER, SAMPLES, Scope, alarm_sample, sample_event, scope

PAGE = Path("build/preview.html")

_STYLE = """
body { margin: 0; padding: 24px; background: #e9ecf1; font: 14px/1.5 system-ui, Arial, sans-serif; color: #1f2937 }
h1 { font-size: 22px }
h2 { margin: 40px 0 12px; font-size: 18px }
h3 { margin: 0 0 8px; font-size: 13px; color: #6b7280 }
nav a { margin-right: 12px }
.row { display: flex; flex-wrap: wrap; gap: 16px; align-items: flex-start }
.column { flex: 1; min-width: 380px }
.card { margin: 0 0 16px; padding: 14px; background: #fff; border: 1px solid #d5dae1; border-radius: 8px }
.card.mail { width: 660px; max-width: 100% }
.subject { margin: 0 0 8px; font-weight: 700 }
iframe { width: 100%; height: 700px; border: 1px solid #d5dae1; border-radius: 4px }
pre { margin: 0; padding: 10px; background: #f6f7f9; font-size: 12px; white-space: pre-wrap; word-break: break-word }
.slack { margin: 0 0 12px; padding: 4px 12px; border-left: 4px solid; font-size: 15px }
.slack a { color: #1264a3; font-weight: 700 }
.slack .author, .slack time { font-size: 13px; color: #616061 }
.slack .text { white-space: pre-wrap }
.slack dl { display: grid; grid-template-columns: 1fr 1fr; gap: 6px 16px; margin: 8px 0 }
.slack .long { grid-column: 1 / 3 }
.slack dt { font-weight: 700; font-size: 13px }
.slack dd { margin: 0; word-break: break-word }
"""

_FIT_HEIGHT = "this.style.height = this.contentDocument.body.scrollHeight + 2 + 'px'"


def main() -> None:
    """Write the page and print its address."""
    path = os.environ.get("TEMPLATES_PATH")
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(TemplateRenderer(Path(path) if path else None)), encoding="utf-8")
    print(PAGE.resolve().as_uri())


def page(templates: TemplateRenderer) -> str:
    """The page as one self-contained HTML document."""
    alarms = [(title, *alarm_sample(event), event) for title, event in ALARM_EVENTS.items()]
    others = [*SAMPLES.items(), ("finish", FAILED), ("another event", OTHER)]
    samples = [
        *(("finish, failed" if fields is FAILED else name, name, fields, None) for name, fields in others),
        *alarms,
        ("digest", "digest", DIGEST, sample_event("finish", FAILED)),
    ]
    links = "".join(f'<a href="#{number}">{escape(title)}</a>' for number, (title, *_) in enumerate(samples))
    sections = [
        _section(templates, number, title, name, fields, event or sample_event(name, fields))
        for number, (title, name, fields, event) in enumerate(samples)
    ]
    head = f'<meta charset="utf-8"><title>Messages</title><style>{_STYLE}</style>'
    body = f"<h1>Messages</h1><nav>{links}</nav>{''.join(sections)}"
    return f'<!DOCTYPE html><html lang="en"><head>{head}</head><body>{body}</body></html>'


def _section(templates: TemplateRenderer, number: int, title: str, name: str, fields: Scope, event: Event) -> str:
    others = "".join(card(templates, name, fields) for card in (_slack, _app, _text))
    others += _event("webhook", "Webhook", event) + _event("eventbridge", "EventBridge", event)
    cards = f'{_mail(templates, name, fields)}<div class="column">{others}</div>'
    return f'<h2 id="{number}">{escape(title)}</h2><div class="row">{cards}</div>'


def _mail(templates: TemplateRenderer, name: str, fields: Scope) -> str:
    variables = scope(name, _with_formatted_times(fields))
    subject, html = (templates.render("mail", name, part, variables) for part in ("subject", "html"))
    onload = f'sandbox="allow-same-origin" onload="{_FIT_HEIGHT}"'
    frame = f'<iframe title="mail" {onload} srcdoc="{escape(html)}"></iframe>'
    return _card("mail", f"Mail, {len(html.encode()) / 1024:.1f} KB", subject, frame)


def _text(templates: TemplateRenderer, name: str, fields: Scope) -> str:
    variables = scope(name, _with_formatted_times(fields))
    return _card("", "Mail as text", "", f"<pre>{escape(templates.render('mail', name, 'text', variables))}</pre>")


def _slack(templates: TemplateRenderer, name: str, fields: Scope) -> str:
    post = json.loads(templates.render("slack", name, "json", scope(name, fields)))
    attachments = "".join(map(_attachment, post["attachments"]))
    raw = f"<pre>{escape(json.dumps(post, indent=2, ensure_ascii=False))}</pre>"
    return _card("", "Slack", "", f"{attachments}<details><summary>JSON</summary>{raw}</details>")


def _app(templates: TemplateRenderer, name: str, fields: Scope) -> str:
    subject, body = (templates.render("app", name, part, scope(name, fields)) for part in ("subject", "body"))
    return _card("", "App and Apprise", subject, f"<pre>{escape(body)}</pre>")


def _event(channel: Channel, title: str, event: Event) -> str:
    """The JSON for a program."""
    config = {"url": "https://example.org/hooks", "bus": "default"}
    observer = Observer("ops", Configuration(channel=channel, config=config), since=0)
    delivery = Delivery(f"{event.id}/ops", event.id.server, "ops", event.id, event.fields.key or "")
    native = json.loads(vocabularies.native_text(event))
    link = scope("", {})["link"]
    message = build_event_message(delivery, event, native, observer, "acme", link, "https://annals.example.org", event)
    text = json.dumps(json.loads(message.json), indent=2, ensure_ascii=False)
    return _card("", title, "", f"<details><summary>JSON</summary><pre>{escape(text)}</pre></details>")


def _card(kind: str, title: str, subject: str, content: str) -> str:
    heading = f'<p class="subject">{escape(subject)}</p>' if subject else ""
    return f'<div class="card {kind}"><h3>{escape(title)}</h3>{heading}{content}</div>'


def _attachment(post: dict[str, Any]) -> str:
    """Approximates how Slack shows an attachment."""
    fields = "".join(map(_field, post["fields"]))
    time = f"<time>{_time(post['ts'])}</time>" if "ts" in post else ""
    return (
        f'<div class="slack" style="border-color:{escape(post["color"])}">'
        f'<div class="author">{_slack_text(post.get("author_name", ""))}</div>'
        f'<a href="{escape(post.get("title_link", "#"))}">{_slack_text(post["title"])}</a>'
        f'<div class="text">{_slack_text(post.get("text", ""))}</div><dl>{fields}</dl>{time}</div>'
    )


def _field(field: dict[str, Any]) -> str:
    kind = "short" if field["short"] else "long"
    return f'<div class="{kind}"><dt>{_slack_text(field["title"])}</dt><dd>{_slack_text(field["value"])}</dd></div>'


def _slack_text(text: str) -> str:
    """Converts Slack's escapes to HTML."""
    return escape(unescape(text))


def _with_formatted_times(fields: Any) -> Any:
    """The fields, with times as in mails."""
    if isinstance(fields, list):
        return [_with_formatted_times(field) for field in fields]
    if not isinstance(fields, dict):
        return fields
    return {
        name: _time(value) if name in ("time", "until") else _with_formatted_times(value)
        for name, value in fields.items()
    }


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


if __name__ == "__main__":
    main()
