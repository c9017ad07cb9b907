"""`mpc report` writes pages of charts from real and from hostile metrics.

SPDX-License-Identifier: Apache-2.0
"""

import html.parser
import json
import re

import pytest

import mpctest


class Page(html.parser.HTMLParser):
    """Collects what a browser shows of a page."""

    def __init__(self, text):
        super().__init__()
        self.elements = []  # (tag, attributes)
        self.rows = {}  # first cell: other cells
        self.charts = {}  # title: data
        self.text = text
        self.words = []
        self._open = []
        self._row = None
        self._title = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "path", "circle", "i"):
            self._open.append(tag)
        if tag == "tr":
            self._row = []
        elif tag in ("th", "td"):
            self._row.append("")

    def handle_endtag(self, tag):
        if tag in ("path", "circle", "i"):
            return
        assert self._open.pop() == tag
        if tag == "tr":
            self.rows[self._row[0]] = self._row[1:]

    def handle_data(self, data):
        if not self._open:
            return
        if self._open[-1] in ("th", "td"):
            self._row[-1] += data
        elif self._open[-1] == "h2":
            self._title = data.strip()
        elif self._open[-1] == "script" and data.startswith('{"frame"'):
            self.charts[self._title] = json.loads(data)
        elif self._open[-1] != "style":
            self.words.append(data)

    def points(self, title, line=0):
        return self.charts[title]["lines"][line]["points"]


def report(folder, *runs, **options):
    mpctest.mpc_ok("report", *runs, "-o", folder / "r.html", **options)
    return Page((folder / "r.html").read_text())


def write(path, *events, end="\n"):
    path.write_text("\n".join(map(json.dumps, events)) + end)
    return path


def step(number, **values):
    return {"event": "train", "step": number, "loss": 1.0, **values}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Returns the metrics of a run with everything that a report shows."""
    folder = tmp_path_factory.mktemp("run")
    mpctest.mpc_ok(
        *("train", mpctest.MODELS / "mlp.onnx", *mpctest.TARGET),
        *("--data", mpctest.DIGITS / "digits-train.npz"),
        *("--val-data", mpctest.DIGITS / "digits-test.npz"),
        *("--loss", "softmax_cross_entropy", "--optimizer", "adamw"),
        *("--batch-size", 32, "--epochs", 2, "--metric", "f1"),
        *("--precision", "16-mixed", "--gradient-clip-val", 1, "--quiet"),
        *("--metrics", folder / "m.jsonl", "--output", folder / "o.npz"),
    )
    return folder / "m.jsonl"


def test_a_run_has_charts_and_tables(run, tmp_path):
    page = report(tmp_path, run)
    assert list(page.charts) == [
        *("Loss", "Evaluation: accuracy", "Evaluation: f1", "Learning rate"),
        *("Gradient norm", "Loss scale", "Step time"),
    ]
    events = mpctest.read_metrics(run)
    steps = [event["step"] for event in events if event["event"] == "train"]
    assert [point[0] for point in page.points("Loss")] == steps
    for chart, name in (("Learning rate", "lr"), ("Loss scale", "loss_scale")):
        values = [event[name] for event in events if event["event"] == "train"]
        drawn = [point[1] for point in page.points(chart)]
        assert drawn == pytest.approx(values, rel=1e-5)
    accuracies = [e["eval_accuracy"] * 100 for e in events if e["event"] == "eval"]
    drawn = [point[1] for point in page.points("Evaluation: accuracy")]
    assert drawn == pytest.approx(accuracies, rel=1e-5)
    assert page.rows["exit code"] == ["0 (done)"]
    assert page.rows["optimizer"] == ["adamw"]
    # Adam has no momentum, and the report shows none.
    assert "beta1" in page.rows and "momentum" not in page.rows
    assert page.rows["precision"] == ["16-mixed"]
    assert page.rows["batch size"] == ["32"]
    last = f"{accuracies[-1]:.2f} % (step 88)"
    assert page.rows["evaluation: accuracy, last"] == [last]


def test_the_page_needs_nothing_else(run, tmp_path):
    page = report(tmp_path, run)
    for tag, attributes in page.elements:
        assert tag not in ("link", "img", "iframe", "object", "base")
        assert not attributes.keys() & {"src", "href", "srcset", "action"}
    outside = re.sub(r'"http://www.w3.org/2000/svg"', "", page.text)
    assert not re.search(r"https?:|//[a-z]+\.|@import|url\(", outside)
    assert "default-src 'none'" in page.text


def test_the_same_metrics_give_the_same_page(run, tmp_path):
    first = report(tmp_path, run).text
    assert report(tmp_path, run).text == first
    assert mpctest.mpc_ok("report", run, "-o", "-").stdout == first


def test_light_and_dark(run, tmp_path):
    assert "prefers-color-scheme: dark" in report(tmp_path, run).text


def test_runs_are_compared(run, tmp_path):
    other = write(
        tmp_path / "other.jsonl",
        {"event": "start", "precision": "32-true", "batch_size": 32},
        *(step(i, lr=0.5) for i in range(1, 9)),
    )
    page = report(tmp_path, run, other)
    assert page.rows["precision"] == ["16-mixed", "32-true"]
    assert page.rows["exit code"] == ["0 (done)", "none: still running, or killed"]
    assert len(page.charts["Learning rate"]["lines"]) == 2
    labels = [a["data-label"] for _, a in page.elements if "data-label" in a]
    assert labels[:3] == ["m", "m, evaluation", "other"]


def test_runs_of_one_name_are_told_apart_by_path(tmp_path):
    runs = []
    for name in "ab":
        (tmp_path / name).mkdir()
        runs.append(write(tmp_path / name / "m.jsonl", step(1)))
    page = report(tmp_path, *runs)
    labels = [a["data-label"] for _, a in page.elements if "data-label" in a]
    assert labels[:2] == ["a", "b"]
    # Names that differ in the middle and at the end keep both parts.
    runs.append(write(tmp_path / "b" / "n.jsonl", step(1)))
    page = report(tmp_path, *runs)
    labels = [a["data-label"] for _, a in page.elements if "data-label" in a]
    assert labels[:3] == ["a/m", "b/m", "b/n"]


def test_a_sweep_has_a_folder_for_each_run(tmp_path):
    """The rates of its runs differ by magnitudes, so their axis is
    logarithmic. Four names would be too long for a heading."""
    for i, rate in enumerate((0.1, 0.01, 0.001, 0.0001)):
        folder = tmp_path / "sweep" / f"rate-{i}" / "log"
        folder.mkdir(parents=True)
        write(folder / "run.jsonl", step(1, lr=rate), step(2, lr=rate))
        (folder / "other.jsonl").write_text('{"id": "conv1"}\n')
    hidden = tmp_path / "sweep" / ".old"
    hidden.mkdir()
    write(hidden / "run.jsonl", step(1))
    process = mpctest.mpc_ok("report", ".", "-q", cwd=tmp_path / "sweep")
    assert process.stdout == ""
    page = Page((tmp_path / "sweep" / "report.html").read_text())
    labels = [a["data-label"] for _, a in page.elements if "data-label" in a]
    assert labels[:4] == ["rate-0", "rate-1", "rate-2", "rate-3"]
    assert page.charts["Learning rate"]["log"]
    assert "4 runs" in page.words


def test_a_folder_stands_for_the_metrics_in_it(tmp_path):
    (tmp_path / "run").mkdir()
    write(tmp_path / "run" / "a.jsonl", step(1))
    assert "Loss" in report(tmp_path, tmp_path / "run").charts
    write(tmp_path / "run" / "b.jsonl", step(1))
    # A report of a folder compares all runs of a sweep.
    both = report(tmp_path, tmp_path / "run")
    named = report(tmp_path, tmp_path / "run/a.jsonl", tmp_path / "run/b.jsonl")
    assert both.charts == named.charts
    (tmp_path / "none").mkdir()
    process = mpctest.mpc("report", tmp_path / "none", cwd=tmp_path)
    assert process.returncode == 3 and "has no metrics file" in process.stderr


def test_other_files_of_a_folder_are_left_out(tmp_path):
    write(tmp_path / "a.jsonl", step(1))
    (tmp_path / "chat.jsonl").write_text('{"role": "user"}\n')
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "clicks.jsonl").write_text('{"event":"click"}\n{"event":"end"\n')
    process = mpctest.mpc_ok("report", ".", cwd=tmp_path)
    assert "note: .: left out, since mpc train has not written them: " in process.stderr
    for name in ("chat", "empty", "clicks"):
        assert f"{name}.jsonl" in process.stderr
    assert "Loss" in Page((tmp_path / "report.html").read_text()).charts
    # A file that is named must be metrics, and one must remain.
    process = mpctest.mpc("report", "clicks.jsonl", cwd=tmp_path)
    assert process.returncode == 3, process.stderr
    (tmp_path / "a.jsonl").unlink()
    process = mpctest.mpc("report", ".", cwd=tmp_path)
    assert process.returncode == 3
    (tmp_path / "clicks.jsonl").unlink()
    process = mpctest.mpc("report", ".", cwd=tmp_path)
    assert process.returncode == 3 and "has no metrics file" in process.stderr


def test_the_default_is_report_html(tmp_path):
    process = mpctest.mpc_ok(
        *("report", write(tmp_path / "a.jsonl", step(1))), cwd=tmp_path
    )
    assert process.stdout == "wrote report.html\n"
    assert (tmp_path / "report.html").exists()


def test_steps_that_were_made_again_count_once(tmp_path):
    run = write(
        tmp_path / "m.jsonl",
        {"event": "start", "resumed_from": None},
        *(step(i, loss=1.0, skipped=i == 5, loss_scale=2.0) for i in range(1, 7)),
        {"event": "start", "resumed_from": 4},
        *(step(i, loss=2.0, skipped=False, loss_scale=2.0) for i in range(5, 9)),
    )
    page = report(tmp_path, run)
    assert [point[0] for point in page.points("Loss")] == list(range(1, 9))
    assert page.rows["last loss"] == ["2"]
    assert "0 skipped steps; logarithmic" in " ".join(page.words)


def test_what_is_not_finite_is_a_gap(tmp_path):
    losses = [1.0, "nan", "inf", 2.0]
    run = write(tmp_path / "m.jsonl", *(step(i, loss=v) for i, v in enumerate(losses)))
    page = report(tmp_path, run)
    assert [point[1] for point in page.points("Loss")] == [1, None, None, 2]
    (line,) = (a["d"] for t, a in page.elements if a.get("class") == "line")
    assert line.count("M") == 2
    assert not re.search(r"nan|inf", line)


def test_many_steps_become_a_band(tmp_path):
    run = write(tmp_path / "m.jsonl", *(step(i, loss=i % 10) for i in range(30000)))
    page = report(tmp_path, run)
    points = page.points("Loss")
    assert len(points) == 300
    assert all(point[1:] == [4.5, 0, 9] for point in points)
    assert any(a.get("class") == "band" for _, a in page.elements)
    assert len(page.text) < 60000


def test_a_step_that_took_very_long_does_not_hide_the_others(tmp_path):
    times = [900.0] + [1.0] * 200
    run = write(
        tmp_path / "m.jsonl", *(step(i, step_ms=ms) for i, ms in enumerate(times))
    )
    page = report(tmp_path, run)
    assert page.charts["Step time"]["y"][1] < 2
    assert "1 step above" in " ".join(page.words)


@pytest.mark.parametrize(
    "name", ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "'&amp;")
)
def test_text_from_the_file_is_only_text(name, tmp_path):
    harmless = write(
        tmp_path / "harmless.jsonl",
        {"event": "start", "target": "t", "recipe": {"loss": "l"}, "k": "v"},
        step(1),
        {"event": "eval", "step": 1, "eval_x": 1.0},
        {"event": "end", "exit_code": 7, "message": "m"},
    )
    hostile = write(
        tmp_path / "hostile.jsonl",
        {"event": "start", "target": name, "recipe": {"loss": name}, name: name},
        step(1),
        {"event": "eval", "step": 1, "eval_" + name: 1.0},
        {"event": "end", "exit_code": 7, "message": name},
    )
    page = report(tmp_path, hostile)
    tags = [tag for tag, _ in page.elements]
    assert tags == [tag for tag, _ in report(tmp_path, harmless).elements]
    assert page.rows["target"] == page.rows["loss"] == page.rows["message"] == [name]
    assert "Evaluation: " + name in " ".join(page.words) + str(page.charts.keys())


def test_the_name_of_a_file_is_only_text(tmp_path):
    page = report(tmp_path, write(tmp_path / "<b>x&.jsonl", step(1)))
    assert "<b>x&" in page.words


def test_extreme_values_are_drawn(tmp_path):
    values = [1e300, -1e300, 5e-324, 0, 1e308, -0.0]
    run = write(
        tmp_path / "m.jsonl",
        *(step(i, loss=v, lr=v, loss_scale=v) for i, v in enumerate(values)),
        step(2**53, loss=1, lr=1, loss_scale=1),
    )
    page = report(tmp_path, run)
    for tag, attributes in page.elements:
        if tag in ("path", "circle"):
            assert not re.search(r"nan|inf", " ".join(attributes.values()))


@pytest.mark.parametrize(
    "line, message",
    (
        ("step,event,loss", ':1: expected a JSON object with an "event"'),
        ("event,step,loss", "has no events of a training run"),
        ("event,step,loss\ntrain,x,1", "'step' is not the number of a step"),
        ("event,step,loss\ntrain,1,[[", ":2: 'loss' is not a number"),
        ("event,step\n" + "[" * 100000, "has no events of a training run"),
        ("[1, 2]", ':1: expected a JSON object with an "event"'),
        ('{"event": 3}', ':1: expected a JSON object with an "event"'),
        ("[" * 100000 + "]" * 100000, ":1: expected a JSON object"),
        ('{"event": "train", "step": -1}', "'step' is not the number of a step"),
        ('{"event": "train", "step": 1e300}', "'step' is not the number of a step"),
        ('{"event": "train", "step": 1, "loss": "x"}', "'loss' is not a number"),
        ('{"event": "train", "step": 1, "loss": []}', "'loss' is not a number"),
        ('{"event": "other"}', "has no events of a training run"),
        ("", "has no events of a training run"),
    ),
    ids=range(14),
)
def test_what_is_no_metrics_file_is_refused(line, message, tmp_path):
    (tmp_path / "m.jsonl").write_text(line + "\n")
    process = mpctest.mpc("report", tmp_path / "m.jsonl", cwd=tmp_path)
    assert process.returncode == 3, process.stderr
    assert message in process.stderr
    assert not (tmp_path / "report.html").exists()


def test_a_table_is_drawn_as_the_lines_are(tmp_path):
    """A resumed run repeats step 2: the repetition counts."""
    write(tmp_path / "m.jsonl", step(1, loss=3.0), step(2, loss=1.5, lr="nan"))
    (tmp_path / "m.csv").write_text(
        "event,step,loss,lr,skipped,eval_loss\n"
        "train,1,3.0,0.1,false,\n"
        "train,2,2.5,0.1,true,\n"
        "train,3,2.0,0.1,false,\n"
        "train,2,1.5,nan,false,\n"
        "eval,2,,,,0.25\n"
        "train,3,1"
    )
    pages = []
    for name in ("m.jsonl", "m.csv"):
        mpctest.mpc_ok("report", tmp_path / name, "-o", tmp_path / "r.html")
        pages.append(Page((tmp_path / "r.html").read_text()))
    lines, table = pages
    assert table.points("Loss") == lines.points("Loss")
    assert len(table.charts) > len(lines.charts)  # the evaluation's charts too


def test_steps_that_go_back_are_refused(tmp_path):
    run = write(tmp_path / "m.jsonl", step(5), step(4))
    process = mpctest.mpc("report", run, cwd=tmp_path)
    assert process.returncode == 3
    assert "m.jsonl:2: step 4 comes after step 5" in process.stderr


def test_a_line_that_is_being_written_is_left_out(tmp_path):
    run = write(tmp_path / "m.jsonl", step(1), step(2), end='\n{"event":"tr')
    process = mpctest.mpc_ok("report", run, "-o", tmp_path / "r.html")
    assert "the last line is not finished" in process.stderr
    assert len(Page((tmp_path / "r.html").read_text()).points("Loss")) == 2


def test_the_metrics_are_not_written_over(tmp_path):
    run = write(tmp_path / "m.jsonl", step(1))
    before = run.read_bytes()
    process = mpctest.mpc("report", run, "-o", run)
    assert process.returncode == 2
    assert run.read_bytes() == before


def test_a_share_is_never_more_than_all(tmp_path):
    """The axis of an accuracy that stays at 100 % ends at 100 %."""
    evaluations = [
        {"event": "eval", "step": s, "eval_loss": 0.5, "eval_accuracy": 1.0}
        for s in (1, 2, 3)
    ]
    run = write(tmp_path / "m.jsonl", step(1), step(2), step(3), *evaluations)
    text = report(tmp_path, run).text
    figure = text[text.index("<h2>Evaluation: accuracy") :].split("</figure>")[0]
    labels = re.findall(r'class="left"[^>]*>([^<]+)<', figure)
    assert max(map(float, labels)) == 100, labels
    assert 'viewBox="0 0 640 260"' in figure
