"""Alerts by mail over a real SMTP server: encrypted, logged in, refused, late; and to the console."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest

from headgate.server.outbound import Guard
from tests.support.alerts import EMAIL, TEST, Telling, channels_by
from tests.support.certificates import of_client, of_server
from tests.support.events import a_dataset, an_event
from tests.support.mailboxes import PASSWORD, USER, Mailbox, a_mailbox

HOST = "mail.example.org"
TO = {"email_to": ["data@example.org", "oncall@example.org"], "email_cc": ["boss@example.org"]}


async def here(host: str, port: int) -> Sequence[str]:
    """Every name is this machine."""
    return ["127.0.0.1"]


@pytest.fixture
async def telling(telling: Telling) -> Telling:
    """Every name leads to this machine, whose certificates are known."""
    guard = Guard(telling.settings.alert_allow_private, resolve=here)
    telling.channels = channels_by(telling, guard, timeout_s=2, verify=of_client(HOST))
    return telling


async def configure(telling: Telling, box: Mailbox | int, **fields: Any) -> None:
    port = box if isinstance(box, int) else box.port
    body = {"backend": "smtp", "host": HOST, "port": port, "username": USER, "password": PASSWORD, **fields}
    response = await telling.tenant.client.put(EMAIL, json=body)
    assert response.status_code == 200, response.text


async def mailed(telling: Telling, config: dict[str, Any] | None = None) -> None:
    await telling.a_rule(channel_type="EMAIL", channel_config=TO if config is None else config)
    dataset = await telling.a_dataset(owners=["ann"])
    await telling.tell_of(dataset, anomaly_id=await telling.an_anomaly(dataset))


@pytest.mark.parametrize("way", ["starttls", "tls"])
async def test_a_mail_is_sent_encrypted_after_a_login(telling: Telling, way: str) -> None:
    async with a_mailbox(**{way: of_server(HOST)}) as box:
        await configure(telling, box, tls=way, **{"from": "headgate@example.org"})
        await mailed(telling)

    [mail], [envelope] = box.mails, box.envelopes
    assert box.logins == [USER]
    if way == "starttls":
        assert box.was_encrypted == [True]
    assert envelope.mail_from == "headgate@example.org"
    assert envelope.rcpt_tos == ["data@example.org", "oncall@example.org", "boss@example.org"]
    assert (mail["To"], mail["Cc"]) == ("data@example.org, oncall@example.org", "boss@example.org")
    assert mail["Subject"] == "[CRITICAL] RowCountDrop on shop.orders"
    [kept] = await telling.history()
    assert (kept["status"], kept["channel_type"]) == ("SENT", "EMAIL")
    assert mail["Message-ID"] == f"<{kept['id']}@example.org>" == kept["response_payload"]["message_id"]
    assert kept["response_payload"]["message"] == "queued as 42"
    assert kept["channel_context"] == {
        **TO,
        "subject_template": "[{severity}] {anomaly_type} on {dataset_name}",
        "backend": "smtp",
        "host": HOST,
    }


async def test_a_mail_shows_cause_downstream_and_the_curve(telling: Telling) -> None:
    reports = [a_dataset(f"mart.report_{number}") for number in range(3)]
    await telling.tenant.send_ok(an_event(inputs=[a_dataset("shop.orders")], outputs=reports))
    dataset: UUID = await telling.db.fetchval(
        "SELECT id FROM datasets WHERE organization_id = $1 AND name = 'shop.orders'", telling.org
    )
    for days in range(20):
        await telling.db.execute(
            "INSERT INTO dataset_metrics (organization_id, dataset_id, measured_at, run_id, direction, row_count)"
            " VALUES ($1, $2, $3::timestamptz - make_interval(days => $4), gen_random_uuid(), 'output', $5)",
            telling.org,
            dataset,
            telling.clock.now,
            days,
            200 if days == 0 else 1000 + days,
        )
    async with a_mailbox(starttls=of_server(HOST)) as box:
        await configure(telling, box)
        await telling.a_rule(channel_type="EMAIL", channel_config=TO)
        await telling.tell_of(dataset, anomaly_id=await telling.an_anomaly(dataset))

    [mail] = box.mails
    text, html = mail.get_body(("plain",)), mail.get_body(("html",))
    assert text is not None
    assert html is not None
    plain, page = text.get_content(), html.get_content()
    assert "Downstream datasets: 3" in plain
    assert "- mart.report_0" in plain
    assert "█▂ (now 200)" in plain or "█▁ (now 200)" in plain
    assert "the source batch of orders came without 80 % of its rows" in plain
    assert "Downstream impact: 3 datasets" in page
    assert page.count("mart.report_") == 3
    assert page.count('width="12"') == 20
    assert "Row count</strong>, last 20 values: 200 to 1,019, now 200" in page
    assert "https://headgate.example/incidents/" in page
    assert "<script" not in page


async def test_what_came_from_data_is_no_markup(telling: Telling) -> None:
    async with a_mailbox(starttls=of_server(HOST)) as box:
        await configure(telling, box)
        await telling.a_rule(channel_type="EMAIL", channel_config=TO)
        await telling.tell_of(
            await telling.a_dataset("<img src=x>\r\nBcc: evil@example.org"), sentence="<b>hi</b> & bye"
        )
    [mail] = box.mails
    html = mail.get_body(("html",))
    assert html is not None
    assert "&lt;b&gt;hi&lt;/b&gt; &amp; bye" in html.get_content()
    assert "<img" not in html.get_content()
    assert mail["Bcc"] is None
    assert "\n" not in mail["Subject"]


async def test_a_rule_that_names_nobody_uses_the_settings(telling: Telling) -> None:
    async with a_mailbox(starttls=of_server(HOST)) as box:
        await configure(telling, box, email_to=["all@example.org"], subject_template="{incident} {dataset_name}")
        await mailed(telling, {})
    assert box.envelopes[0].rcpt_tos == ["all@example.org"]
    assert box.mails[0]["Subject"] == "#1 shop.orders"


async def test_nobody_to_send_it_to_is_a_failure_that_says_what_to_do(telling: Telling) -> None:
    answer = await telling.post(TEST, {"channel_type": "EMAIL", "channel_config": {}})
    assert answer["status"] == "FAILED"
    [kept] = await telling.history()
    assert (kept["status"], kept["reason"]) == ("FAILED", "refused")
    assert "set email_to in the rule or in the e-mail settings" in kept["error_message"]


async def test_without_settings_a_mail_goes_to_the_console(telling: Telling, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "headgate.alerts.console"):
        await mailed(telling)
    assert "mail to data@example.org, oncall@example.org, boss@example.org: [CRITICAL] RowCountDrop" in caplog.text
    assert await telling.outcomes() == [("SENT", None)]


async def test_mails_are_written_to_the_log_however_little_else_is(
    telling: Telling, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    caplog.handler.setLevel(logging.NOTSET)
    await mailed(telling)
    assert "mail to data@example.org" in caplog.text


async def test_a_mail_that_cannot_be_written_is_refused_with_what_to_check(telling: Telling) -> None:
    async with a_mailbox(starttls=of_server(HOST)) as box:
        await configure(telling, box)
        # As a row may be that was written by hand.
        await telling.db.execute(
            "UPDATE email_settings SET sender = 'x' || chr(10) || 'y' WHERE organization_id = $1", telling.org
        )
        await mailed(telling)
    [kept] = await telling.history()
    assert (kept["status"], kept["reason"]) == ("FAILED", "refused")
    assert "the mail could not be written (ValueError): check addresses" in kept["error_message"]
    assert box.envelopes == []


async def test_a_password_that_cannot_be_sent_is_no_crash(telling: Telling) -> None:
    async with a_mailbox(starttls=of_server(HOST)) as box:
        await configure(telling, box, password="pässwörter")
        await mailed(telling)
    [kept] = await telling.history()
    assert (kept["status"], kept["reason"]) == ("FAILED", "refused")
    assert kept["error_message"] == "user and password have to be ASCII for this mail server"


async def test_a_wrong_password_is_final_and_is_not_repeated(telling: Telling) -> None:
    async with a_mailbox(starttls=of_server(HOST)) as box:
        await configure(telling, box, password="wr0ngs3cret")
        await mailed(telling)
        await telling.hurry()
    [kept] = await telling.history()
    assert (kept["status"], kept["reason"], kept["attempts"]) == ("FAILED", "refused", 1)
    assert "535" in kept["error_message"]
    assert "wr0ngs3cret" not in await telling.everything()


async def test_a_server_that_is_busy_is_tried_again_with_the_same_message_id(telling: Telling) -> None:
    async with a_mailbox(starttls=of_server(HOST), says=["451 try later", "250 ok"]) as box:
        await configure(telling, box)
        await mailed(telling)
        [kept] = await telling.history()
        assert (kept["reason"], kept["error_message"]) == ("retrying", "the mail server answered 451: try later")
        await telling.hurry()
    assert await telling.outcomes() == [("SENT", None)]
    assert len({mail["Message-ID"] for mail in box.mails}) == 1


async def test_a_server_that_refuses_for_good_is_not_tried_again(telling: Telling) -> None:
    async with a_mailbox(starttls=of_server(HOST), says=["554 this is spam"]) as box:
        await configure(telling, box)
        await mailed(telling)
        await telling.hurry()
    [kept] = await telling.history()
    assert (kept["reason"], len(box.envelopes)) == ("refused", 1)
    assert kept["response_payload"] == {"code": 554, "message": "this is spam"}


async def test_one_refused_recipient_does_not_keep_the_others_from_hearing(telling: Telling) -> None:
    refuses = {"oncall@example.org": "550 no such user"}
    async with a_mailbox(starttls=of_server(HOST), refuses=refuses) as box:
        await configure(telling, box)
        await mailed(telling)
    [kept] = await telling.history()
    assert kept["status"] == "SENT"
    assert kept["response_payload"]["refused"] == {"oncall@example.org": "550 no such user"}
    assert box.envelopes[0].rcpt_tos == ["data@example.org", "boss@example.org"]


async def test_a_certificate_of_somebody_else_ends_it_before_the_password(telling: Telling) -> None:
    async with a_mailbox(starttls=of_server("other.example.org")) as box:
        await configure(telling, box)
        await mailed(telling)
    [kept] = await telling.history()
    assert (kept["status"], kept["reason"]) == ("FAILED", "refused")
    assert kept["error_message"].startswith("no secure connection")
    assert box.logins == []


async def test_a_server_without_starttls_gets_no_password(telling: Telling) -> None:
    async with a_mailbox() as box:
        await configure(telling, box)
        await mailed(telling)
    assert box.envelopes == []
    [kept] = await telling.history()
    assert (kept["status"], kept["reason"]) == ("FAILED", "refused")
    assert "STARTTLS" in kept["error_message"]


async def test_a_relay_of_the_own_network_needs_no_login(telling: Telling) -> None:
    async with a_mailbox() as box:
        await configure(telling, box, tls="none", username=None, password=None, **{"from": "a@example.org"})
        await mailed(telling)
    assert await telling.outcomes() == [("SENT", None)]
    assert len(box.envelopes) == 1


@contextmanager
def a_dripping_server() -> Iterator[int]:
    """Greets byte by byte and never ends: no single read takes long."""
    listener = socket.create_server(("127.0.0.1", 0))
    stopped = threading.Event()

    def drip() -> None:
        try:
            connection, _ = listener.accept()
            connection.sendall(b"220-")
            while not stopped.wait(0.05):
                connection.sendall(b"x")
        except OSError:
            return

    threading.Thread(target=drip, daemon=True).start()
    yield listener.getsockname()[1]
    stopped.set()
    listener.close()


async def test_a_server_that_never_comes_to_an_end_is_hung_up_on(telling: Telling) -> None:
    guard = Guard(telling.settings.alert_allow_private, resolve=here)
    telling.channels = channels_by(telling, guard, timeout_s=0.3, verify=of_client(HOST))
    with a_dripping_server() as port:
        await configure(telling, port)
        await mailed(telling)
    [kept] = await telling.history()
    assert (kept["reason"], kept["error_message"]) == ("retrying", "no answer within 0.9 s")


async def test_a_mail_server_in_a_private_network_is_refused(telling: Telling) -> None:
    async def inside(host: str, port: int) -> Sequence[str]:
        return ["10.0.0.25"]

    telling.channels = channels_by(telling, Guard((), resolve=inside))
    await configure(telling, 25)
    await mailed(telling)
    [kept] = await telling.history()
    assert (kept["status"], kept["reason"]) == ("FAILED", "refused")
    assert "leads to 10.0.0.25, which is not a public address" in kept["error_message"]


async def test_a_sample_can_be_mailed(telling: Telling) -> None:
    answer = await telling.post(TEST, {"channel_type": "EMAIL", "channel_config": TO})
    assert (answer["status"], answer["response_payload"]["backend"]) == ("SENT", "console")
