"""Logs survive MCAP to the last bit; what is not whole or not ours is one line that says so."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim2real.logs import mcap_log, mcap_reader
from sim2real.logs.log import WXYZ, Channel, Log, LogError
from sim2real.logs.mcap_log import Recorder
from tests.kit.commands import environment
from tests.kit.logs import assert_same_log


def drawn(seed: int) -> Log:
    """A log of any shape: uneven times, equal times, no rows, no columns, numbers of all sizes."""
    rng = np.random.default_rng(seed)

    def channel(rows: int, names: tuple[str, ...], unit: str) -> Channel:
        times = np.sort(rng.uniform(-1, 5, rows)) * 10.0 ** rng.integers(-3, 6)
        times[1::7] = times[: len(times[1::7]) * 7 : 7]
        values = rng.normal(size=(rows, len(names))) * 10.0 ** rng.integers(-300, 300, (rows, len(names)))
        return Channel(times, values, names, unit)

    return Log(
        {
            "joint_pos": channel(50, ("FR_hip", "ünïcode", 'quo"te'), "rad"),
            "orientation": channel(20, WXYZ, "1"),
            "empty": channel(0, ("a", "b"), "N m"),
            "bare": channel(5, (), ""),
        },
        {"robot": "go1", "note": 'a "quoted"\nline'},
    )


@pytest.mark.parametrize("seed", range(5))
def test_round_trips_are_exact(seed, tmp_path):
    log = drawn(seed)
    mcap_log.write(tmp_path / "a.mcap", log)
    assert_same_log(mcap_log.read(tmp_path / "a.mcap"), log)


def test_numbers_that_json_lacks_survive(tmp_path):
    values = np.array([[np.nan, np.inf], [-np.inf, -0.0], [1e308, 1e308], [5e-324, 1.7976931348623157e308]])
    log = Log({"gyro": Channel(np.arange(4.0), values, ("x", "y"))})
    mcap_log.write(tmp_path / "a.mcap", log)
    assert_same_log(mcap_log.read(tmp_path / "a.mcap"), log)
    from mcap.reader import make_reader

    with (tmp_path / "a.mcap").open("rb") as file:
        for _, _, message in make_reader(file).iter_messages():
            json.loads(message.data, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))


def test_recorder_writes_what_write_writes(tmp_path):
    log = drawn(0)
    with Recorder(tmp_path / "a.mcap", {"robot": "go1"}) as recorder:
        for name, channel in log.channels.items():
            for t, row in zip(channel.time, channel.values, strict=True):
                recorder.add(name, t, row, channel.names, channel.unit)
        recorder.note("note", log.metadata["note"])
    recorder.close()  # again: nothing
    read = mcap_log.read(tmp_path / "a.mcap")
    assert_same_log(read, Log({name: channel for name, channel in log.channels.items() if len(channel)}, log.metadata))
    with pytest.raises(LogError, match="closed"):
        recorder.add("a", 0.0, np.zeros(1), ("x",))


def test_other_tools_see_topics_schemas_and_times(tmp_path):
    from mcap.reader import make_reader

    log = drawn(1)
    mcap_log.write(tmp_path / "a.mcap", log)
    with (tmp_path / "a.mcap").open("rb") as file:
        reader = make_reader(file, validate_crcs=True)
        summary: Any = reader.get_summary()
        assert {channel.topic for channel in summary.channels.values()} == set(log.channels)
        assert summary.statistics.message_count == sum(map(len, log.channels.values()))
        stamps = []
        for schema, channel, message in reader.iter_messages("joint_pos"):
            assert schema is not None
            fields = json.loads(schema.data)["properties"]
            assert schema.encoding == "jsonschema"
            assert channel.message_encoding == "json"
            assert list(fields) == ["time", *log["joint_pos"].names]
            assert fields["FR_hip"]["description"] == "rad"
            assert set(json.loads(message.data)) == set(fields)
            stamps.append(message.log_time)
        assert [m.name for m in reader.iter_metadata()] == ["embodied.log"]
    np.testing.assert_allclose(np.array(stamps) * 1e-9, np.maximum(log["joint_pos"].time, 0), atol=1e-9, rtol=1e-15)


def test_flat_json_of_others_is_read(tmp_path):
    foreign(tmp_path / "a.mcap", "json", *(json.dumps({"hip": i, "knee": 0.5}).encode() for i in range(3)))
    log = mcap_log.read(tmp_path / "a.mcap")
    assert log["joint_pos"].names == ("hip", "knee")
    np.testing.assert_array_equal(log["joint_pos"].time, [0, 1, 2])
    np.testing.assert_array_equal(log["joint_pos"].values, [[0, 0.5], [1, 0.5], [2, 0.5]])


TIME = np.arange(400) * 0.005
LONG = Channel(TIME, np.sin(TIME)[:, None] * np.ones(12), tuple(f"j{i}" for i in range(12)), "rad")


def recorded(path: Path) -> bytes:
    """The bytes of a file with several chunks."""
    with Recorder(path, {"robot": "go1"}) as recorder:
        for t, row in zip(LONG.time, LONG.values, strict=True):
            recorder.add("joint_pos", t, row, LONG.names, LONG.unit)
    return path.read_bytes()


@pytest.mark.parametrize("cuts", [50, pytest.param(150, marks=pytest.mark.slow)])
def test_a_cut_file_is_refused_and_its_whole_part_can_be_had(cuts, tmp_path):
    whole, path = recorded(tmp_path / "a.mcap"), tmp_path / "cut.mcap"
    rows = []
    for end in range(0, len(whole), max(1, len(whole) // cuts)):
        path.write_bytes(whole[:end])
        with pytest.raises(LogError, match=r"cut\.mcap"):
            mcap_log.read(path)
        try:
            log = mcap_log.read(path, unfinished=True)
        except LogError:
            rows.append(0)
            continue
        got = log["joint_pos"]
        assert "without MCAP's end record" in log.metadata[mcap_log.UNFINISHED]
        np.testing.assert_array_equal(got.values, LONG.values[: len(got)])
        rows.append(len(got))
    assert rows == sorted(rows)
    assert len(set(rows)) >= 4  # every chunk shows
    assert rows[-1] == len(LONG)


@pytest.mark.parametrize("trials", [90, pytest.param(300, marks=pytest.mark.slow)])
def test_damage_raises_nothing_but_log_errors(trials, tmp_path):
    whole, path = recorded(tmp_path / "a.mcap"), tmp_path / "b.mcap"
    rng, refused = np.random.default_rng(0), 0
    for _ in range(trials):
        data = bytearray(whole)
        for place in rng.integers(0, len(data), rng.integers(1, 4)):
            data[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(data))
        try:
            log = mcap_log.read(path, unfinished=True)
        except LogError:
            refused += 1
            continue
        if "joint_pos" in log:  # else the bit was in the channel's name outside the chunks' checksums
            got = log["joint_pos"]
            np.testing.assert_array_equal(got.values, LONG.values[: len(got)])
    assert refused > trials / 3


def test_a_killed_recorder_leaves_what_was_flushed(tmp_path):
    code = (
        "import sys, time, numpy as np; from sim2real.logs.mcap_log import Recorder\n"
        "r = Recorder(sys.argv[1], {'robot': 'go1'})\n"
        "for i in range(10**9):\n"
        "    r.add('joint_pos', i * 0.01, np.full(3, float(i)), ('a', 'b', 'c'), 'rad')\n"
        "    if i == 1000: print('ready', flush=True)\n"
        "    if i > 1000: time.sleep(0.001)\n"
    )
    path = tmp_path / "killed.mcap"
    command = [sys.executable, "-c", code, str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment())
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    with pytest.raises(LogError, match=r"its recorder was killed.*--recover"):
        mcap_log.read(path)
    log = mcap_log.read(path, unfinished=True)
    assert log.span[1] >= 10.0 - mcap_log.FLUSH_EVERY
    np.testing.assert_array_equal(log["joint_pos"].values[:, 1], np.arange(len(log["joint_pos"])))
    assert log.metadata["robot"] == "go1"


def foreign(path: Path, encoding: str, *messages: bytes) -> None:
    """The file of another recorder, a message a second."""
    from mcap.writer import Writer

    with path.open("wb") as file:
        writer = Writer(file)
        writer.start()
        topic = writer.register_channel("joint_pos", encoding, 0)
        for second, message in enumerate(messages):
            writer.add_message(topic, 10**9 * second, message, 0)
        writer.finish()


@pytest.mark.parametrize(
    ("encoding", "data", "said"),
    [
        ("cdr", b"\0", "'joint_pos' has cdr messages; expected JSON"),
        ("json", b"[1, 2]", "no JSON object"),
        ("json", b'{"time": 0, "a": "1"}', "row 0 of 'joint_pos' holds '1'; expected a number"),
        ("json", b'{"time": 0, "a": true}', "holds True; expected a number"),
        ("json", b'{"time": 0, "a": {"b": 1}}', "expected a number"),
        ("json", b'{"time": null, "a": 1}', "time is not finite"),
        ("json", b'{"time": 0,', "is damaged after 0 messages"),
        ("json", b"[" * 100000, "is damaged after 0 messages"),
    ],
)
def test_foreign_messages_are_named(encoding, data, said, tmp_path):
    foreign(tmp_path / "a.mcap", encoding, data)
    with pytest.raises(LogError, match=said.replace("(", r"\(")) as caught:
        mcap_log.read(tmp_path / "a.mcap")
    assert "a.mcap" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bounds_hold(tmp_path, monkeypatch):
    path = tmp_path / "a.mcap"
    foreign(path, "json", b'{"time": 0, "a": 1' + b" " * (1 << 20) + b"}")
    with pytest.raises(LogError, match="has 1048595 bytes; up to 1048576 are read"):
        mcap_log.read(path)
    foreign(path, "json", *[b'{"time": 0, "a": 1}'] * 100)
    monkeypatch.setattr(mcap_reader, "MAX_NUMBERS", 100)
    with pytest.raises(LogError, match="more than 100 numbers"):
        mcap_log.read(path)
    monkeypatch.setattr(mcap_reader, "MAX_RECORD", 1000)
    with pytest.raises(LogError, match="unpacks to more than 1000 bytes"):
        mcap_log.read(path)
    monkeypatch.setattr(mcap_reader, "MAX_FILE", 100)
    with pytest.raises(LogError, match="logs of up to 100 are read"):
        mcap_log.read(path)


def test_what_is_no_file_or_no_mcap_is_said(tmp_path):
    with pytest.raises(LogError, match=r"cannot read the log '.*none\.mcap': No such file"):
        mcap_log.read(tmp_path / "none.mcap")
    (tmp_path / "a.mcap").write_bytes(b"#ROSBAG V2.0\n")
    with pytest.raises(LogError, match="is no MCAP file: it begins with b'#ROSBAG "):
        mcap_log.read(tmp_path / "a.mcap")
    with pytest.raises(LogError, match=r"cannot write the log '.*': No such file"):
        Recorder(tmp_path / "none" / "a.mcap")


def test_rows_that_do_not_fit_are_refused_and_leave_the_file_whole(tmp_path):
    with Recorder(tmp_path / "a.mcap") as recorder:
        recorder.add("gyro", 1.0, np.zeros(3), ("x", "y", "z"), "rad/s")
        with pytest.raises(LogError, match=r"was given \(2,\) numbers named x, y; expected 3, named x, y, z"):
            recorder.add("gyro", 2.0, np.zeros(2), ("x", "y"))
        with pytest.raises(LogError, match=r"was given \(2,\) numbers"):
            recorder.add("gyro", 2.0, np.zeros(2), ("x", "y", "z"))
        for bad in (0.5, float("nan"), float("inf")):
            with pytest.raises(LogError, match=f"was given the time {bad} s after 1.0 s"):
                recorder.add("gyro", bad, np.zeros(3), ("x", "y", "z"))
        with pytest.raises(LogError, match="expected distinct names other than 'time'"):
            recorder.add("a", 0.0, np.zeros(2), ("time", "b"))
    assert len(mcap_log.read(tmp_path / "a.mcap")["gyro"]) == 1


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    recorded(tmp_path / "a.mcap")
    monkeypatch.setitem(sys.modules, "mcap.stream_reader", None)
    with pytest.raises(LogError, match=r'need the package mcap; pip install "embodied-sim\[sim2real\]"'):
        mcap_log.read(tmp_path / "a.mcap")


@pytest.mark.parametrize("time", [-1e300, 1e12, 1e300])
def test_times_beyond_those_of_the_format_are_kept(time, tmp_path):
    log = Log({"gyro": Channel(np.array([time]), np.zeros((1, 1)), ("x",))})
    mcap_log.write(tmp_path / "a.mcap", log)
    assert_same_log(mcap_log.read(tmp_path / "a.mcap"), log)
