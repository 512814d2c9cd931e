from django_workpool import action, mutation
from tests.app.models import Effect
from django_workpool import current_work
@action
def add(a, b): return a + b
@action
async def aadd(a, b): return a + b
@mutation
def note(text):
    cw = current_work()
    Effect.objects.create(work_id=cw.work_id, attempt=cw.attempt, what=text)
    return text
