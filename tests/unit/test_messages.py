"""Messages for every channel, held against what each accepts; and the parts that they share."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import replace
from datetime import UTC, datetime
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from html.parser import HTMLParser
from typing import Any

import pytest

from headgate.messages.email import (
    DEFAULT_SUBJECT,
    Envelope,
    Mail,
    email,
    html_of,
    problem_of_subject,
    subject_of,
    text_of,
)
from headgate.messages.message import CRITICAL, GOOD, INFO, WARNING, Button, Fact, Message
from headgate.messages.slack import slack
from headgate.messages.sparkline import HEIGHT_PX, MOST, bars, blocks
from headgate.messages.teams import teams
from headgate.messages.text import cut, escaped_within, masked, number, size
from headgate.messages.webhook import encoded, signature, webhook
from tests.support.channels import slack_problems, teams_problems

AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
ENVELOPE = Envelope("headgate@example.org", ["a@example.org"], [], "d-1", AT)
BUTTONS = (Button("View Incident", "https://hg.example/incidents/1"), Button("View Run", "https://hg.example/runs/2"))


def a_message(**fields: Any) -> Message:
    facts: dict[str, Any] = {
        "title": "🔴 HEADGATE: orders - RowCountDrop",
        "look": CRITICAL,
        "sentence": "Row count fell.",
        "at": AT,
        "kind": "RowCountDrop",
        "heading": (Fact("📦", "Dataset", "shop.orders"), Fact("🚦", "Severity", "CRITICAL")),
        "facts": (Fact("📈", "Found", "200"), Fact("🧱", "Column", "a`b", True)),
        "reasons": ("the source came late",),
        "buttons": BUTTONS,
    }
    return Message(**{**facts, **fields})


def monster(letter: str) -> Message:
    long = letter * 30_000
    facts = tuple(Fact(letter, f"Fact {number}", long, number % 2 == 0) for number in range(30))
    names = {"title": long, "sentence": long, "owner": long, "reasons": (long,) * 200}
    buttons = tuple(Button(long, "https://hg.example/" + "a" * number * 400) for number in range(12))
    return a_message(facts=facts, heading=facts[:4], place=facts[:3], buttons=buttons, **names)


EMPTY = a_message(title="", sentence="", heading=(), facts=(), reasons=(), buttons=())


@pytest.mark.parametrize(
    "message", [a_message(), EMPTY, a_message(heading=(Fact("", "A", ""),))], ids=["full", "empty", "no value"]
)
def test_slack_and_teams_take_what_we_send(message: Message) -> None:
    assert slack_problems(json.loads(encoded(slack(message)))) == []
    assert teams_problems(json.loads(encoded(teams(message)))) == []


@pytest.mark.parametrize("letter", ["a", "&", "é", "漢", "😀", '"', "\n", "`"], ids=ascii)
def test_texts_without_end_stay_within_the_limits(letter: str) -> None:
    assert slack_problems(json.loads(encoded(slack(monster(letter), mention=letter * 5000)))) == []
    assert teams_problems(json.loads(encoded(teams(monster(letter), mention=letter * 5000)))) == []


@pytest.mark.parametrize("look", [CRITICAL, WARNING, INFO, GOOD], ids=["critical", "warning", "info", "good"])
def test_a_look_is_the_same_everywhere(look: Any) -> None:
    message = a_message(look=look)
    assert slack(message)["attachments"][0]["color"] == look.color
    assert teams(message)["attachments"][0]["content"]["body"][0]["style"] == look.style
    assert f'bgcolor="{look.color}"' in html_of(Mail(message, "s"))


def test_only_the_first_button_stands_out() -> None:
    [actions] = [block for block in slack(a_message())["attachments"][0]["blocks"] if block["type"] == "actions"]
    assert [each.get("style") for each in actions["elements"]] == ["primary", None]
    card = teams(a_message())["attachments"][0]["content"]
    assert [each["title"] for each in card["actions"]] == ["View Incident", "View Run"]


def test_no_text_of_a_card_becomes_a_link() -> None:
    trap = "t[click](http://evil.example)"
    facts = (Fact("", "Dataset", trap),)
    told = {"title": trap, "sentence": trap, "owner": trap, "reasons": (trap,), "heading": facts, "facts": facts}
    card = json.dumps(teams(a_message(**told), mention=trap), ensure_ascii=False)
    assert (card.count("[click]"), card.count("](")) == (7, 0)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "0"),
        (1_234_567, "1,234,567"),
        (91_410.2, "91,410"),
        (12.3456, "12.35"),
        (0.00012345, "0.0001234"),
        (-5.5, "-5.5"),
        (1e21, "1e+21"),
    ],
)
def test_numbers_are_written_as_people_do(value: float, said: str) -> None:
    assert number(value) == said


@pytest.mark.parametrize("url", ["javascript:alert(1)", "/runs/1", "https://x/" + "a" * 3000])
def test_what_no_channel_could_open_is_no_button(url: str) -> None:
    message = a_message(buttons=(Button("x", url),))
    assert all(block["type"] != "actions" for block in slack(message)["attachments"][0]["blocks"])
    assert "actions" not in teams(message)["attachments"][0]["content"]
    assert url not in html_of(Mail(message, "s"))


def test_a_message_without_a_duration_says_none() -> None:
    assert "Duration" not in json.dumps(slack(a_message()))
    assert "Duration" in json.dumps(slack(a_message(duration_s=1.5)))


def test_a_signature_is_of_time_and_body() -> None:
    body = encoded(webhook({"a": 1}, {"b": 2}))
    stamp, signed = signature("s3cret", body, 1_700_000_000).split(",")
    expected = hmac.new(b"s3cret", b"1700000000." + body, hashlib.sha256).hexdigest()
    assert (stamp, signed) == ("t=1700000000", f"v1={expected}")
    assert signature("s3cret", body, 1_700_000_001) != signature("s3cret", body, 1_700_000_000)
    assert json.loads(body) == {"source": "headgate", "version": json.loads(body)["version"], "a": 1, "extra": {"b": 2}}


def read(mail: Mail, envelope: Envelope = ENVELOPE) -> EmailMessage:
    found = message_from_bytes(email(mail, envelope).as_bytes(), policy=default)
    assert isinstance(found, EmailMessage)
    return found


def part(mail: EmailMessage, kind: str) -> str:
    body = mail.get_body((kind,))
    assert body is not None
    return str(body.get_content())


def test_a_mail_has_a_text_and_an_html_part_that_say_the_same() -> None:
    mail = read(Mail(a_message(owner="ann"), "Hello", ("mart.a", "mart.b"), 12, True, "Row count", (10, 12, 11, 2)))
    assert mail.get_content_type() == "multipart/alternative"
    for kind in ("plain", "html"):
        text = part(mail, kind)
        for said in (
            "Row count fell.",
            "shop.orders",
            "CRITICAL",
            "ann",
            "the source came late",
            "mart.b",
            "at least 12",
        ):
            assert said in text
        assert "https://hg.example/incidents/1" in text


def test_a_mail_names_its_delivery_and_asks_for_no_answer() -> None:
    mail = read(Mail(a_message(), "Hello"), replace(ENVELOPE, cc=["b@example.org"], sender="Headgate <hg@example.org>"))
    assert mail["Message-ID"] == "<d-1@example.org>"
    assert (mail["X-Headgate-Delivery"], mail["Auto-Submitted"]) == ("d-1", "auto-generated")
    assert (mail["From"], mail["Cc"]) == ("Headgate <hg@example.org>", "b@example.org")


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.add(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


@pytest.mark.parametrize("letter", ["a", "<", "&", '"', "'", "😀", "{{ 7 * 7 }}", "<script>"], ids=ascii)
def test_a_mail_is_well_formed_whatever_the_data_says(letter: str) -> None:
    message = a_message(title=letter, sentence=letter * 3, owner=letter, reasons=(letter,) * 30)
    page = html_of(Mail(message, letter, (letter,), 3, False, letter, (1.0, 2.0)))
    tags = _Tags()
    tags.feed(page)
    assert (tags.open, tags.wrong) == ([], [])
    assert not tags.seen & {"script", "style", "img", "svg", "link", "iframe"}
    assert "49" not in page or letter != "{{ 7 * 7 }}"


def test_a_page_uses_no_style_sheet_and_loads_nothing() -> None:
    page = html_of(Mail(a_message(), "s", series_name="Rows", series=(1, 2, 3)))
    assert "<style" not in page
    assert "src=" not in page
    assert "url(" not in page


def test_a_series_is_drawn_as_bars_of_which_the_last_stands_out() -> None:
    page = html_of(Mail(a_message(), "s", series_name="Rows", series=(100.0, 110.0, 20.0)))
    assert page.count('width="12"') == 3
    assert page.count(f'bgcolor="{CRITICAL.color}" height=') == 2  # the stripe on top, and the last bar
    assert 'aria-label="Rows, last 3 values: 20 to 110, now 20"' in page


def test_a_mail_says_the_values_of_a_series_as_its_metric_wants() -> None:
    mail = Mail(a_message(), "s", series_name="Size", series=(1e3, 2e3), amount=lambda value: f"{value / 1e3:g} kB")
    assert "last 2 values: 1 kB to 2 kB, now 2 kB" in html_of(mail)
    assert "(now 2 kB)" in text_of(mail)


def test_no_series_and_no_impact_leave_no_empty_headings() -> None:
    mail = Mail(a_message(), "s")
    assert "last 0 values" not in html_of(mail)
    assert "Downstream" not in html_of(mail) + text_of(mail)


def test_bars_are_never_too_high_nor_invisible() -> None:
    found = bars([0, 1e12, 5, -3])
    assert len(bars(list(range(100)))) == MOST
    assert all(2 <= each.height_px <= HEIGHT_PX for each in found)
    assert [each.is_last for each in found] == [False, False, False, True]


@pytest.mark.parametrize(
    ("values", "drawn"),
    [
        ((), ""),
        ((5,), "▅"),
        ((5, 5, 5), "▅▅▅"),
        ((0, 0), "▅▅"),
        ((0, 7, 8), "▁██"),
        ((1000, 1010, 990), "▅█▁"),
        ((-1, 1), "▁█"),
    ],
)
def test_a_series_in_a_line_of_text(values: tuple[float, ...], drawn: str) -> None:
    assert blocks(values) == drawn


@pytest.mark.parametrize(
    ("template", "subject"),
    [
        (DEFAULT_SUBJECT, "[CRITICAL] RowCountDrop on orders"),
        ("plain", "plain"),
        ("{{not a field}} {owner}", "{not a field}"),
        ("a\r\nBcc: x {severity}", "a Bcc: x CRITICAL"),
    ],
)
def test_a_subject_is_one_line_of_known_fields(template: str, subject: str) -> None:
    values = {"severity": "CRITICAL", "anomaly_type": "RowCountDrop", "dataset_name": "orders", "owner": ""}
    assert subject_of(template, values) == subject


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("{nope}", "names the field 'nope'; known are severity,"),
        ("{severity.real}", "names the field 'severity.real'"),
        ("{0}", "names the field '0'"),
        ("{}", "names the field ''"),
        ("{severity!r}", "a format"),
        ("{severity:>10}", "a format"),
        ("{severity", "odd brace"),
        ("}", "odd brace"),
    ],
)
def test_a_template_that_would_not_work_is_told(template: str, problem: str) -> None:
    assert problem in str(problem_of_subject(template))


def test_a_good_template_has_no_problem() -> None:
    assert problem_of_subject(DEFAULT_SUBJECT) is None


def test_a_cut_counts_as_slack_does_and_never_splits_an_escape() -> None:
    assert (size("😀"), cut("😀😀", 3)) == (2, "😀…")
    for longest in range(6, 30):
        text = escaped_within("&<>" * 20, longest)
        assert size(text) <= longest
        assert text.count("&") == text.count(";")


def test_what_must_not_be_repeated_is_masked_longest_first() -> None:
    assert masked("at /services/T0/secret1 and secret1", ["secret1", "/services/T0/secret1", "at"]) == "at *** and ***"
