"""The steps: small programs for the frameworks, which know nothing of stand-ins, hook or daemon."""
