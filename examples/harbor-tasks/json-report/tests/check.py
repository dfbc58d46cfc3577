"""Writes one reward for the format and one for each value."""
import json

rewards = {"format": 0, "lines": 0, "words": 0}
try:
    with open("/app/report.json") as file:
        report = json.load(file)
    rewards = {"format": 1, "lines": int(report["lines"] == 3), "words": int(report["words"] == 6)}
except (OSError, ValueError, KeyError) as error:
    print(error)
with open("/logs/verifier/reward.json", "w") as file:
    json.dump(rewards, file)
