"""Elastic policies: user code that decides on the sizes and nodes of elastic jobs.

A policy is a class with the two methods of `Policy`, registered under a name as an entry point of the group
`shoal.policies`, and selected by that name as `elasticPolicy` in scheduler.yaml. See
docs/elastic-policies.md.
"""

from shoal.policies.contract import JobInfo, NodeInfo, Policy

__all__ = ["JobInfo", "NodeInfo", "Policy"]
