"""Flags that this package adds to every command that makes environments: `--calibration`, `--calibration-width`."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from embodied.env.options import Wrapper
from embodied.storage.configs import Rare

if TYPE_CHECKING:
    from embodied.core.task import Task

FILE = "calibration.json"  # in the folder that `sim2real.calibrate` writes, and in a run's


@dataclasses.dataclass(frozen=True)
class Calibration(Wrapper):
    """The robot that a calibration found, see `sim2real.twins.calibrated`."""

    of_policy: ClassVar[bool] = True
    of_robot: ClassVar[bool] = True

    calibration: Rare[Path | None] = None
    """Folder that python -m sim2real.calibrate wrote: the robot that its log shows, not the nominal one."""
    calibration_width: Rare[float] = 1.0
    """With --calibration: each episode's robot is drawn from what the log allows, its standard deviations times this
    factor. Logs of real robots deserve more than 1: no model has their structure. 0: always the estimate itself."""

    def __call__(self, task: Task[Any]) -> Task[Any]:
        from sim2real.identification.calibration import load
        from sim2real.twins.calibrated import calibrated

        assert self.calibration is not None
        return calibrated(task, load(self.calibration), self.calibration_width)

    def keep(self, folder: Path) -> None:
        if self.calibration is not None:
            shutil.copyfile(self.calibration / FILE if self.calibration.is_dir() else self.calibration, folder / FILE)

    def kept(self, folder: Path) -> Self:
        has = self.calibration is not None and (folder / FILE).is_file()
        return dataclasses.replace(self, calibration=folder / FILE) if has else self
