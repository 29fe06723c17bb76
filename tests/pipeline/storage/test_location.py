"""Promises of locations: where tables may lie, what is refused, and that no credentials are in a text."""

import pickle
from pathlib import Path

import pytest

from headrace.model.errors import BadConfig
from headrace.pipeline.storage.location import Location


def test_a_path_becomes_absolute_and_a_url_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert Location.parse("data").child("usage") == Location(str(tmp_path / "data" / "usage"))
    assert Location.parse(f"file://{tmp_path}").path == tmp_path
    assert str(Location.parse("s3://bucket/data/").child("usage")) == "s3://bucket/data/usage"
    assert str(Location.parse("s3a://bucket/data")) == "s3://bucket/data"
    assert Location.parse("abfss://box@account.dfs.core.windows.net/data").is_local is False


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("hdfs://name:9000/data", "is on HDFS, which is not supported"),
        ("ftp://host/data", "scheme 'ftp' is not supported"),
        ("s3:///data", "names no bucket"),
        ("s3://key:secret@bucket/data", "must not hold credentials"),
        ("s3://bucket/data?region=here", "takes no options"),
        ("abfss://account/data", "names container and account"),
        ("s3://bucket/day=*", "takes for a pattern"),
        ("/data/{a,b}", "takes for a pattern"),
    ],
)
def test_what_cannot_be_used_is_refused_without_its_secrets(text: str, reason: str) -> None:
    with pytest.raises(BadConfig, match=reason) as refused:
        Location.parse(text)

    assert "key:secret" not in str(refused.value)


def test_a_path_is_asked_of_local_folders_only() -> None:
    with pytest.raises(BadConfig, match="is on object storage, and a folder on a local disk is needed"):
        _ = Location.parse("s3://bucket/data").path


def test_a_location_travels_as_text_and_finds_its_server_where_it_arrives(bucket: str) -> None:
    copy = pickle.loads(pickle.dumps(Location.parse(bucket).child("note")))  # noqa: S301 - our own

    files, path = copy.filesystem()
    with files.open_output_stream(path) as stream:
        stream.write(b"here")

    files, path = Location.parse(bucket).child("note").filesystem()
    with files.open_input_stream(path) as stream:
        assert stream.read() == b"here"
    assert b"not-a-secret" not in pickle.dumps(copy)
