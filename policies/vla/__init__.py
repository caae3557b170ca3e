"""Vision-language-action policies: they see, follow instructions, and act."""
