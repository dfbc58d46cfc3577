from .prices import calc
