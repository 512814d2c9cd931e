"""Internal.  The only folder that names a database vendor."""
