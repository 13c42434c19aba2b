"""Rewriting as a game, without Gymnasium: Game, Games (many at once), replay, validate, measure, tables."""
from hilo._game import Choice, Game, Games, measure, replay, tables, validate

__all__ = ["Choice", "Game", "Games", "measure", "replay", "tables", "validate"]
