"""Vision-language-action policies: they see, are told what to do, and act."""
