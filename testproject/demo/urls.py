"""Addresses of the demo."""

from __future__ import annotations

from django.urls import path

from demo import views

app_name = "demo"

urlpatterns = [
    path("", views.index, name="index"),
    path("status.json", views.status, name="status"),
    path("verify/<str:token>/", views.verify, name="verify"),
]
