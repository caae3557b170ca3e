"""Tables become logs, or one line that says which cell is wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from embodied.errors import UnknownNameError
from sim2real.logs import tables
from sim2real.logs.log import Channel, Log, LogError
from sim2real.logs.read_log import read_log, write_log
from tests.kit.logs import assert_same_log


def drawn(seed: int) -> Log:
    """Channels of different rates, with times in common, one time twice, NaN and infinities."""
    rng = np.random.default_rng(seed)
    slow = np.arange(20) * 0.02
    fast = np.sort(np.concatenate([slow, rng.uniform(0, 0.4, 50), slow[3:4]]))
    gyro = rng.normal(size=(len(fast), 3)) * 10.0 ** rng.integers(-300, 300, (len(fast), 3))
    gyro[5], gyro[6, 1], gyro[7, 2] = np.nan, np.inf, -0.0
    return Log(
        {
            "command": Channel(slow, rng.normal(size=(20, 2)), ("FR_hip", "a.b, c"), "rad"),
            "gyro": Channel(fast, gyro, ("x", "y", "z"), "rad/s"),
        },
        {"robot": "go1", "date": "2026-11-22T04:00"},
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("suffix", [".csv", ".mcap", ".MCAP"])
def test_round_trips_are_exact(seed, suffix, tmp_path):
    log = drawn(seed)
    write_log(tmp_path / f"a{suffix}", log)
    again = read_log(tmp_path / f"a{suffix}")
    assert_same_log(again, log)
    assert list(again.channels) == list(log.channels)


def parquet(path, columns, metadata=None):
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table({name: pyarrow.array(values) for name, values in columns.items()})
    pyarrow.parquet.write_table(table.replace_schema_metadata(metadata or {}), path)


def test_parquet_is_read(tmp_path):
    columns = {
        "time": np.array([0.0, 0.5, 1.0]),
        "joint_pos.a": [0.1, None, float("nan")],
        "joint_pos.b": np.array([1, None, 3], object),
        "battery.V": np.array([12, 11, 10], np.int32),
    }
    parquet(tmp_path / "a.parquet", columns, {"robot": "go1", "unit.battery": "V"})
    log = read_log(tmp_path / "a.parquet")
    np.testing.assert_array_equal(log["joint_pos"].time, [0.0, 1.0])
    np.testing.assert_array_equal(log["joint_pos"].values, [[0.1, 1.0], [np.nan, 3.0]])
    np.testing.assert_array_equal(log["battery"].values, [[12], [11], [10]])
    assert (log["joint_pos"].unit, log["battery"].unit) == ("rad", "V")
    assert log.metadata == {"robot": "go1"}


def test_pandas_leaves_no_metadata_of_its_own(tmp_path):
    parquet(tmp_path / "a.parquet", {"time": [0.0], "gyro.x": [1.0]}, {"pandas": "{}"})
    assert read_log(tmp_path / "a.parquet").metadata == {}


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"t": [0.0], "gyro.x": [1.0]}, r"no column 'time' \(s\); it has t, gyro.x"),
        ({"time": [0.0], "gyro.x": ["1.0"]}, "column 'gyro.x' holds string; expected numbers"),
        ({"time": ["0.0"], "gyro.x": [1.0]}, "column 'time' holds string; expected numbers, s since some start"),
        ({"time": [0.0], "gyro.x": [[1.0]]}, "column 'gyro.x' holds list"),
        ({"time": [0.0, 1.0], "a.x": [1.0, 2.0], "a.y": [1.0, None]}, "row 2, column 'a.y' is empty while"),
        ({"time": [0.0, None], "a.x": [1.0, 2.0]}, "channel 'a': .*time is not finite"),
    ],
)
def test_wrong_parquet_is_named(columns, said, tmp_path):
    parquet(tmp_path / "a.parquet", columns)
    with pytest.raises(LogError, match=said) as caught:
        read_log(tmp_path / "a.parquet")
    assert "\n" not in str(caught.value)


def test_a_csv_of_a_person_is_read(tmp_path):
    text = "\ufeff# my first log\n# robot : go1\n\ntime, joint_pos.a ,gyro.x,gyro.y\r\n0,1,,\r\n\r\n0.5,,nan,-2e-3\r\n"
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    log = read_log(tmp_path / "a.csv")
    assert log.metadata == {"robot": "go1"}
    np.testing.assert_array_equal(log["joint_pos"].time, [0.0])
    np.testing.assert_array_equal(log["gyro"].values, [[np.nan, -0.002]])
    assert log["gyro"].unit == "rad/s"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"no column 'time' \(s\); it has none at all"),
        ("a,b\n", r"no column 'time' \(s\); it has a, b"),
        ("time,gyro.x,gyro.x\n", "two columns 'gyro.x'"),
        ("time,gyro\n", "columns 'gyro'; expected 'channel.column'"),
        ("time,gyro.\n", "columns 'gyro.'; expected"),
        ("time,gyro.x\n0,1\n1,one\n", "row 3, column 'gyro.x' holds 'one'; expected a number$"),
        ("time,gyro.x\n0,1\n1,1_0\n", "row 3, column 'gyro.x' holds '1_0'; expected a number$"),
        ("time,gyro.x\n0,\u0661\u0662\n", "row 2, column 'gyro.x' holds '\u0661\u0662'; expected a number$"),
        ("time,gyro.x\n0,\uff11\n", "row 2, column 'gyro.x' holds '\uff11'; expected a number$"),
        ("time,gyro.x\n1_0,1\n", "row 2, column 'time' holds '1_0'; expected a number, s"),
        ("time,gyro.x\n12:00,1\n", "row 2, column 'time' holds '12:00'; expected a number, s since some start"),
        ("time,gyro.x\n0,1,2\n", "row 2 has 3 cells; the header has 2"),
        ("time,gyro.x,gyro.y\n0,1,1\n1,2,\n", "row 3, column 'gyro.y' is empty while other columns of 'gyro' are not"),
        ("time,gyro.x\n1,1\n0,1\n", r"channel 'gyro': .*runs backwards at row 1: 0\.0 s$"),
        ("time,gyro.x\n,1\n", "channel 'gyro': .*time is not finite or runs backwards at row 0: nan s$"),
        ("time,gyro.x\n0,1\ninf,1\n", "channel 'gyro': .*time is not finite or runs backwards at row 1: inf s$"),
    ],
)
def test_wrong_csv_is_named(text, said, tmp_path):
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    with pytest.raises(LogError, match=said) as caught:
        read_log(tmp_path / "a.csv")
    assert "a.csv" in str(caught.value)


def test_files_that_are_no_tables_are_named(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"time,gyro.x\n\xff\xfe")
    with pytest.raises(LogError, match="cannot read the log"):
        read_log(tmp_path / "a.csv")
    (tmp_path / "a.parquet").write_bytes(b"PAR1 not really PAR1")
    with pytest.raises(LogError, match="is no Parquet file that can be read"):
        read_log(tmp_path / "a.parquet")
    with pytest.raises(LogError, match="No such file"):
        read_log(tmp_path / "none.csv")
    with pytest.raises(UnknownNameError, match=r"unknown suffix of a log '.bag'; known: .csv, .mcap, .parquet"):
        read_log(tmp_path / "a.bag")
    with pytest.raises(UnknownNameError, match=r"unknown suffix of a log '.parquet'; known: .csv, .mcap"):
        write_log(tmp_path / "a.parquet", drawn(0))


def test_bounds_hold(tmp_path, monkeypatch):
    write_log(tmp_path / "a.csv", drawn(0))
    parquet(tmp_path / "a.parquet", {"time": np.arange(100.0), "gyro.x": np.zeros(100)})
    monkeypatch.setattr(tables, "MAX_CELLS", 100)
    for name in ("a.csv", "a.parquet"):
        with pytest.raises(LogError, match="100 cells"):
            read_log(tmp_path / name)
    monkeypatch.setattr(tables, "MAX_COLUMNS", 1)
    with pytest.raises(LogError, match="columns; up to 1 are read"):
        read_log(tmp_path / "a.csv")
    monkeypatch.setattr(tables, "MAX_FILE", 10)
    with pytest.raises(LogError, match="tables of up to 10 are read"):
        read_log(tmp_path / "a.csv")


def test_names_that_would_not_come_back_are_refused(tmp_path):
    with pytest.raises(LogError, match=r"channels imu\.gyro cannot be columns"):
        write_log(tmp_path / "a.csv", Log({"imu.gyro": Channel(np.zeros(1), np.zeros((1, 1)), ("x",))}))


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    parquet(tmp_path / "a.parquet", {"time": [0.0]})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(LogError, match=r"need the package pyarrow; pip install pyarrow"):
        read_log(tmp_path / "a.parquet")


def test_the_documented_table_is_read(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / "sim2real.md").read_text(encoding="utf-8")
    (tmp_path / "log.csv").write_text(text.partition("```csv\n")[2].partition("```")[0], encoding="utf-8")
    log = read_log(tmp_path / "log.csv")
    assert {name: (len(channel), channel.unit) for name, channel in log.channels.items()} == {
        "command": (2, "rad"),
        "joint_pos": (3, "rad"),
    }
    assert dict(log.metadata) == {"robot": "go1"}
