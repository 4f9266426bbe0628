"""The words, held to their grammars."""
