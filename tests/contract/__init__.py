"""The contract's words, held to their grammars."""
