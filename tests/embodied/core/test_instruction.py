"""The code of an instruction: the same everywhere, of length 1, near for texts that share words."""

from __future__ import annotations

import numpy as np
import pytest

from embodied.core.instruction import CODE_SIZE, code_of
from embodied.errors import EmbodiedError


def test_it_is_of_length_1_and_knows_neither_case_nor_punctuation():
    code = code_of("Open the drawer.")
    assert code.shape == (CODE_SIZE,)
    assert code.dtype == np.float32
    assert np.linalg.norm(code) == pytest.approx(1.0)
    np.testing.assert_array_equal(code, code_of("open  a DRAWER"))


def test_texts_that_share_words_or_parts_of_them_are_nearer():
    drawer, plural, window = (code_of(text) for text in ("open the drawer", "opens the drawers", "shut a window"))
    assert drawer @ plural > 0.5
    assert abs(drawer @ window) < 0.3


def test_it_stays_what_it_was():
    """Trained policies depend on it."""
    assert code_of("Open the drawer.")[[3, 26, 30, 42]].tolist() == pytest.approx([0.25, -0.25, 0.295804, 0.25])


def test_what_says_nothing_is_refused():
    with pytest.raises(EmbodiedError, match="says nothing"):
        code_of(" ... ")
