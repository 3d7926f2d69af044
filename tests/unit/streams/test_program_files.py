"""A program is more than its file: what it imports, from wherever its team put it, and the settings that it names."""

from pathlib import Path

import pytest

from recovery.streams import commands, files, imports

SHOP = {
    "jobs/run.py": "import os, sys\nfrom shop.core import config\nfrom shop.streams.orders import Orders\n",
    "shop/__init__.py": "",
    "shop/core/__init__.py": "",
    "shop/core/config.py": "from pathlib import Path\nHERE = Path('x') / 'conf'\n",
    "shop/streams/__init__.py": "",
    "shop/streams/orders.py": "from ..core import session\nfrom . import helpers\n",
    "shop/streams/helpers.py": "",
    "shop/streams/unused.py": "",
    "shop/core/session.py": "from pyspark.sql import SparkSession\n",
    "conf/dev.json": "{}",
    "conf/db-password.json": "{}",
    "data/rows.json": "{}",
    "other.py": "",
}


@pytest.fixture
def app(tmp_path: Path) -> Path:
    for name, text in SHOP.items():
        place = tmp_path / "srv" / "app" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return tmp_path / "srv" / "app"


def test_input_that_lies_beside_a_program_is_no_part_of_it(app: Path) -> None:
    program = app / "orders.py"
    program.write_text("import sys\nbase = sys.argv[1]\nread(f'{base}/in').write(f'{base}/out')\n")
    for name in ("in/0001.json", "out/_spark_metadata/0.json", ".reprise-R-1.undo.json"):
        (app / name).parent.mkdir(parents=True, exist_ok=True)
        (app / name).write_text("{}")
    assert list(files.program_files(str(program), [str(app)])) == [str(program)]


def test_a_link_beside_a_program_brings_no_file_of_another_folder(app: Path, tmp_path: Path) -> None:
    (tmp_path / "login.json").write_text("{}")
    (app / "shop" / "streams" / "helpers.py").unlink()
    for link in (app / "conf" / "dev.json", app / "shop" / "streams" / "helpers.py"):
        link.unlink(missing_ok=True)
        link.symlink_to(tmp_path / "login.json")
    read = files.program_files(str(app / "jobs/run.py"))
    assert not {"dev.json", "helpers.py"} & {Path(path).name for path in read}


def test_a_patched_file_keeps_who_may_read_and_start_it(app: Path) -> None:
    program = app / "jobs" / "run.py"
    program.chmod(0o750)
    files.write_file(str(program), b"x = 1\n")
    assert (program.read_text(), program.stat().st_mode & 0o777) == ("x = 1\n", 0o750)


def test_modules_of_packages_above_and_settings_that_are_named_belong_to_it(app: Path) -> None:
    found = files.program_files(str(app / "jobs/run.py"))
    assert sorted(Path(path).relative_to(app).as_posix() for path in found) == [
        "conf/dev.json", "jobs/run.py", "shop/__init__.py", "shop/core/__init__.py", "shop/core/config.py",
        "shop/core/session.py", "shop/streams/__init__.py", "shop/streams/helpers.py", "shop/streams/orders.py",
    ]  # fmt: skip
    assert imports.common_folder(list(found)) == str(app)


def test_a_file_of_settings_may_be_named_by_an_argument(tmp_path: Path) -> None:
    for name in ("job.py", "prod.yaml", "dev.yaml", "secrets.yaml"):
        (tmp_path / name).write_text("")
    told = files.program_files(str(tmp_path / "job.py"), [f"--conf={tmp_path}/prod.yaml", "secrets.yaml"])
    assert [Path(path).name for path in told] == ["job.py", "prod.yaml"]


JOB = """\
import os, sys
HERE = os.path.dirname(os.path.abspath(__file__))
{0}
import yaml
from readers import orders
import unused
"""


@pytest.mark.parametrize(
    "named",
    [
        "sys.path.append(os.path.join(HERE, '../lib'))\nopen(os.path.join(HERE, '../application.yml'))",
        "LIB = HERE + '/../lib/'\nsys.path.insert(0, LIB)\nopen(f'{HERE}/../application.yml')",
        "sys.path += [str(Path(HERE).parent / 'lib')]\nopen(Path(HERE).parent / 'application.yml')",
    ],
)
def test_modules_and_settings_in_a_folder_beside_it_belong_to_it_where_its_code_names_them(
    tmp_path: Path, named: str
) -> None:
    texts = {
        "src/job.py": JOB.format(named), "lib/readers/__init__.py": "", "lib/readers/orders.py": "",
        "application.yml": "", "other.yml": "", "misc/unused.py": "", "lib/more.py": "",
    }  # fmt: skip
    for name, text in texts.items():
        place = tmp_path / "srv" / "app" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    found = files.program_files(str(tmp_path / "srv/app/src/job.py"))
    assert sorted(Path(path).relative_to(tmp_path / "srv/app").as_posix() for path in found) == [
        "application.yml", "lib/readers/__init__.py", "lib/readers/orders.py", "src/job.py",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (["env", "SHOP_ENV=prod", "PATH=/bin", "DB_PASSWORD=x", "python", "A=b"], {"SHOP_ENV": "prod"}),
        (["/usr/bin/env", "SPARK_HOME=/x", "TEAM=a=b", "java"], {"TEAM": "a=b"}),
        (["python", "SHOP_ENV=prod"], {}),
        ([], {}),
    ],
)
def test_variables_of_a_start_command_are_known_to_its_code_but_for_secrets(
    words: list[str], given: dict[str, str]
) -> None:
    assert commands.variables_of(words) == given


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (
            ["spark-submit", "--conf", "spark.shop.least=5", "--conf=spark.sql.ansi.enabled=false", "job.py"],
            {"spark.shop.least": "5", "spark.sql.ansi.enabled": "false"},
        ),
        (["spark-submit", "-c", "spark.shop.where=a=b", "job.py"], {"spark.shop.where": "a=b"}),
        (["spark-submit", "--conf", "spark.hadoop.fs.s3a.access=x", "--conf", "spark.shop.token=x"], {}),
        (["spark-submit", "--conf", "spark.shop.url=jdbc:x?password=y", "--conf", "other=1", "--conf"], {}),
        (["x", "--conf", "spark.mongodb.write.connection.uri=mongodb://etl:hunter2@h/db"], {}),
        (["x", "--conf", "spark.shop.store=postgres://u:hunter2@h/db"], {}),
        (["x", "--conf", "spark.ops.aws=AKIAIOSFODNN7EXAMPLE", "--conf", "spark.shop.sas=sv=1&sig=ab"], {}),
        (["x", "--conf", "spark.shop.authorColumn=a"], {"spark.shop.authorColumn": "a"}),
        (["x", "--conf", "spark.shop.pwd=hunter2", "--conf", "spark.shop.dsn=u:hunter2@h"], {}),
        (["x", "--conf", "spark.gh=ghp_0123456789abcdefghijABCDEFGHIJ012345"], {}),
        (
            ["x", "--conf", "spark.sql.mapKeyDedupPolicy=LAST_WIN", "--conf", "spark.shop.keyColumn=id"],
            {"spark.sql.mapKeyDedupPolicy": "LAST_WIN", "spark.shop.keyColumn": "id"},
        ),
    ],
)
def test_settings_of_a_start_command_are_known_to_its_code_but_for_secrets(
    words: list[str], given: dict[str, str]
) -> None:
    assert commands.read_conf_settings(words) == given


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (["env", "-i", "-u", "X", "MIN=5", "python"], {"MIN": "5"}),
        (["env", "--chdir=/x", "PASSTHROUGH=1", "AUTHOR=a", "python"], {"PASSTHROUGH": "1", "AUTHOR": "a"}),
        (["env", "DBPASS=1", "PASSWORD=1", "DB_AUTH=1", "AUTH_HEADER=1", "API_KEY=1", "PASS_2=1", "x"], {}),
    ],
)
def test_variables_count_behind_options_and_unless_a_word_of_theirs_is_a_secrets(
    words: list[str], given: dict[str, str]
) -> None:
    assert commands.variables_of(words) == given


CLIMBS = "from pathlib import Path\nHERE = Path(__file__).parent\n(HERE.parent / 'conf' / 'config.json').read_text()\n"


def lay_out(top: Path, held: dict[str, str]) -> None:
    for name, text in held.items():
        place = top / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)


def beside(top: Path, program: str) -> set[str]:
    return {str(Path(path).relative_to(top)) for path in files.program_files(str(top / program))} - {program}


def test_the_notebooks_that_a_program_runs_in_its_place_go_with_it_if_they_are_in_its_folder(
    tmp_path: Path,
) -> None:
    top = tmp_path / "home" / "etl"
    lay_out(
        top,
        {
            "app/main.py": "# MAGIC %run ./lib/a\n# MAGIC %run ../out\n# MAGIC %run ./linked\n# MAGIC %run ./key\n"
            "# MAGIC %run ./away/other\n# MAGIC %run ./gone\n# MAGIC %run ./main\n",
            "app/lib/a.py": "# MAGIC %run ../b.py\n",
            "app/b.py": "import helper\n",
            "app/helper.py": "",
            "app/key": "",
            "out.py": "",
            "elsewhere/other.py": "",
        },
    )
    (top / "app/linked.py").symlink_to(top / "out.py")
    (top / "app/away").symlink_to(top / "elsewhere")
    assert beside(top, "app/main.py") == {"app/lib/a.py", "app/b.py", "app/helper.py"}


def test_of_folders_above_only_those_that_the_code_names_hold_settings(tmp_path: Path) -> None:
    top = tmp_path / "home"
    lay_out(
        top,
        {
            "alice/etl.py": CLIMBS,
            "conf/config.json": "{}",
            "config.json": "{}",
            "bob/config.json": "{}",
            "bob/config/db.json": "{}",
        },
    )
    assert beside(top, "alice/etl.py") == {"conf/config.json", "config.json"}


def test_settings_above_are_those_above_the_program_not_above_its_modules(tmp_path: Path) -> None:
    top = tmp_path / "a" / "b"
    lay_out(
        top,
        {
            "c/d/e/f/g/etl.py": CLIMBS + "import common\n",
            "c/d/common.py": "",
            "config.json": "{}",
            "c/config.json": "{}",
        },
    )
    assert beside(top, "c/d/e/f/g/etl.py") == {"c/d/common.py"}


def test_a_file_above_that_is_too_large_is_another_programs(tmp_path: Path) -> None:
    lay_out(tmp_path, {"home/alice/etl.py": CLIMBS, "home/config.json": " " * (files.LARGEST + 1)})
    assert beside(tmp_path / "home", "alice/etl.py") == set()


def test_a_folder_that_is_a_link_to_elsewhere_brings_no_file(tmp_path: Path) -> None:
    program = "org/team/srv/app/etl.py"
    lay_out(tmp_path, {program: CLIMBS, "elsewhere/a.json": "{}", "org/team/srv/shared/b.json": "{}"})
    conf = tmp_path / "org/team/srv/app/conf"
    conf.symlink_to(tmp_path / "elsewhere")
    assert beside(tmp_path, program) == set()
    conf.unlink()
    conf.symlink_to(tmp_path / "org/team/srv/shared")
    assert beside(tmp_path, program) == {"org/team/srv/app/conf/b.json"}


@pytest.mark.parametrize("name", ["service-account.json", "apikey.json", "api_key.json", "db_pwd.json"])
def test_a_file_that_is_called_as_a_login_is_no_setting(name: str) -> None:
    assert not imports.is_named(f"/srv/app/conf/{name}", frozenset({"conf", name}))


def test_nothing_is_above_a_bucket() -> None:
    assert imports.folders_above("s3://bucket/jobs") == ["s3://bucket/jobs", "s3://bucket"]


@pytest.mark.parametrize(
    "content", [b"x = " + b"-" * 100_000 + b"1", b"a\n" * imports.LARGEST_MODULE], ids=["nested", "long"]
)
def test_a_program_that_no_one_would_write_has_no_imports(content: bytes) -> None:
    assert imports.read_names(content) == imports.Names()
