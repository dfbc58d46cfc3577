"""Prints the known values of tests/it/stats.rs. Needs: pip install scipy statsmodels."""

import math

import numpy as np
import scipy.stats as st
import statsmodels.api as sm
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.proportion import proportion_confint

print("wilson")
for k, n in [(0, 10), (1, 10), (7, 10), (10, 10), (3, 5), (50, 100), (799, 1000)]:
    print(k, n, *proportion_confint(k, n, method="wilson"))
print("mcnemar, exact")
for b, c in [(0, 0), (1, 0), (5, 1), (10, 2), (8, 8), (25, 10)]:
    print(b, c, mcnemar([[0, b], [c, 0]], exact=True).pvalue)
print("t, 97.5 %")
for df in [1, 2, 4, 9, 29, 99, 1000]:
    print(df, st.t.ppf(0.975, df))
print("normal")
for p in [0.001, 0.01, 0.025, 0.5, 0.8, 0.9, 0.975, 0.999]:
    print(p, st.norm.ppf(p))


def cluster_error(tasks):
    y = np.array([v for task in tasks for v in task], float)
    groups = np.array([i for i, task in enumerate(tasks) for _ in task])
    fit = sm.OLS(y, np.ones_like(y)).fit(cov_type="cluster", cov_kwds={"groups": groups})
    return fit.params[0], fit.bse[0]


TASKS = [[[1, 1, 1], [0, 0, 0], [1, 0, 1], [0, 1, 0], [1, 1, 1]], [[1, 1], [0, 1, 1, 1], [1], [0, 0, 0]]]
print("clustered: mean, standard error, and Wilson for the number of trials that they are worth")
for tasks in TASKS:
    mean, error = cluster_error(tasks)
    n = sum(len(task) for task in tasks)
    scaled = error * st.t.ppf(0.975, len(tasks) - 1) / st.norm.ppf(0.975)
    worth = min(max(mean * (1 - mean) / scaled**2, 1), n)
    print(mean, error, worth, *proportion_confint(mean * worth, worth, method="wilson"))
print("paired")
a = np.array([1, 0.5, 0, 1, 0.25, 1])
b = np.array([0.5, 0.5, 0, 0.75, 0, 1])
test = st.ttest_rel(a, b)
error = (a - b).std(ddof=1) / math.sqrt(len(a))
print((a - b).mean(), test.confidence_interval(), error)
df = len(a) - 1
print("minimum detectable effect", (st.t.ppf(0.975, df) + st.t.ppf(0.8, df)) * error)
print("quantiles", np.percentile([1, 2, 3, 4, 10], [50, 95]), np.percentile([3, 1, 2, 8], [50, 95]))
print("bootstrap")
values = np.array([0.5, 0, 0, 0.25, 0.25, 0, 1, -0.5])
sampled = np.random.default_rng(1).choice(values, (10_000, len(values))).mean(axis=1)
print(np.percentile(sampled, [2.5, 97.5]))
