"""What goes over the wire: JSON for webhooks, Slack's shape for chats. Pure."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from recovery.notify import wording

MOST_FIELDS: Final = 10
"""Fields of one section; a field has at most 2,000 characters. Slack refuses the whole message beyond either."""


def webhook_body(
    *, uid: str, event: str, at: datetime, recovery: str, environment: str, body: Mapping[str, Any], url: str
) -> bytes:
    """`{id, event, at, recovery, environment, title, text, url, facts}`; `at` is when it happened, in ISO 8601."""
    facts = body["facts"]
    shape = {
        "id": uid, "event": event, "at": at.isoformat(), "recovery": recovery or None,
        "environment": environment or None, "title": body["title"],
        "text": wording.message_text(body["title"], facts, url), "url": url, "facts": facts,
    }  # fmt: skip
    return json.dumps(shape, ensure_ascii=False, separators=(",", ":")).encode()


def escape_mrkdwn(text: str) -> str:
    """Text for Slack's mrkdwn: `<!channel>`, links and mentions inside of a fact stay text."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def chat_body(*, body: Mapping[str, Any], url: str) -> bytes:
    """Slack's incoming webhook: `text` alone says it all (Mattermost, notifications), `blocks` say it well."""
    rows = wording.fact_lines(body["facts"])
    # escaped, a character is at most five
    fields = [
        {"type": "mrkdwn", "text": f"*{escape_mrkdwn(k[:40])}*\n{escape_mrkdwn(v[:350]) or '-'}"}
        for k, v in rows
    ]
    sections = [
        {"type": "section", "fields": fields[n : n + MOST_FIELDS]} for n in range(0, len(fields), MOST_FIELDS)
    ]
    lines = "\n".join(f"{escape_mrkdwn(k)}: {escape_mrkdwn(v)}" for k, v in rows)
    head = {"type": "plain_text", "text": body["title"], "emoji": False}
    link = {"type": "section", "text": {"type": "mrkdwn", "text": f"<{url}|Open it in Reprise>"}}
    text = f"{escape_mrkdwn(body['title'])}\n{lines}\n<{url}|Open it in Reprise>"
    return json.dumps({"text": text, "blocks": [{"type": "header", "text": head}, *sections, link]}).encode()
