"""The form of the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django import forms

from demo.models import SignUp

if TYPE_CHECKING:
    SignUpFormBase = forms.ModelForm[SignUp]
else:
    SignUpFormBase = forms.ModelForm


class SignUpForm(SignUpFormBase):
    """Asks for an address that has not signed up yet."""

    class Meta:
        model = SignUp
        fields = ("email",)
        widgets = {  # noqa: RUF012 (read by the form's metaclass, never changed)
            "email": forms.EmailInput(
                attrs={"autocomplete": "email", "placeholder": "ada@example.com"}
            )
        }
