"""Django's PostgreSQL backend, with a flush that suits a thousand small tests."""
