"""Promises of the report, in a real browser: its numbers are those of the tables, and nothing in it does harm."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.model.errors import BadConfig
from headrace.pipeline.data_dir import DataDir
from headrace.pipeline.report.report import read_again, write_report
from tests.pipeline.data_dirs import T0, failed_jobs, us, window, write_stats, write_table
from tests.support.browser import ABOUT_BLANK, Browser

M = 60_000
HOSTILE = (
    "</script></style></title><script>document.title='ran'</script><img src=//x.example/y onerror=alert(1)>\"'&\x00"
)


MAIL = {"done": 5, "retried": 2, "dead": 1, "deliveries": 8, "opened": 10, "backlog": 4}
REPORTS = {"done": 1, "deliveries": 1, "opened": 2, "backlog": 1}


def fill(data_dir: DataDir) -> None:
    write_stats(
        data_dir,
        [
            window(T0, "acme", "mail", HOSTILE, **MAIL, waits=[10, 20, 30, 40], runs=[100, 200, 300, 400]),
            window(T0, "acme", "reports", "monthly", **REPORTS, waits=[7], runs=[90_000]),
            window(T0 + M, "acme", "mail", HOSTILE, done=4_000, stalled=1, deliveries=4_001, backlog=0),
            window(
                T0 + M, "globex", "mail", HOSTILE, done=7, deliveries=7, opened=9, backlog=2, waits=[5], runs=[1_500]
            ),
            window(T0 + 3 * M, "globex", "mail", HOSTILE, dead=2, expired=1, deliveries=1, backlog=0),
        ],
    )
    write_table(
        data_dir,
        "errors",
        [*failures("f1", "acme", 3, 1, 2), *failures("f1", "globex", 4, 0, 4), *failures("f2", "acme", 2, 2, 2)],
    )
    write_table(data_dir, "usage", [used(20, "acme", 100), used(21, "acme", 50_000), used(21, "globex", 2_000)])


def failures(fingerprint: str, tenant: str, count: int, deaths: int, jobs: int) -> list[dict[str, Any]]:
    names = {"fingerprint": fingerprint, "tenant": tenant, "error_class": "OSError", "template": HOSTILE + fingerprint}
    job = {"queue": "mail", "id": f"{tenant}-{HOSTILE}", "kinds": ["send"], "failures": count, "deaths": deaths}
    times = {"first_seen": us(T0), "last_seen": us(T0 + count * 1_000)}
    return failed_jobs(names | job | times, jobs, HOSTILE)


def used(day: int, tenant: str, run_ms: int) -> dict[str, Any]:
    counts = {"enqueued": 1_234, "done": 1_200, "dead": 3, "deliveries": 1_300, "payload_bytes": 2_500}
    return {"day": date(2026, 9, day), "tenant": tenant, "queue": "mail", "run_ms": run_ms} | counts


@pytest.fixture(scope="module")
def report(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    data_dir = DataDir(tmp_path_factory.mktemp("headrace-data"))
    fill(data_dir)
    return write_report(spark, data_dir, title=f"Water {HOSTILE}", now_ms=T0 + 5 * M)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as running:
        yield running


def table(browser: Browser, title: str) -> list[list[str]]:
    """The rows of the first table under a heading."""
    script = """
        [...[...document.querySelectorAll("main h2")].find(h => h.textContent === "%s").closest(".card")
        .querySelectorAll("table")[0].rows].map(row => [...row.cells].map(cell => cell.textContent))
    """
    rows: list[list[str]] = browser.run(script % title)
    return rows


def texts(browser: Browser, selector: str) -> list[str]:
    found: list[str] = browser.run(f"[...document.querySelectorAll({selector!r})].map(found => found.textContent)")
    return found


def pick(browser: Browser, name: str) -> None:
    script = "new Promise(done => {{ addEventListener('hashchange', done, {{once: true}}); pick.value = '{}';"
    browser.run(script.format(name) + " pick.dispatchEvent(new Event('change')); })")


def test_the_numbers_of_every_chart_are_those_of_the_tables(report: Path, browser: Browser) -> None:
    browser.open(report)

    assert texts(browser, ".tile h2") == [
        "Done",
        "Failed attempts",
        "Dead",
        "Wait, p95",
        "Run, p95",
        "Backlog at the end",
    ]
    assert texts(browser, ".tile .figure") == ["4,013", "5", "3", "40 ms", "1 m 30 s", "1"]
    times = [f"2026-09-21 14:{minute}:00" for minute in (14, 15, 16, 17)]
    assert table(browser, "Throughput") == [
        ["from (UTC)", "done", "retried", "stalled", "dead"],
        [times[0], "6", "2", "0", "1"],
        [times[1], "4,007", "0", "1", "0"],
        [times[2], "0", "0", "0", "0"],
        [times[3], "0", "0", "0", "2"],
    ]
    assert [row[1:] for row in table(browser, "Waiting")[1:3]] == [
        ["20 ms", "40 ms", "40 ms"],
        ["5 ms", "5 ms", "5 ms"],
    ]
    assert [row[1:] for row in table(browser, "Running")[1:]] == [
        ["300 ms", "1 m 30 s", "1 m 30 s"],
        ["1.5 s", "1.5 s", "1.5 s"],
        ["–", "–", "–"],
        ["–", "–", "–"],
    ]
    assert [row[1:] for row in table(browser, "Backlog")] == [
        ["acme", "globex"],
        ["5", "0"],
        ["1", "2"],
        ["1", "2"],
        ["1", "0"],
    ]
    assert [row[2:] for row in table(browser, "Slowest kinds")[1:]] == [
        ["1 m 30 s", "1 m 30 s", "1 m 30 s", "1 m 30 s", "7 ms", "1", "0%"],
        ["300 ms", "1.5 s", "1.5 s", "1.5 s", "40 ms", "4,017", "0.12%"],
    ]
    assert texts(browser, ".failures .count") == ["7", "2"]
    assert texts(browser, ".failures summary") == [
        "1 death · 6 jobs · last seen 2026-09-21 14:14:04",
        "2 deaths · 2 jobs · last seen 2026-09-21 14:14:02",
    ]
    assert table(browser, "Usage")[1:] == [
        ["acme", "", "50.1 s", "2,468", "2,400", "6", "5 KB"],
        ["globex", "", "2.0 s", "1,234", "1,200", "3", "2.5 KB"],
    ]


def test_a_tenant_or_a_queue_can_be_picked_and_shows_its_own_numbers(report: Path, browser: Browser) -> None:
    browser.open(report)
    assert browser.run("[...pick.options].map(option => option.value)") == [
        "",
        "acme",
        "acme/mail",
        "acme/reports",
        "globex",
    ]

    pick(browser, "globex")
    of_tenant = texts(browser, ".tile .figure"), texts(browser, ".failures .count"), table(browser, "Usage")[1:]
    pick(browser, "acme/mail")
    of_queue = texts(browser, ".tile .figure"), table(browser, "Backlog")

    assert of_tenant == (
        ["7", "1", "2", "5 ms", "1.5 s", "0"],
        ["4"],
        [["2026-09-21", "", "2.0 s", "1,234", "1,200", "3", "2.5 KB"]],
    )
    assert of_queue[0] == ["4,005", "4", "1", "40 ms", "400 ms", "0"]
    assert [row[1:] for row in of_queue[1]] == [["mail"], ["4"], ["0"], ["0"], ["0"]]


@pytest.mark.parametrize(
    ("place", "name", "done"),
    [("#globex", "globex", "7"), ("#acme%2Fmail", "acme/mail", "4,005"), ("#%", "", "4,013"), ("#nobody", "", "4,013")],
)
def test_an_address_that_names_a_view_opens_it_and_any_other_opens_everything(
    report: Path, browser: Browser, place: str, name: str, done: str
) -> None:
    browser.open(ABOUT_BLANK)  # a change of the place alone would load nothing

    browser.open(report.as_uri() + place)

    assert (browser.run("pick.value"), texts(browser, ".tile .figure")[0]) == (name, done)
    assert browser.complaints == []


def test_the_page_asks_for_nothing_and_says_nothing_on_the_console(report: Path, browser: Browser) -> None:
    browser.open(report)
    pick(browser, "acme")

    requests, complaints = browser.requests, browser.complaints

    assert requests == [report.as_uri()]
    assert complaints == []


def test_names_and_messages_are_shown_as_they_are_and_never_run(report: Path, browser: Browser) -> None:
    shown = HOSTILE.replace("\x00", "\ufffd")

    browser.open(report)

    assert browser.run("document.title") == f"Water {shown}"
    assert browser.run("[document.scripts.length, document.images.length]") == [1, 0]
    assert texts(browser, ".failures .what code") == [f"{shown}f1", f"{shown}f2"]
    assert texts(browser, ".failures td:nth-child(3)")[0] == f"globex-{shown}"


def test_a_script_that_is_not_the_pages_own_does_not_run(report: Path, browser: Browser, tmp_path: Path) -> None:
    spoilt = tmp_path / "spoilt.html"
    planted = "<script>document.title = 'ran'</script><img src='//x.example/y' onerror=\"document.title = 'ran'\">"
    spoilt.write_text(report.read_text().replace("<footer>", f"<footer>{planted}"))

    browser.open(spoilt)

    assert browser.run("document.title").startswith("Water")
    assert len(browser.complaints) >= 2


def test_the_numbers_under_the_mouse_and_the_keys_are_shown(report: Path, browser: Browser) -> None:
    browser.open(report, height=700)
    box = browser.run("document.querySelector('.drawing').getBoundingClientRect().toJSON()")

    browser.move_mouse(box["left"] + 0.3 * box["width"], box["top"] + 20)
    under_mouse = browser.run("[...tip.children].map(line => line.innerText.split('\\n').join(' '))")
    browser.run("document.querySelector('.drawing').focus()")
    browser.press("ArrowRight")
    browser.press("ArrowRight")
    browser.press("ArrowRight")
    by_key = browser.run("tip.children[0].textContent")

    assert under_mouse == ["2026-09-21 14:15:00", "dead 0", "stalled 1", "retried 0", "done 4,007"]
    assert by_key == "2026-09-21 14:17:00"


@pytest.mark.parametrize("width", [320, 420, 800, 1280, 2000])
def test_the_page_fits_every_width(report: Path, browser: Browser, width: int) -> None:
    browser.open(report, width=width)

    assert browser.run("document.documentElement.scrollWidth") == width


def test_the_page_can_be_read_without_scripts(report: Path, browser: Browser) -> None:
    browser.ask("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(report)
        seen = texts(browser, ".tile .figure"), browser.run("document.querySelector('.picker').checkVisibility()")
    finally:
        browser.ask("Emulation.setScriptExecutionDisabled", value=False)

    assert seen == (["4,013", "5", "3", "40 ms", "1 m 30 s", "1"], False)


def test_what_is_missing_is_named_with_the_command_that_writes_it(
    spark: SparkSession, browser: Browser, tmp_path: Path
) -> None:
    data_dir = DataDir(tmp_path)
    rows = [
        window(T0, "acme", "mail", kind, done=1, deliveries=3, waits=[9, 9, most], runs=[0])
        for kind, most in (("a", 30), ("b", 50))
    ]
    write_stats(data_dir, rows)

    browser.open(write_report(spark, data_dir))

    assert table(browser, "Waiting")[1][1:] == ["9 ms", "50 ms", "50 ms"]
    assert texts(browser, ".nothing") == [
        "Unknown: the journal's beginning is gone, and with it what was open then.",
        "There is no table of errors yet; headrace pipeline errors writes it.",
        "There is no table of usage yet; headrace pipeline usage writes it.",
    ]


def test_a_folder_without_tables_is_refused_with_what_to_do(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=r"no table in .* run headrace pipeline stats, jobs, errors and usage first"):
        write_report(spark, DataDir(tmp_path))

    assert list(tmp_path.iterdir()) == []


def test_a_table_that_is_replaced_while_it_is_read_is_read_again(spark: SparkSession, tmp_path: Path) -> None:
    data_dir = DataDir(tmp_path)
    write_table(data_dir, "usage", [used(20, "acme", 1)])
    [file] = data_dir.table("usage").rglob("*.parquet")

    def ask() -> int:
        frame = spark.read.parquet(str(data_dir.table("usage")))
        if file.exists():  # the first time: the new table has files of other names
            file.rename(file.with_name("part-1.parquet"))
        return len(frame.collect())

    assert read_again(ask) == 1


CONTRASTS = """
(() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (rgb) => rgb.slice(0, 3).map((c) => c / 255)
    .map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, n) => sum + c * [0.2126, 0.7152, 0.0722][n], 0);
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const [r, g, b, a] = parse(getComputedStyle(at).backgroundColor);
      if (a === undefined || a === 1) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const found = {};
  for (const details of document.querySelectorAll("details")) details.open = true;
  for (const element of document.body.querySelectorAll("*")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility() || element.closest("script, style, template")) continue;
    const [a, b] = [light(parse(getComputedStyle(element).color)), light(ground(element))].sort((x, y) => y - x);
    const name = `${element.tagName}.${element.className} ${element.parentElement.className}`;
    found[name] = Math.min(found[name] ?? 99, (a + 0.05) / (b + 0.05));
  }
  return found;
})()
"""


@pytest.mark.parametrize("dark", [False, True])
def test_every_text_has_a_contrast_that_can_be_read(report: Path, browser: Browser, dark: bool) -> None:
    browser.open(report, dark=dark)

    contrasts: dict[str, float] = browser.run(CONTRASTS)

    assert {"P. ", "SPAN. x", "SPAN. y"} <= contrasts.keys()
    assert {name: value for name, value in contrasts.items() if value < 4.5} == {}


@pytest.mark.parametrize("dark", [False, True])
def test_p99_is_the_strongest_line(report: Path, browser: Browser, dark: bool) -> None:
    browser.open(report, dark=dark)
    script = """
        ["p50", "p95", "p99"].map((name) => {
          const style = getComputedStyle(document.querySelector(`.drawing .line.${name}:not(.dots)`));
          const ground = document.querySelector(".card");
          const sum = (text) => text.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0);
          const away = Math.abs(sum(style.stroke) - sum(getComputedStyle(ground).backgroundColor));
          return [parseFloat(style.strokeWidth), away];
        })
    """

    looks = browser.run(script)

    assert looks == sorted(looks)
    assert [away for _, away in looks] == sorted(away for _, away in looks)
    assert len({width for width, _ in looks}) == 3


def test_a_tenant_has_one_place_and_one_colour_in_every_chart_and_list(report: Path, browser: Browser) -> None:
    browser.open(report)
    script = """
        (() => {
          const card = (title) => [...document.querySelectorAll("main h2")].find(
            (h) => h.textContent === title).closest(".card");
          const colour = (element) => getComputedStyle(element).backgroundColor;
          return [
            [...pick.options].map((option) => option.value).filter((name) => name && !name.includes("/")),
            [...card("Backlog").querySelectorAll(".legend li")].map(
              (item) => [item.querySelector("bdi").textContent, colour(item.querySelector(".swatch"))]),
            [...card("Usage").querySelectorAll("tbody tr")].map(
              (row) => [row.cells[0].textContent, colour(row.querySelector(".bar i"))]),
          ];
        })()
    """

    picker, backlog, usage = browser.run(script)

    assert picker == [name for name, _ in backlog] == [name for name, _ in usage] == ["acme", "globex"]
    assert backlog == usage


def test_a_kind_that_headrace_enqueues_itself_is_marked(spark: SparkSession, browser: Browser, tmp_path: Path) -> None:
    data_dir = DataDir(tmp_path)
    kinds = ("headrace.fail", "headrace", "send")
    write_stats(data_dir, [window(T0, "acme", "mail", kind, deliveries=1, waits=[1], runs=[10]) for kind in kinds])

    browser.open(write_report(spark, data_dir))

    assert sorted(row[0] for row in table(browser, "Slowest kinds")[1:]) == [
        "headrace",
        "headrace.failinternal",
        "send",
    ]
