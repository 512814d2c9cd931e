"""Settings of the demo; everything can be set from the environment."""

from __future__ import annotations

import sys
from pathlib import Path

import django
import environ

from testproject.databases import database

PROJECT = Path(__file__).resolve().parent.parent
ROOT = PROJECT.parent

# The checkout goes last on the path: `tests` is found, an installed wheel still wins.
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

env = environ.Env()

SECRET_KEY = env.str("SECRET_KEY", default="only-for-the-demo-and-the-tests")
DEBUG = env.bool("DEBUG", default=True)
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["127.0.0.1", "localhost", "[::1]"])

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_workpool",
    "demo",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "testproject.urls"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

DATABASES = {
    "default": database(
        env.str("DATABASE_URL", default=f"sqlite:///{PROJECT / 'db.sqlite3'}")
    ),
}

DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_I18N = True
USE_TZ = True
STATIC_URL = "static/"

# Where the pages of the demo and its weather service are.
DEMO_BASE_URL = env.str("DEMO_BASE_URL", default="http://127.0.0.1:8000")
DEMO_WEATHER_URL = env.str("DEMO_WEATHER_URL", default="http://127.0.0.1:8001/weather")

DEFAULT_FROM_EMAIL = "demo@example.com"
_smtp = {
    "host": env.str("EMAIL_HOST", default="127.0.0.1"),
    "port": env.int("EMAIL_PORT", default=1025),
}
if django.VERSION >= (6, 1):
    MAILERS = {
        "default": {
            "BACKEND": "django.core.mail.backends.smtp.EmailBackend",
            "OPTIONS": _smtp,
        },
    }
else:  # compat: drop with Django 6.0, which knows no mailers.
    EMAIL_HOST = _smtp["host"]
    EMAIL_PORT = _smtp["port"]

DEMO_WEATHER_URL = env.str("DEMO_WEATHER_URL", default="http://127.0.0.1:8001/weather")
DEMO_BASE_URL = env.str("DEMO_BASE_URL", default="http://127.0.0.1:8000")
