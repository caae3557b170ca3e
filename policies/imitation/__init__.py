"""Learning from demonstrations: behaviour cloning, recording, interventions, advice."""
