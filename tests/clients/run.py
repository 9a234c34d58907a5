"""Stock clients and tools on Teak and on InnoDB. Each program runs the same operations on both and compares all
results.

  python3 -m tests.clients.run [PROGRAM...]      dump mydumper jdbc pymysql mysql2 rust sqlalchemy django; default: all

A program prints PASS and FAIL lines and counts as one test. The packages that it needs are installed first: from Debian, PyPI,
npm, Maven Central and crates.io, into build/clients where that is possible.
"""

import argparse
import os
import shutil
import subprocess
import sys

from tests.harness import BUILD, ROOT, Server, finish, free_port

HERE = ROOT / "tests" / "clients"
WORK = BUILD / "clients"
ENGINES = ("TEAK", "InnoDB")


class Failed(Exception):
    """A program or an installation that ended with an error."""


def say(text):
    print(f"-- {text}", flush=True)


def run(*command, **options):
    status = subprocess.run([*map(str, command)], check=False, **options).returncode
    if status:
        raise Failed(f"{command[0]} ended with status {status}")


# ---- packages --------------------------------------------------------------------------------------------------------


def debian(command, *packages):
    """Installs the Debian packages if there is no such command."""
    if shutil.which(command):
        return
    say(f"installing {' '.join(packages)}")
    root = [] if os.geteuid() == 0 else ["sudo"]
    with open(WORK / "apt.log", "w") as log:
        run(*root, "apt-get", "-y", "-q", "update", stdout=log, stderr=log)
        run(*root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-y", "-q", "install", "--no-install-recommends", *packages,
            stdout=log, stderr=log)


def python_with(*names):
    """The Python interpreter of a virtual environment with the package versions of requirements.txt."""
    python = WORK / "venv" / "bin" / "python"
    if not python.exists():
        run(sys.executable, "-m", "venv", WORK / "venv")
    pip = [python, "-m", "pip", "--disable-pip-version-check"]
    have = subprocess.run([*map(str, pip), "list", "--format=freeze"], capture_output=True, text=True, check=True).stdout.lower().split()
    wanted = [line for line in (HERE / "requirements.txt").read_text().splitlines() if line.lower().partition("==")[0] in names]
    missing = [requirement for requirement in wanted if requirement.lower() not in have]
    if missing:
        say(f"installing {' '.join(missing)}")
        run(*pip, "install", "--quiet", *missing)
    return python


# ---- the programs: each returns the command that runs it -------------------------------------------------------------


def module(python, name):
    return [python, "-m", f"tests.clients.{name}"]


def dump():
    return module(sys.executable, "dump")


def mydumper():
    debian("mydumper", "mydumper")
    return module(sys.executable, "mydumper")


def pymysql():
    return module(python_with("pymysql"), "pymysql_client")


def sqlalchemy():
    return module(python_with("pymysql", "sqlalchemy"), "sqlalchemy_client")


def django():
    return module(python_with("pymysql", "django"), "django_client")


def jdbc():
    debian("javac", "default-jdk-headless")
    debian("mvn", "maven")
    source, java = HERE / "jdbc", WORK / "java"
    project, used = source / "pom.xml", java / "lib" / ".pom"
    if not used.exists() or used.read_bytes() != project.read_bytes():
        shutil.rmtree(java, ignore_errors=True)
        (java / "lib").mkdir(parents=True)
        run("mvn", "-q", "-B", "-f", project, "dependency:copy-dependencies", f"-DoutputDirectory={java}/lib")
        shutil.copy(project, used)
    (java / "classes").mkdir(parents=True, exist_ok=True)
    run("javac", "-Xlint:all", "-Werror", "-d", java / "classes", "-cp", f"{java}/lib/*", *source.glob("*.java"))
    return ["java", "-Xmx256m", "-cp", f"{java}/classes:{java}/lib/*", "Main"]


def mysql2():
    debian("node", "nodejs")
    debian("npm", "npm")
    folder = WORK / "node"
    folder.mkdir(parents=True, exist_ok=True)
    for file in [HERE / "mysql2" / "package.json", *(HERE / "mysql2").glob("*.js")]:
        shutil.copy(file, folder)
    run("npm", "install", "--silent", "--no-package-lock", "--no-audit", "--no-fund", cwd=folder)
    return ["node", folder / "main.js"]


def rust():
    os.environ["CARGO_TARGET_DIR"] = str(WORK / "rust")
    return ["cargo", "run", "--quiet", "--locked", "--manifest-path", HERE / "rust" / "Cargo.toml"]


PROGRAMS = {program.__name__: program for program in (dump, mydumper, jdbc, pymysql, mysql2, rust, sqlalchemy, django)}


# ---- a run -----------------------------------------------------------------------------------------------------------


def fill(server):
    """Creates clients_teak and clients_innodb from schema.sql and rows.sql."""
    for engine in ENGINES:
        database = f"clients_{engine.lower()}"
        sql = (f"DROP DATABASE IF EXISTS {database};\nCREATE DATABASE {database} CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;\n"
               f"USE {database};\nSET default_storage_engine = {engine};\nSOURCE {HERE}/schema.sql;\nSOURCE {HERE}/rows.sql;\n")
        run("mariadb", "--no-defaults", f"--socket={server.socket}", "-uroot", "--default-character-set=utf8mb4", input=sql.encode())


def run_program(name, server, environment):
    """Runs one program; returns the number of its checks that passed and that failed."""
    print(f"\n== {name}", flush=True)
    passed = failed = 0
    try:
        fill(server)
        command = [*map(str, PROGRAMS[name]())]
        with subprocess.Popen(command, cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace") as process, open(WORK / f"{name}.log", "w") as log:
            for line in process.stdout:
                print(line, end="", flush=True)
                log.write(line)
                passed += line.startswith("PASS ")
                failed += line.startswith("FAIL ")
        if process.returncode and not failed or not passed and not failed:
            raise Failed(f"the program ended with status {process.returncode} after {passed} checks")
    except (Failed, OSError, subprocess.SubprocessError) as error:
        print(f"FAIL {name}: {error}", flush=True)
        failed += 1
    return passed, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=" ".join(PROGRAMS))
    names = parser.parse_args().programs or list(PROGRAMS)
    for name in names:
        if name not in PROGRAMS:
            parser.error(f"there is no program {name}: {' '.join(PROGRAMS)}")
    WORK.mkdir(parents=True, exist_ok=True)
    server = Server(WORK / f"server-{os.getpid()}", ["--cache=64M", "--innodb-flush-log-at-trx-commit=2"], free_port())
    server.start()
    environment = {"CLIENTS_PORT": str(server.port), "CLIENTS_SOCKET": server.socket, "CLIENTS_WORK": str(WORK)}
    try:
        results = {name: run_program(name, server, environment) for name in names}
    finally:
        server.stop()
        shutil.copy(server.directory / "error.log", WORK / "error.log")
        server.remove()
    print()
    for name, (passed, failed) in results.items():
        print(f"{name:10} {passed:4} checks passed, {failed} failed")
    bad = sum(failed > 0 for _, failed in results.values())
    return finish(len(names) - bad, bad, f"{sum(passed + failed for passed, failed in results.values()):,} checks of {len(names)} programs")


if __name__ == "__main__":
    sys.exit(main())
