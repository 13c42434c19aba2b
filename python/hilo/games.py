"""Rewriting as a game, without Gymnasium: Game, Games (many at once), players, records, measured times, observations, random modules."""
from hilo._game import Choice, Game, Games, generate, measure, observe, replay, tables, validate

__all__ = ["Choice", "Game", "Games", "generate", "measure", "observe", "replay", "tables", "validate"]
