"""The mutants can be planted, and a few of them are noticed; `make mutants` tries all."""

from __future__ import annotations

import os
import random

import pytest
from plant import PACKAGE, ROOT, Mutant, planted, read_mutants, run, try_one

MUTANTS = read_mutants()
SEED = os.environ.get("PYTEST_XDIST_TESTRUNUID") or random.randrange(1_000_000)  # the same for all workers


def test_it_can_be_planted(subtests: pytest.Subtests) -> None:
    """The file has what it replaces once, is Python with it as well, and the tests that notice it exist."""
    for mutant in MUTANTS:
        with subtests.test(mutant.name):
            changed = mutant.planted((PACKAGE / mutant.file).read_text(encoding="utf-8"))
            compile(changed, mutant.file, "exec")
            assert mutant.tests
            for test in mutant.tests:
                path, _, name = test.partition("::")
                assert f"def {name.partition('[')[0]}(" in (ROOT / path).read_text(encoding="utf-8")


def test_there_are_many() -> None:
    """At least forty, of different names."""
    assert len({mutant.find + mutant.replace for mutant in MUTANTS}) == len(MUTANTS) >= 40


def test_the_copy_is_what_is_imported() -> None:
    """Otherwise every mutant would be noticed by nothing, or by chance."""
    with planted(MUTANTS[0]) as environment:
        status, output = run(environment, "-c", "import trio_mcp; print(trio_mcp.__file__)")
    assert status == 0
    assert output.startswith(environment["PYTHONPATH"].partition(os.pathsep)[0])


@pytest.mark.parametrize("mutant", random.Random(SEED).sample(MUTANTS, 3), ids=lambda mutant: mutant.name)
def test_its_tests_notice_it(mutant: Mutant) -> None:
    """Three by chance; their names are those of these tests."""
    assert try_one(mutant, programs=0)[1] is not None
