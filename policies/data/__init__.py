"""Transitions that learners read: replay buffers, demonstrations, interventions."""
