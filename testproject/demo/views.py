"""The page: sign up, and watch the pools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import messages
from django.core import signing
from django.http import Http404, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods

from demo import overview
from demo.forms import SignUpForm
from demo.models import SignUp
from demo.registration import register
from demo.workpools import VERIFICATION_SALT

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def index(request: HttpRequest) -> HttpResponse:
    """Show the form and the pools; sign somebody up on POST."""
    form = SignUpForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        sign_up = register(form.cleaned_data["email"])
        messages.success(request, f"Work {sign_up.work_id} mails {sign_up.email}.")
        return redirect("demo:index")
    context = {"form": form, "pools": overview.pools()}
    return render(request, "demo/index.html", context)


@never_cache
@require_GET
def status(request: HttpRequest) -> JsonResponse:
    """Answer what the page's script asks every second."""
    return JsonResponse({"pools": overview.pools()})


@never_cache
@require_GET
def verify(request: HttpRequest, token: str) -> HttpResponse:
    """Follow the link of the mail."""
    try:
        key = signing.loads(token, salt=VERIFICATION_SALT)
    except signing.BadSignature as error:
        message = "This link is not one of ours. Follow the one of the mail."
        raise Http404(message) from error
    sign_up = get_object_or_404(SignUp, pk=key)
    if sign_up.verified_at is None:
        sign_up.verified_at = timezone.now()
        sign_up.save(update_fields=["verified_at"])
    messages.success(request, f"{sign_up.email} is verified.")
    return redirect("demo:index")
