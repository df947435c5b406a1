"""Where the cassette of a test lies, and what it is called."""

from __future__ import annotations

import re
import unicodedata

import pytest

from tests.support.suite import Suite, failure


def test_a_cassette_lies_beside_its_module_by_module_and_test(suite: Suite) -> None:
    suite.pytester.mkpydir("deep")
    (suite.path / "deep" / "test_inner.py").write_text(
        "import pytest\nfrom agent import ask\n\n@pytest.mark.agent_cassette\ndef test_it(): ask('hello')\n"
    )

    suite.record("-p", "no:cacheprovider")

    assert suite.cassettes() == ["deep/cassettes/test_inner/test_it.jsonl"]


def test_the_names_of_classes_stand_before_the_test(suite: Suite) -> None:
    suite.write(
        """
        import pytest
        from agent import ask

        @pytest.mark.agent_cassette
        class TestOuter:
            def test_it(self):
                ask("hello")

            class TestInner:
                def test_it(self):
                    ask("hello")
        """
    )

    suite.record()

    assert suite.cassettes() == [
        "cassettes/test_it/TestOuter.TestInner.test_it.jsonl",
        "cassettes/test_it/TestOuter.test_it.jsonl",
    ]


def test_a_unittest_class_works_like_any_other(suite: Suite) -> None:
    suite.write(
        """
        import unittest
        import pytest
        from agent import ask

        @pytest.mark.agent_cassette
        class Case(unittest.TestCase):
            def setUp(self):
                ask("set up")

            def test_it(self):
                ask("hello")
        """
    )

    suite.record()
    result = suite.run()

    result.assert_outcomes(passed=1)
    assert suite.cassettes() == ["cassettes/test_it/Case.test_it.jsonl"]


PARAMETRIZED = """
import pytest
from agent import ask

@pytest.mark.agent_cassette
@pytest.mark.parametrize("value", [1], ids=[{!r}])
def test_it(value):
    ask("hello")
"""


@pytest.mark.parametrize(
    ("given", "pattern"),
    [
        ("plain", r"test_it\[plain\]\.jsonl"),
        ("a b", r"test_it\[a b\]\.jsonl"),
        ("openai/gpt:4*?", r"test_it\[openai-gpt-4--\]-[0-9a-f]{8}\.jsonl"),
        ("back\\slash", r"test_it\[back-+slash\]-[0-9a-f]{8}\.jsonl"),
        ("GPT", r"test_it\[GPT\]-[0-9a-f]{8}\.jsonl"),
        ("..", r"test_it\[\.\.\]\.jsonl"),
        ("x" * 300, r"test_it\[x{100,}-[0-9a-f]{8}\.jsonl"),
    ],
)
def test_a_parametrize_id_becomes_a_name_for_every_file_system(suite: Suite, given: str, pattern: str) -> None:
    suite.write(PARAMETRIZED.format(given))

    suite.record()
    result = suite.run()

    result.assert_outcomes(passed=1)
    [path] = suite.cassettes()
    folder, _, name = path.rpartition("/")
    assert folder == "cassettes/test_it"
    assert re.fullmatch(pattern, name)
    assert len(name.encode()) <= 200


def test_a_unicode_id_is_kept_where_pytest_keeps_it(suite: Suite) -> None:
    suite.ini("disable_test_id_escaping_and_forfeit_all_rights_to_community_support = true")
    suite.write(PARAMETRIZED.format("grün-漢字"))

    suite.record()
    result = suite.run()

    result.assert_outcomes(passed=1)
    [path] = suite.cassettes()
    assert path == "cassettes/test_it/test_it[grün-漢字].jsonl"


def test_a_long_unicode_id_is_cut_between_characters(suite: Suite) -> None:
    suite.ini("disable_test_id_escaping_and_forfeit_all_rights_to_community_support = true")
    suite.write(PARAMETRIZED.format("漢" * 300))

    suite.record()
    result = suite.run()

    result.assert_outcomes(passed=1)
    [path] = suite.cassettes()
    assert re.fullmatch(r"cassettes/test_it/test_it\[漢+-[0-9a-f]{8}\.jsonl", path)
    assert len(path.rpartition("/")[2].encode()) <= 200


def test_ids_that_differ_in_case_or_in_unsafe_characters_alone_get_files_that_differ_in_more(suite: Suite) -> None:
    suite.write(
        """
        import pytest
        from agent import ask

        @pytest.mark.agent_cassette
        @pytest.mark.parametrize("value", ["gpt", "GPT", "Gpt", "a/b", "a:b", "a-b"])
        def test_it(value):
            assert ask(value) == f"echo: {value}"
        """
    )

    suite.record()
    result = suite.run()

    result.assert_outcomes(passed=6)
    assert len({path.casefold() for path in suite.cassettes()}) == 6


def test_ids_that_some_file_systems_take_for_the_same_unicode_text_get_two_files(suite: Suite) -> None:
    suite.ini("disable_test_id_escaping_and_forfeit_all_rights_to_community_support = true")
    suite.write(PARAMETRIZED.replace("[1], ids=[{!r}]", r"['caf\u00e9', 'cafe\u0301']"))

    suite.record()

    paths = {unicodedata.normalize("NFC", path) for path in suite.cassettes()}
    assert len(paths) == 2


def test_functions_that_differ_in_case_alone_get_files_that_differ_in_more(suite: Suite) -> None:
    suite.write(
        """
        import pytest
        from agent import ask

        pytestmark = pytest.mark.agent_cassette

        def test_it(): ask("one")

        def test_IT(): ask("two")
        """
    )

    suite.record()

    assert len({path.casefold() for path in suite.cassettes()}) == 2


def test_the_marker_can_name_the_cassette(suite: Suite) -> None:
    suite.write(
        """
        import pytest
        from agent import ask

        @pytest.mark.agent_cassette("refunds/first")
        def test_positional(): ask("one")

        @pytest.mark.agent_cassette(name="second.jsonl")
        def test_by_keyword(): ask("two")
        """
    )

    suite.record()
    result = suite.run()

    result.assert_outcomes(passed=2)
    assert suite.cassettes() == ["cassettes/test_it/refunds/first.jsonl", "cassettes/test_it/second.jsonl"]


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        *((name, "must be a relative path without '..'*") for name in ("../out", "/etc/x", "a//b", "a/./b")),
        ("", "is empty: leave it out, or name the cassette"),
        ("a\\b", "must not hold *, which some file systems refuse"),
        ("c:x", "must not hold ':', which some file systems refuse"),
        (7, "must be a string"),
    ],
)
def test_a_name_that_no_cassette_can_have_is_refused_at_collection(suite: Suite, name: object, fault: str) -> None:
    suite.write(
        f"""
        import pytest

        @pytest.mark.agent_cassette(name={name!r})
        def test_it(): pass
        """
    )

    result = suite.run()

    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines([f"*test_it.py::test_it: *name=* {fault}"])


@pytest.mark.parametrize("place", ["class", "module"])
def test_a_name_on_a_class_or_module_is_refused_at_collection(suite: Suite, place: str) -> None:
    on_class, on_module = ("x", None) if place == "class" else (None, "x")
    suite.write(
        f"""
        import pytest

        pytestmark = pytest.mark.agent_cassette(name={on_module!r})

        @pytest.mark.agent_cassette(name={on_class!r})
        class TestIt:
            def test_it(self): pass
        """
    )

    result = suite.run()

    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*name='x' belongs on a test function; on a class all tests would share it"])


def test_the_folder_can_be_moved_by_overriding_its_fixture(suite: Suite) -> None:
    suite.write(
        """
        import pytest
        from agent import ask

        @pytest.fixture(scope="module")
        def agent_cassette_dir(request):
            return str(request.config.rootpath / "elsewhere")

        @pytest.mark.agent_cassette
        def test_it(): ask("hello")
        """
    )

    suite.record()
    result = suite.run()

    result.assert_outcomes(passed=1)
    assert suite.cassettes() == ["elsewhere/test_it.jsonl"]


def test_a_folder_inside_snapshots_is_refused(suite: Suite) -> None:
    suite.write(
        """
        import pytest

        @pytest.fixture(scope="module")
        def agent_cassette_dir(request):
            return request.path.parent / "__snapshots__"

        @pytest.mark.agent_cassette
        def test_it(): pass
        """
    )

    result = suite.run()

    result.assert_outcomes(errors=1)
    assert "__snapshots__, where snapshot tools delete foreign files" in failure(result)


def test_the_run_knows_where_its_cassette_is(suite: Suite) -> None:
    suite.write(
        """
        import pytest
        from agent import ask

        @pytest.mark.agent_cassette
        def test_it(agent_run):
            assert agent_run.cassette.name == "test_it.jsonl"
            assert agent_run.is_recording
            ask("hello")
        """
    )

    result = suite.record()

    result.assert_outcomes(passed=1)
