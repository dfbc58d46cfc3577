"""Prints reference values of statsmodels and SciPy as JSON, for tests/it/statsmodels.rs."""

import json
import random

import numpy as np
import scipy.stats as st
import statsmodels.api as sm
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.power import TTestPower
from statsmodels.stats.proportion import proportion_confint

choose = random.Random(20261118)
values = {"wilson": [], "mcnemar": [], "t": [], "normal": [], "paired": [], "clustered": []}
values |= {"pass_k": [], "bootstrap": [], "effect": []}
for _ in range(200):
    n = choose.randint(1, 400)
    k = choose.randint(0, n)
    values["wilson"].append([k, n, *proportion_confint(k, n, method="wilson")])
    b, c = choose.randint(0, 40), choose.randint(0, 40)
    values["mcnemar"].append([b, c, mcnemar([[0, b], [c, 0]], exact=True).pvalue])
    p, df = choose.uniform(0.001, 0.999), choose.randint(1, 300)
    values["t"].append([p, df, st.t.ppf(p, df)])
    values["normal"].append([p, st.norm.ppf(p)])
for _ in range(50):
    # Shares of three trials, so that no difference is a whole one.
    differences = [choose.choice([-1, 0, 1, 2]) / 3 for _ in range(choose.randint(3, 30))]
    if len(set(differences)) > 1:
        test = st.ttest_1samp(differences, 0)
        low, high = test.confidence_interval()
        values["paired"].append([differences, max(low, -1), min(high, 1)])
    tasks = []
    for _ in range(choose.randint(3, 20)):
        trials = choose.randint(2, 5)
        tasks.append([choose.randint(0, trials), trials])
    y = np.array([float(i < k) for k, n in tasks for i in range(n)])
    groups = np.array([at for at, (_, n) in enumerate(tasks) for _ in range(n)])
    fit = sm.OLS(y, np.ones_like(y)).fit(cov_type="cluster", cov_kwds={"groups": groups})
    mean, error = fit.params[0], fit.bse[0]
    if error > 0 and 0 < mean < 1:
        scaled = error * st.t.ppf(0.975, len(tasks) - 1) / st.norm.ppf(0.975)
        worth = min(max(mean * (1 - mean) / scaled**2, 1), len(y))
        interval = proportion_confint(mean * worth, worth, method="wilson")
        values["clustered"].append([tasks, mean, *interval])
for _ in range(50):
    k = choose.randint(1, 4)
    tasks = [[choose.randint(0, n), n] for n in [choose.randint(k, 9) for _ in range(12)]]
    none = [st.hypergeom.pmf(0, n, c, k) for c, n in tasks]
    every = [st.hypergeom.pmf(k, n, c, k) for c, n in tasks]
    values["pass_k"].append([tasks, k, 1 - np.mean(none), np.mean(every)])
for _ in range(25):
    sample = [choose.choice([-1, -0.5, 0, 0, 0.5, 1]) for _ in range(choose.randint(20, 40))]
    options = {"n_resamples": 10_000, "method": "percentile", "random_state": 1}
    interval = st.bootstrap((sample,), np.mean, **options).confidence_interval
    values["bootstrap"].append([sample, float(np.mean(sample)), *interval])
for n in range(10, 60):
    size = TTestPower().solve_power(nobs=n, alpha=0.05, power=0.8)
    values["effect"].append([n, size / n**-0.5])
print(json.dumps(values))
