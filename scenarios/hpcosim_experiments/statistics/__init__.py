"""Statistics of experiments: metrics of a run, means with intervals, and paired differences."""

from hpcosim_experiments.statistics.measured import Measured, MeasureSettings, measure

__all__ = ["MeasureSettings", "Measured", "measure"]
