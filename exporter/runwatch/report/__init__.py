"""Renderings of the measurements for people: tables, the compact line, the explanation, the page."""
