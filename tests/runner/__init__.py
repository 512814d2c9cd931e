"""Tests: runner."""
