"""A ladder of policies that play the sides of a game: the command and its picture."""
