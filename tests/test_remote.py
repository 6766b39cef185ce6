"""Sources that smart_open opens: files of any name, URLs, and storage that needs more packages."""

import gzip
import io
import tomllib
import zipfile
from pathlib import Path

import pytest

import embedx
from embedx.errors import EmbedxError
from embedx.text import opening
from embedx.text.encode import encode_sources
from embedx.text.opening import AGENT, open_source
from embedx.text.settings import TextSettings
from embedx.text.sources import Source, find_sources
from embedx.text.streams import text_blocks
from tests.support.commands import run_command
from tests.support.notes import Notes
from tests.support.refusals import refused_data
from tests.support.web_server import serving

TEXT = b"a word\nand another\n"


@pytest.fixture
def site():
    with serving() as site:
        yield site


def read(name):
    [source] = find_sources([name])
    with open_source(source) as file:
        return b"".join(text_blocks(source, file))


@pytest.mark.parametrize(
    "name",
    ["a:b.txt", "s3:x.txt", "~x.txt", "a#b?c=d.txt", "[x.txt", "two words.txt", "caf\udce9.txt"],
)
def test_a_file_of_any_name_is_opened(tmp_path, monkeypatch, name):
    (tmp_path / name).write_bytes(TEXT)
    monkeypatch.chdir(tmp_path)
    for place in (name, str(tmp_path / name)):
        with open_source(Source(place, "text", None)) as file:
            assert file.read() == TEXT


def test_a_link_and_two_dots_lead_where_the_system_leads(tmp_path, monkeypatch):
    (tmp_path / "far" / "inner").mkdir(parents=True)
    (tmp_path / "far" / "text.txt").write_bytes(TEXT)
    (tmp_path / "link").symlink_to(tmp_path / "far" / "inner")
    monkeypatch.chdir(tmp_path)
    with open_source(Source("link/../text.txt", "text", None)) as file:
        assert file.read() == TEXT


def test_a_url_is_read_as_it_is_stored_and_by_a_named_client(site):
    site.contents = {"/text.gz": gzip.compress(TEXT), "/text": TEXT}
    assert read(f"{site.url}/text.gz") == TEXT
    assert read(f"{site.url}/text?token=secret") == TEXT
    assert set(site.agents) == {AGENT}


def test_a_text_of_a_server_that_comes_from_the_cache_is_dated(site, tmp_path):
    site.contents.update({"/a.txt": TEXT, "/b.txt": TEXT})
    urls = find_sources([f"{site.url}/a.txt", f"{site.url}/b.txt"])
    first = Notes()
    again = Notes()
    for progress in (first, again):
        with encode_sources(urls, TextSettings(), progress, tmp_path) as corpus:
            assert corpus.n_tokens == 8
    assert not any("token cache" in note for note in first.notes if "the text of" in note)
    (dated,) = (note for note in again.notes if "the text of" in note)
    assert dated.startswith(f"{site.url}/a.txt and 1 other URL: the text of 20")


def test_a_zip_archive_on_a_server_is_read_from_its_end(site):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.txt", TEXT)
        archive.writestr("b.txt", TEXT * 100_000)
    site.contents = {"/texts.zip": packed.getvalue()}
    assert read(f"{site.url}/texts.zip").split() == TEXT.split() * 100_001


def test_a_connection_that_ends_early_is_damage(site):
    site.contents = {"/text": TEXT}
    site.missing_bytes = 7
    with refused_data("text", quoting="19 of 26 bytes"):
        read(f"{site.url}/text")


def test_errors_of_remote_files_hide_the_secrets_of_their_url(site):
    for url, place, reason in (
        (f"{site.url}/missing?token=secret", f"{site.url}/missing?token=...", "HTTP 404"),
        (
            "http://user:secret@127.0.0.1:1/x?token=secret",
            "http://127.0.0.1:1/x?token=...",
            "Connection refused",
        ),
        (
            "http://no.such.host.invalid/x?token=secret",
            "http://no.such.host.invalid/x?token=...",
            "ame",  # resolution, in the system's words
        ),
    ):
        with refused_data(place, quoting=reason) as caught:
            read(url)
        assert "secret" not in str(caught.value)


def test_models_pages_and_messages_keep_the_secrets_of_every_url(site, tmp_path):
    rows = b"".join(b"__label__%c word%c\n" % (c, c) for c in b"ab" * 30)
    site.contents = {
        "/rows.txt": rows,
        "/v.vec": b"2 2\na 1 2\nb 3 4\n",
        "/bad.vec": b"1 2\na x y\n",
    }
    address = site.url.replace("//", "//user:secret@")
    url = {name: f"{address}/{name}?token=secret" for name in ("rows.txt", "v.vec", "bad.vec")}
    (tmp_path / "text.txt").write_text("a b\n" * 30)
    (tmp_path / "rows.txt").write_bytes(rows)

    classify = f"classify rows.txt --validation {url['rows.txt']} --output labels --epochs 2"
    train = f"train text.txt --start {url['v.vec']} --output words --epochs 1 --sample 0"
    runs = [
        run_command(tmp_path, *command.split())
        for command in (
            classify,
            train,
            f"report labels --test {url['rows.txt']} --output page.html",
            "info labels",
            "info words",
        )
    ]
    assert [completed.returncode for completed in runs] == [0] * 5
    assert embedx.load(url["v.vec"]).facts["source"] == f"{site.url}/v.vec?token=..."
    refused = [
        run_command(tmp_path, *command.split(), check=False)
        for command in (
            f"train text.txt --vocab {url['v.vec']} --output other",
            f"train text.txt --start {url['bad.vec']} --output other",
            f"nn {url['bad.vec']} a",
        )
    ]
    assert [completed.returncode for completed in refused] == [2] * 3
    for completed in runs + refused:
        assert "secret" not in completed.stdout + completed.stderr
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or b"secret" not in file.read_bytes()


@pytest.mark.parametrize(
    ("url", "module", "extra"),
    [
        ("s3://bucket/text.txt", "boto3", "s3"),
        ("gs://bucket/text.txt", "google.cloud.storage", "gcs"),
        ("azure://container/text.txt", "azure.storage.blob", "azure"),
        ("sftp://host/text.txt", "paramiko", "ssh"),
    ],
)
def test_storage_that_needs_more_packages_names_the_command(url, module, extra):
    try:
        __import__(module)
    except ImportError:
        with pytest.raises(EmbedxError) as caught:
            read(url)
        assert str(caught.value).endswith(f'pip install "embedx[{extra}]"')
    else:
        pytest.skip(f"{module} is installed")


def test_another_scheme_is_named_with_those_that_are_read():
    with refused_data("gopher://host/text.txt", quoting="file, http,"):
        read("gopher://host/text.txt")


def test_every_extra_is_one_that_can_be_installed():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))
    assert set(opening.EXTRAS.values()) <= set(project["project"]["optional-dependencies"])
