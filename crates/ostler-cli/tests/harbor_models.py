"""Reads Harbor jobs with Harbor's own models and its viewer: harbor_models.py DIR.

Prints one line of JSON per trial, and fails with what a model refuses.
"""

import json
import sys
import types
import typing
from pathlib import Path

if sys.version_info < (3, 12):
    # Harbor is written for Python 3.12; its models need no more than these names.
    import typing_extensions

    typing.TypedDict = typing_extensions.TypedDict
    typing.override = typing_extensions.override

import harbor

# The package of the viewer starts a web server, which is not needed.
viewer = types.ModuleType("harbor.viewer")
viewer.__path__ = [str(Path(harbor.__file__).parent / "viewer")]
sys.modules["harbor.viewer"] = viewer

from harbor.models.job.config import JobConfig
from harbor.models.job.result import JobResult
from harbor.models.trajectories import Trajectory
from harbor.models.trial.config import TrialConfig
from harbor.models.trial.result import TrialResult
from harbor.viewer.scanner import JobScanner

jobs = Path(sys.argv[1])
scanner = JobScanner(jobs)
for job in scanner.list_jobs():
    root = jobs / job
    JobConfig.model_validate_json((root / "config.json").read_text())
    stats = JobResult.model_validate_json((root / "result.json").read_text()).stats
    assert scanner.get_job_config(job) and scanner.get_job_result(job)
    trials = scanner.list_trials(job)
    assert stats.n_completed_trials == len(trials), (stats, trials)
    for trial in trials:
        files = root / trial
        TrialConfig.model_validate_json((files / "config.json").read_text())
        result = TrialResult.model_validate_json((files / "result.json").read_text())
        assert scanner.get_trial_result(job, trial) is not None, trial
        text = (files / "agent/trajectory.json").read_text()
        steps = Trajectory.model_validate_json(text).steps
        rewards = result.verifier_result and result.verifier_result.rewards
        totals = result.compute_token_cost_totals()
        line = {"job": job, "trial": trial, "steps": len(steps), "rewards": rewards}
        line["exception"] = result.exception_info and result.exception_info.exception_type
        print(json.dumps(line | {"tokens": totals}))
