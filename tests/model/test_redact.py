"""Redaction: texts lose users, passwords and secret options of URLs."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.redact import redact, redact_url


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://me:hunter2@db.example:6379/0?password=x", "redis://db.example:6379/0"),
        ("postgres://me@db.example/work?sslpassword=x", "postgres://db.example/work"),
        ("redis+sentinel://:hunter2@a:1,b:2/jobs", "redis+sentinel://a:1,b:2/jobs"),
        ("redis://me:p@ss@db.example", "redis://db.example"),
        ("sqlite:////var/lib/a@b=c.db?profile=fast", "sqlite:////var/lib/a@b=c.db"),
        ("memory://", "memory://"),
        ("redis://[me:hunter2@db.example", "an unreadable URL"),
    ],
)
def test_a_url_is_shown_without_user_password_and_options(url: str, shown: str) -> None:
    assert redact_url(url) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no secret here", "no secret here"),
        ("cannot reach redis://me:hunter2@db:6379/0; is it up?", "cannot reach redis://…@db:6379/0; is it up?"),
        ("'postgres://me:p@ss:w@db/x' and redis://:pw@h", "'postgres://…@db/x' and redis://…@h"),
        ("postgres://h/x?sslpassword=abc&sslmode=require", "postgres://h/x?sslpassword=…&sslmode=require"),
        ("password=abc host=h", "password=… host=h"),
        ("PGPASSFILE=/home/me/.pgpass, done", "PGPASSFILE=…, done"),
        ("api_token=abc; access-token=def", "api_token=…; access-token=…"),
        ("there is no file /tmp/a@b=c.db in /tmp", "there is no file /tmp/a@b=c.db in /tmp"),
        ("sqlite:////tmp/a@b.db?profile=fast", "sqlite:////tmp/a@b.db?profile=fast"),
        ("timeout=30s max_attempts=5", "timeout=30s max_attempts=5"),
        ("write to me@example.org", "write to me@example.org"),
    ],
)
def test_a_text_keeps_everything_but_the_secrets(text: str, shown: str) -> None:
    assert redact(text) == shown


@given(st.text(min_size=1), st.text(min_size=1), st.sampled_from(["redis", "postgres", "redis+cluster"]))
def test_no_user_and_no_password_comes_through(user: str, password: str, scheme: str) -> None:
    user, password = (quote(f"<{each}>".encode("utf-8", "replace"), safe="") for each in (user, password))
    url = f"{scheme}://{user}:{password}@db.example:1/0?password={password}"

    for shown in (redact_url(url), redact(url), redact(f"lost {url}, then {url!r}")):
        assert user not in shown
        assert password not in shown
        assert "db.example:1/0" in shown
    assert redact(redact(url)) == redact(url)
