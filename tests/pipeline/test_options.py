"""Promises of the options: what makes no sense is refused with a sentence to act on, and no secret is told."""

from pathlib import Path

import pytest

from headrace.model.errors import BadConfig, HeadraceError
from headrace.pipeline.source.options import Options


@pytest.fixture
def url(tmp_path: Path) -> str:
    (tmp_path / "jobs.db").touch()
    return f"sqlite:///{tmp_path}/jobs.db"


def test_only_the_url_must_be_given(url: str) -> None:
    assert Options.parse({"url": url}) == Options(url=url, tenant="default", queues=(), partitions_min=1)


def test_names_of_options_may_be_written_in_any_case(url: str) -> None:
    options = Options.parse({"URL": url, "minpartitions": "3", "Tenant": "*", "QUEUE": "a, b.fail,a"})

    assert options == Options(url=url, tenant="*", queues=("a", "b.fail"), partitions_min=3)


def test_a_url_may_hold_settings_and_escapes(tmp_path: Path) -> None:
    (tmp_path / "my jobs.db").touch()

    url = f"sqlite:///{tmp_path}/my%20jobs.db?profile=fast"

    assert Options.parse({"url": url}).url == url


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"what": "jobs"}, "option what is 'jobs'; the only thing to read is 'journal'"),
        ({"startOffset": "1"}, "has no option 'startOffset'; known options: what, url, tenant, queue, minPartitions"),
        ({"path": "/x"}, "has no option 'path'"),
        ({"tenant": "Big Co"}, "tenant 'Big Co' is not a name"),
        ({"queue": " , "}, "option queue is ','; give a name, several names with commas between them, or"),
        ({"queue": "a,*"}, "option queue is 'a,*'"),
        ({"minPartitions": "0"}, "option minPartitions is '0'; give a whole number from 1 to 10,000"),
        ({"minPartitions": "many"}, "option minPartitions is 'many'"),
        ({"minPartitions": "²"}, "option minPartitions is '²'"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(url: str, given: dict[str, str], sentence: str) -> None:
    with pytest.raises(HeadraceError) as refused:
        Options.parse({"url": url, **given})

    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("", "needs option url; give the store's, for example sqlite:///"),
        ("memory://", "a memory:// store lives inside one process"),
        ("redis://me:hunter2@host/0", "Spark can read sqlite:///path only; the url has redis://"),
        ("me:hunter2@host", "Spark can read sqlite:///path only; the url has no scheme"),
        ("sqlite://me:hunter2@host/x.db", "names a file after three slashes"),
        ("sqlite:///", "names a file after three slashes"),
        ("sqlite:///gone/gone.db?key=hunter2", "gone/gone.db; check the path"),
    ],
)
def test_a_url_that_cannot_be_read_is_refused_without_telling_a_password(url: str, sentence: str) -> None:
    with pytest.raises(BadConfig) as refused:
        Options.parse({"url": url})

    assert sentence in str(refused.value)
    assert "hunter2" not in str(refused.value)
