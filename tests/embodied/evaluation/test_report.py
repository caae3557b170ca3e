"""What an evaluation's page plots of a run."""

import pytest

from embodied.evaluation import page as pages
from embodied.evaluation.report import BINS, learning_curves
from embodied.storage.runs import Run


def logged(path, *rows):
    run = Run.create(path, "family/task", {})
    for step, row in enumerate(rows):
        run.log(step, row)
    run.close()
    return str(run.path)


def test_a_single_task_has_the_curve_of_its_success_and_not_of_its_reward(tmp_path):
    path = logged(tmp_path, {"success": 0.0, "reward/success": 3e5}, {"success": 0.5, "reward/success": 4e5})
    assert learning_curves(path) == {"success": [(0, 0.0), (1, 0.5)]}


def test_a_suite_has_a_curve_for_each_task(tmp_path):
    path = logged(tmp_path, {"success": 0.5, "family/a/success": 0.0, "family/b/success": 1.0, "reward/success": 9.0})
    assert learning_curves(path) == {"family/a": [(0, 0.0)], "family/b": [(0, 1.0)]}


def test_many_points_are_averaged_into_few(tmp_path):
    path = logged(tmp_path, *({"success": float(step % 2)} for step in range(4 * BINS)))
    (points,) = learning_curves(path).values()
    assert len(points) == BINS
    assert [value for _, value in points] == pytest.approx([0.5] * BINS)


def test_before_the_first_episode_ends_there_is_no_curve(tmp_path):
    assert learning_curves(logged(tmp_path, {"loss": 1.0})) == {}
    assert learning_curves(str(tmp_path / "absent")) == {}


def test_a_page_escapes_text_and_keeps_markup():
    rows = [("<a> & b", pages.span("c<d", "warn"), ("color:red", 2.5))]
    text = pages.page("<title>", "a & b", "python -m x", [pages.table(("name", "", "#value"), rows)])
    assert "&lt;title&gt;" in text
    assert "&lt;a&gt; &amp; b" in text
    assert '<span class="warn">c&lt;d</span>' in text
    assert '<td class="n" style="color:red">2.5</td>' in text
    assert "http" not in text
