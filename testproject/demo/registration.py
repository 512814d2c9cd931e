"""Sign-up: the row and its work, in one transaction."""

from __future__ import annotations

from django.db import transaction

from demo.models import SignUp
from demo.workpools import emails, send_verification


def register(email: str) -> SignUp:
    """Create the sign-up and enqueue its mail: both happen, or neither.

    A mail for a sign-up that was rolled back is impossible, and so is a sign-up whose
    mail was forgotten.
    """
    with transaction.atomic():
        sign_up = SignUp.objects.create(email=email)
        work = emails.enqueue_action(send_verification, {"user_id": sign_up.pk})
        sign_up.work_id = work.id
        sign_up.save(update_fields=["work_id"])
    return sign_up
