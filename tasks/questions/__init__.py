"""Questions about pictures, in words, with exact answers: their files, and how answers of models are read."""
