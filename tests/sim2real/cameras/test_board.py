import re
import struct
from pathlib import Path

import cv2
import numpy as np
import pytest

from embodied.errors import UnknownNameError
from sim2real.cameras import board as boards
from sim2real.cameras.board import Board
from sim2real.cameras.camera import CameraError
from sim2real.cameras.detect import detect
from tests.kit.commands import refused
from tests.kit.fakes import given


@pytest.mark.parametrize(
    "text", ["8x6:30mm:22mm:5X5_100", "5x7:0.04m:0.03m:DICT_4X4_50", "6x8:10.5mm:8mm:6X6_250:legacy"]
)
def test_a_word_describes_a_board(text: str) -> None:
    board = Board.parse(text)
    assert Board.parse(str(board)) == board


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("8x6", "expected COLUMNSxROWS:SQUARE:MARKER:DICTIONARY, such as 8x6:30mm"),
        ("8x6:30:22:5X5_100", "expected COLUMNSxROWS"),
        ("8x6:3.0.0mm:22mm:5X5_100", "not both numbers"),
        ("1x6:30mm:22mm:5X5_100", "1 x 6 squares; expected 3 x 2 to"),
        ("8x6:30mm:30mm:5X5_100", "expected markers of 0.4 to 0.9"),
        ("8x6:0mm:0mm:5X5_100", "expected markers of 0.4 to 0.9"),
        ("20x20:30mm:22mm:5X5_100", "needs 200 markers; the dictionary '5X5_100' has 100"),
    ],
)
def test_words_that_describe_no_board_are_refused(text: str, message: str) -> None:
    with pytest.raises(CameraError, match=message):
        Board.parse(text)
    with pytest.raises(UnknownNameError, match="did you mean '5X5_100'"):
        Board.parse("8x6:30mm:22mm:5X5_10O")


@pytest.mark.parametrize("text", ["8x6:30mm:22mm:5X5_100", "5x7:40mm:30mm:4X4_50", "6x8:10mm:8mm:6X6_250:legacy"])
def test_rectangles_are_the_picture_that_opencv_draws_and_detects(text: str) -> None:
    board, n = Board.parse(text), 80
    ours = np.full((board.rows * n, board.columns * n), 255, np.uint8)
    for x, y, w, h in board.rectangles():
        left, top, right, bottom = (round(v / board.square * n) for v in (x, y, x + w, y + h))
        ours[top:bottom, left:right] = 0
    # Edges may round to another pixel; the inside may not differ.
    assert np.count_nonzero(cv2.erode((ours != board.picture(n)).astype(np.uint8), np.ones((4, 4)))) == 0
    view = detect(cv2.copyMakeBorder(ours, n, n, n, n, cv2.BORDER_CONSTANT, value=255), board)
    assert len(view.numbers) == len(board.corners)
    np.testing.assert_allclose(view.pixels, board.corners[:, :2] / board.square * n + n - 0.5, atol=0.3)


def test_a_pdf_is_in_true_scale_and_its_table_points_at_its_objects(tmp_path: Path) -> None:
    boards.main(["--out", str(tmp_path / "b.pdf"), "--margin", "20", "--board", "8x6:30mm:22mm:5X5_100"])
    data = (tmp_path / "b.pdf").read_bytes()
    assert data.startswith(b"%PDF-1.4")
    for number, start in enumerate(re.findall(rb"(\d{10}) 00000 n ", data), start=1):
        assert data[int(start) :].startswith(b"%d 0 obj" % number)
    table = int(given(re.search(rb"startxref\n(\d+)", data))[1])
    assert data[table:].startswith(b"xref")
    length = int(given(re.search(rb"/Length (\d+)", data))[1])
    stream = data[data.index(b"stream\n") + 7 :]
    assert stream[length:].startswith(b"\nendstream")
    shapes = np.array([line.split()[:4] for line in stream[:length].split(b"\n") if line.endswith(b" re")], float)
    inch = 25.4e-3
    assert shapes[:, 2].max() == pytest.approx(0.030 / inch * 72, abs=1e-3)
    assert shapes[:, 0].min() == pytest.approx(0.020 / inch * 72, abs=1e-3)
    page = [float(n) for n in given(re.search(rb"MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", data)).groups()]
    assert (shapes[:, 1] + shapes[:, 3]).max() == pytest.approx(
        0.200 / inch * 72, abs=1e-3
    )  # the top, 20 mm below the rim
    assert shapes[:, 1].min() == pytest.approx(0.020 / inch * 72, abs=1e-3)
    assert page == pytest.approx([0.280 / inch * 72, 0.220 / inch * 72], abs=1e-3)


def test_a_png_says_how_large_it_is(tmp_path: Path) -> None:
    boards.main(["--out", str(tmp_path / "b.png"), "--pixels-per-square", "60"])
    data = (tmp_path / "b.png").read_bytes()
    place = data.index(b"pHYs")
    assert struct.unpack(">IIB", data[place + 4 : place + 13]) == (2000, 2000, 1)  # per metre: 60 pixels in 30 mm
    image = given(cv2.imread(str(tmp_path / "b.png"), cv2.IMREAD_GRAYSCALE))
    assert image.shape == (6 * 60 + 60, 8 * 60 + 60)
    assert len(detect(image, Board.parse(boards.DEFAULT)).numbers) == 35


def test_command_line_errors_are_one_line(tmp_path: Path) -> None:
    for words, message in (
        (["--out", str(tmp_path / "b.gif")], "unknown kind of picture '.gif'; known: .pdf, .png"),
        (["--margin", "-1"], "expected 0 to 1000 mm"),
        (["--board", "x"], "expected COLUMNSxROWS"),
    ):
        assert message in refused(boards.main, *words)
