"""Where HloEnv has its extension module."""
