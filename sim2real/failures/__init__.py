"""Failures of a policy: statistics over the initial states of its episodes, and a page of them."""
