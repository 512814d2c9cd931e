import pytest
from django_workpool import Workpool
from django_workpool.testing import run_pass, drain
from tests.app import smoke
@pytest.mark.django_db(transaction=True, databases=["default","other"])
def test_smoke(django_assert_max_num_queries):
    pool = Workpool("smoke", max_parallelism=3)
    w = pool.enqueue_action(smoke.add, {"a": 1, "b": 2})
    m = pool.enqueue_mutation(smoke.note, {"text": "x"})
    b = pool.enqueue_action_batch(smoke.add, [{"a": i, "b": 1} for i in range(5)])
    print(pool.status(w), pool.debug_counts())
    p = run_pass("smoke")
    print(p)
    print(pool.status(w), pool.debug_counts())
    print(pool.explain(b[4]))
    print(pool.explain(w))
    print(drain())
    print(pool.status(w), pool.debug_counts(), pool.result(w), pool.result(m))
    print(pool.status_batch(b))
    c = pool.enqueue_action(smoke.add, {"a": 1, "b": 2})
    print(pool.cancel(c)); run_pass("smoke"); print(pool.status(c), pool.diagnostics(), pool.running())
    a = pool.enqueue_action(smoke.aadd, {"a": 1, "b": 2}); drain(); print(pool.result(a))
