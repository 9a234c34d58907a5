"""SQLAlchemy: create_all with mysql_engine='TEAK', reflection equal to the created schema, ORM round trips, changes of
the schema; and FOREIGN KEYs, which Teak refuses."""

import datetime
import decimal
import enum
import warnings

import pymysql
import sqlalchemy
from sqlalchemy import (
    Column,
    Computed,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Numeric,
    String,
    Table,
    Text,
    UniqueConstraint,
    create_engine,
    event,
    func,
    inspect,
    select,
    text,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship
from sqlalchemy.schema import CreateTable

from .common import DATABASES, SOCKET, TYPE_TABLES, Checks

REFUSED = 1478


class Colour(enum.Enum):
    red = 1
    green = 2


def classes(engine_name):
    """The classes of the model, with tables of one engine."""

    class Base(DeclarativeBase):
        pass

    options = {"mysql_engine": engine_name, "mysql_charset": "utf8mb4"}

    class Author(Base):
        __tablename__ = "author"
        __table_args__ = (UniqueConstraint("name", name="author_name"), options)
        id: Mapped[int] = mapped_column(primary_key=True)
        name: Mapped[str] = mapped_column(String(80))
        colour: Mapped[Colour | None]
        # There is no FOREIGN KEY, because Teak rejects it. Only the program knows the relation.
        books: Mapped[list["Book"]] = relationship(
            back_populates="author",
            cascade="all, delete-orphan",
            order_by="Book.id",
            primaryjoin="Author.id == foreign(Book.author_id)",
        )

    class Book(Base):
        __tablename__ = "book"
        __table_args__ = (Index("book_author_published", "author_id", "published"), options)
        id: Mapped[int] = mapped_column(mysql.BIGINT(unsigned=True), primary_key=True)
        author_id: Mapped[int] = mapped_column(Integer)
        title: Mapped[str] = mapped_column(String(200), index=True, comment="as printed")
        price: Mapped[decimal.Decimal] = mapped_column(Numeric(10, 2), server_default="0.00")
        published: Mapped[datetime.datetime | None] = mapped_column(mysql.DATETIME(fsp=6))
        length: Mapped[datetime.time | None] = mapped_column(mysql.TIME(fsp=3))
        tags: Mapped[dict | None] = mapped_column(sqlalchemy.JSON)
        cover: Mapped[bytes | None] = mapped_column(mysql.MEDIUMBLOB)
        body: Mapped[str | None] = mapped_column(mysql.LONGTEXT)
        score: Mapped[float | None] = mapped_column(mysql.DOUBLE(asdecimal=False))
        key: Mapped[str | None] = mapped_column(sqlalchemy.Uuid(as_uuid=False))
        flags: Mapped[set | None] = mapped_column(mysql.SET("new", "sold", "old"))
        tax: Mapped[decimal.Decimal] = mapped_column(Numeric(10, 2), Computed("price / 10", persisted=True))
        author: Mapped[Author] = relationship(
            back_populates="books", primaryjoin="Author.id == foreign(Book.author_id)"
        )

    return Base, Author, Book


def connect(engine_name):
    return create_engine(
        f"mysql+pymysql://root@localhost/{DATABASES[engine_name]}?charset=utf8mb4", connect_args={"unix_socket": SOCKET}
    )


def reflected(engine, table):
    """The inspector's description of a table, except the engine's name."""
    seen = inspect(engine)
    options = {
        name: value
        for name, value in seen.get_table_options(table).items()
        if name not in ("mariadb_engine", "mysql_engine")
    }
    return {
        "columns": [{**column, "type": repr(column["type"])} for column in seen.get_columns(table)],
        "primary key": seen.get_pk_constraint(table),
        "indexes": sorted(seen.get_indexes(table), key=str),
        "unique": sorted(seen.get_unique_constraints(table), key=str),
        "foreign keys": seen.get_foreign_keys(table),
        "checks": sorted(seen.get_check_constraints(table), key=str),
        "comment": seen.get_table_comment(table),
        "options": {name.replace("mysql", "mariadb"): value for name, value in options.items()},
    }


def made_again(engine, table):
    """CREATE TABLE as SQLAlchemy writes it for the reflected table."""
    found = Table(table, MetaData(), autoload_with=engine)
    return str(CreateTable(found).compile(engine))


def schema(checks, engine_name, engine, base):
    name = f"sqlalchemy: {engine_name}"
    base.metadata.create_all(engine)
    for table in base.metadata.sorted_tables:
        seen = inspect(engine)
        options = seen.get_table_options(table.name)
        made = options.get("mariadb_engine") or options.get("mysql_engine")
        checks.same(f"{name}: {table.name} is in the engine", made.upper(), engine_name.upper())
        found = Table(table.name, MetaData(), autoload_with=engine)
        dialect = engine.dialect
        checks.same(
            f"{name}: {table.name}: reflected columns",
            [(column.name, kind(column, dialect), nullable(column), column.comment) for column in found.columns],
            [(column.name, kind(column, dialect), nullable(column), column.comment) for column in table.columns],
        )
        checks.same(f"{name}: {table.name}: reflected keys", keys(found), keys(table))
    base.metadata.create_all(engine)  # creates nothing, because all tables exist


def nullable(column):
    return bool(column.nullable) or column.computed is not None  # generated columns cannot be declared NOT NULL


def kind(column, dialect):
    """The type as SQL. Reflection does not show aliases of types and default character sets."""
    words = column.type.compile(dialect).upper().split(" CHARACTER SET ")[0].split(" COLLATE ")[0]
    aliases = {"INTEGER": "INT", "NUMERIC": "DECIMAL", "JSON": "LONGTEXT"}
    first = words.split("(")[0].split(" ")[0]
    words = words.replace(first, aliases.get(first, first), 1).replace(", ", ",")
    return "INT" if words.startswith("INT(") else "BIGINT UNSIGNED" if words.startswith("BIGINT(") else words


def keys(table):
    listed = [(index.name, bool(index.unique), [column.name for column in index.columns]) for index in table.indexes]
    listed += [
        (constraint.name, True, [column.name for column in constraint.columns])
        for constraint in table.constraints
        if isinstance(constraint, UniqueConstraint)
    ]
    return sorted(set(map(str, listed))), [column.name for column in table.primary_key.columns]


def orm(checks, engine_name, engine, author_class, book_class):
    name = f"sqlalchemy: {engine_name}"
    book = {
        "price": decimal.Decimal("12.34"),
        "published": datetime.datetime(2024, 2, 29, 23, 59, 59, 999999),
        "length": datetime.time(1, 2, 3, 4000),
        "tags": {"ü": [1, None, 2.5]},
        "cover": bytes(range(256)) * 1000,
        "body": "😀" * 30000,
        "score": 0.1,
        "key": "123e4567-e89b-12d3-a456-426655440000",
        "flags": {"new", "old"},
    }
    with Session(engine) as session:
        author = author_class(
            name="Ann", colour=Colour.green, books=[book_class(title=f"Book {n}", **book) for n in range(20)]
        )
        author.books.append(book_class(title="Empty"))
        session.add(author)
        session.commit()
        identity = author.id
    with Session(engine) as session:
        author = session.get(author_class, identity)
        checks.same(
            f"{name}: relation", [found.title for found in author.books], [f"Book {n}" for n in range(20)] + ["Empty"]
        )
        found = author.books[7]
        checks.same(f"{name}: values", {column: getattr(found, column) for column in book}, book)
        checks.same(f"{name}: generated column", found.tax, decimal.Decimal("1.23"))
        empty = author.books[20]
        checks.same(
            f"{name}: NULLs and defaults",
            [getattr(empty, column) for column in book],
            [decimal.Decimal("0.00")] + [None] * (len(book) - 1),
        )
        total = session.execute(
            select(func.count(), func.sum(book_class.price)).where(book_class.author_id == identity)
        ).one()
        checks.same(f"{name}: aggregate", tuple(total), (21, decimal.Decimal("246.80")))
        with session.begin_nested() as nested:
            found.title = "Renamed"
            session.flush()
            nested.rollback()
        session.expire_all()
        checks.same(f"{name}: begin_nested", found.title, "Book 7")
        author.books.remove(found)
        session.add(author_class(name="Bob"))
        session.commit()
        checks.same(f"{name}: delete-orphan", session.scalar(select(func.count()).select_from(book_class)), 20)
        session.add(author_class(name="Ann"))
        checks.raises(f"{name}: unique", pymysql.constants.ER.DUP_ENTRY, session.flush)
        session.rollback()
        locked = session.scalars(select(author_class).where(author_class.name == "Bob").with_for_update()).one()
        session.delete(locked)
        session.commit()
    with Session(engine) as session:
        statement = mysql.insert(author_class).values(name="Ann", colour=Colour.red)
        session.execute(statement.on_duplicate_key_update(colour=statement.inserted.colour))
        session.execute(sqlalchemy.insert(author_class), [{"name": f"Many {n}"} for n in range(1000)])
        session.commit()
        checks.same(
            f"{name}: upsert",
            session.scalars(select(author_class.colour).where(author_class.name == "Ann")).all(),
            [Colour.red],
        )
        streamed = session.scalars(select(author_class.name).order_by(author_class.id).execution_options(yield_per=50))
        checks.same(f"{name}: yield_per", len(list(streamed)), 1001)


def alterations(checks, engine_name, engine):
    """The statements of alembic for the usual changes."""
    name = f"sqlalchemy: {engine_name}"
    statements = [
        "ALTER TABLE book ADD COLUMN pages INTEGER NOT NULL DEFAULT 7",
        "ALTER TABLE book MODIFY pages BIGINT NULL",
        "ALTER TABLE book CHANGE pages sheets BIGINT NULL",
        "CREATE INDEX book_sheets ON book (sheets, title)",
        "ALTER TABLE book ALTER COLUMN sheets SET DEFAULT 8",
        "CREATE UNIQUE INDEX book_whole ON book (id, sheets)",
        "DROP INDEX book_whole ON book",
        "ALTER TABLE book COMMENT 'changed'",
        "ALTER TABLE book DROP COLUMN score",
        "ALTER TABLE book RENAME TO volume",
    ]
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
        found = connection.execute(
            text("SELECT COUNT(*), SUM(sheets) FROM volume FORCE INDEX (book_sheets) WHERE sheets = 7")
        ).one()
        checks.same(f"{name}: rows after the changes", tuple(found), (20, 140))


def foreign_keys(checks, engine):
    metadata = MetaData()
    Table("parent", metadata, Column("id", Integer, primary_key=True), mysql_engine="TEAK")
    Table(
        "child",
        metadata,
        Column("id", Integer, primary_key=True),
        Column("parent_id", ForeignKey("parent.id")),
        Column("note", Text),
        mysql_engine="TEAK",
    )
    checks.raises("sqlalchemy: TEAK: ForeignKey is refused", REFUSED, lambda: metadata.create_all(engine))
    metadata.drop_all(engine)

    # Prevents the constraint for Teak tables; the model retains its ForeignKey.
    for table in metadata.tables.values():
        for constraint in list(table.foreign_key_constraints):
            table.constraints.discard(constraint)
    metadata.create_all(engine)
    found = inspect(engine)
    checks.check(
        "sqlalchemy: TEAK: without the constraint it is made",
        found.has_table("child") and found.get_foreign_keys("child") == [],
        "child is missing or has the constraint",
    )


def main():
    checks = Checks()
    # INET4, INET6 and geometries are read as NullType.
    warnings.filterwarnings("ignore", message="Did not recognize type", category=sqlalchemy.exc.SAWarning)
    print(f"-- SQLAlchemy {sqlalchemy.__version__}, PyMySQL {pymysql.VERSION_STRING}")
    engines = {name: connect(name) for name in DATABASES}
    for engine in engines.values():
        event.listen(engine, "connect", lambda connection, _: connection.cursor().execute("SET time_zone = '+00:00'"))
    for table in TYPE_TABLES:
        with checks.part(f"sqlalchemy: {table}"):
            checks.same(
                f"sqlalchemy: {table}: reflection",
                reflected(engines["TEAK"], table),
                reflected(engines["InnoDB"], table),
            )
    for name, engine in engines.items():
        with checks.part(f"sqlalchemy: {name}"):
            base, author_class, book_class = classes(name)
            schema(checks, name, engine, base)
            orm(checks, name, engine, author_class, book_class)
    with checks.part("sqlalchemy: reflection of what was made"):
        for table in ("author", "book"):
            checks.same(
                f"sqlalchemy: {table}: made again",
                made_again(engines["TEAK"], table).replace("TEAK", "InnoDB"),
                made_again(engines["InnoDB"], table),
            )
    for name, engine in engines.items():
        with checks.part(f"sqlalchemy: {name}: changes"):
            alterations(checks, name, engine)
    with checks.part("sqlalchemy: foreign keys"):
        foreign_keys(checks, engines["TEAK"])
    checks.end()


if __name__ == "__main__":
    main()
