"""Internal.  Where works in progress run: local workers, or inline in tests."""
