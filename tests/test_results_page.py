"""docs/results.md is what the JSON files say, and every file has a row."""

from benchmarks import results_page


def test_the_page_is_what_the_files_say() -> None:
    assert results_page.PAGE.read_text(encoding="utf-8") == results_page.page(results_page.read()), (
        "run python -m benchmarks.results_page"
    )


def test_every_file_has_a_row() -> None:
    page = results_page.PAGE.read_text(encoding="utf-8")
    assert not [name for name in results_page.read() if f"{results_page.LINK}{name}.json" not in page]


def test_seeds_share_a_row() -> None:
    record = {"task": "t", "episodes": 4, "steps": 1e6, "train_seconds": 60.0}
    results = {f"train_t_seed{seed}": record | {"success": value} for seed, value in enumerate((0.5, 1.0))}
    (row,) = results_page.trained(results)
    assert row[:5] == ("`t`", "ppo", "1.0", "1.0 (1.0, 1.0)", "75.0 (50.0, 100.0)")
