"""Policies: how users decide on the sizes and nodes of their elastic jobs.

A policy is a class with the two methods of `Policy`, registered under a name as an entry point of the group
`shoal.policies`, and chosen by that name as `elasticPolicy` in scheduler.yaml. See docs/elastic-policies.md.
"""

from shoal.policies.contract import JobInfo, NodeInfo, Policy

__all__ = ["JobInfo", "NodeInfo", "Policy"]
