"""The power manager `predictive`, which plans with samples of the future: see `manager`."""
