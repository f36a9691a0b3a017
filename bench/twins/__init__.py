"""Twins of yes/no questions: the same questions with another object or number, whose answer is no."""
