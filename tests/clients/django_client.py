"""Django: migrate a project with auth, contenttypes, sessions and a model with fields of almost all types in Teak and in
InnoDB, write and read through the ORM, change the schema, dump and load; and FOREIGN KEYs, which Teak refuses."""

import datetime
import decimal
import io
import uuid

import django
import pymysql
from django.conf import settings

from .common import DATABASES, SOCKET, Checks, Connection, tables_of

pymysql.install_as_MySQLdb()
REFUSED = 1478
ALIASES = {"TEAK": "default", "InnoDB": "innodb"}
NAMES = {engine: name + "_django" for engine, name in DATABASES.items()}


def database(engine, backend, name):
    return {
        "ENGINE": backend,
        "NAME": name,
        "USER": "root",
        "HOST": SOCKET,
        "OPTIONS": {"charset": "utf8mb4", "init_command": f"SET default_storage_engine={engine}"},
    }


def configure():
    settings.configure(
        INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "django.contrib.sessions", "tests.clients.shelf"],
        DATABASES={
            "default": database("TEAK", "tests.clients.teak_django", NAMES["TEAK"]),
            "innodb": database("InnoDB", "django.db.backends.mysql", NAMES["InnoDB"]),
            "plain": database("TEAK", "django.db.backends.mysql", "clients_plain_django"),
        },
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        USE_TZ=True,
        SECRET_KEY="test",
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
    )
    django.setup()


def migrate(checks, engine, connection):
    from django.core.management import call_command
    from django.db import connections

    alias, name = ALIASES[engine], f"django: {engine}"
    call_command("migrate", database=alias, verbosity=0)
    tables = tables_of(connection, NAMES[engine])
    found = {
        row[0].decode().upper()
        for row in connection.run(
            f"SELECT DISTINCT engine FROM information_schema.tables WHERE table_schema = '{NAMES[engine]}'"
        )
    }
    checks.check(
        f"{name}: migrate",
        {"auth_user", "django_session", "shelf_item", "shelf_item_topics"} <= set(tables),
        str(tables),
    )
    checks.same(f"{name}: every table is in the engine", found, {engine.upper()})
    output = io.StringIO()
    call_command("migrate", database=alias, check_unapplied=True, stdout=output)
    with connections[alias].cursor() as cursor:
        introspection = connections[alias].introspection
        described = {
            table: [tuple(column) for column in introspection.get_table_description(cursor, table)] for table in tables
        }
        keys = {table: keys_of(introspection.get_constraints(cursor, table).values()) for table in tables}
        sequences = {table: introspection.get_sequences(cursor, table) for table in tables}
    return described, keys, sequences


def keys_of(constraints):
    """The columns of each constraint, and whether it is unique, primary or a CHECK. Ignores the index of a FOREIGN KEY
    on columns that have a unique key."""
    found = {}
    for each in constraints:
        kinds = (each["unique"], each["primary_key"], each["check"])
        found[tuple(each["columns"])] = max(kinds, found.get(tuple(each["columns"]), kinds))
    return sorted(found.items())


def values(topic, owner, number):
    return dict(
        big=-(2**63),
        binary=bytes(range(256)),
        boolean=True,
        char=f"ß😀 {number}",
        date=datetime.date(1, 1, 1),
        moment=datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.timezone.utc),
        money=decimal.Decimal("-9999999999999999.9999"),
        duration=datetime.timedelta(days=-1, microseconds=1),
        email="a@example.org",
        file="files/a",
        path="/tmp/a",
        number=0.1,
        address="2001:db8::1",
        integer=2**31 - 1,
        document={"a": [1, 2.5, None, "ü"]},
        positive=2**31 - 1,
        positive_big=2**63 - 1,
        positive_small=32767,
        slug=f"slug-{number}",
        small=-32768,
        text="long " * 20000,
        time=datetime.time(23, 59, 59, 999999),
        url="https://localhost/",
        key=uuid.UUID(int=2**128 - 1 - number),
        topic=topic,
        owner=owner,
    )


def orm(checks, engine):
    from django.contrib.auth.models import Permission, User
    from django.core import serializers
    from django.db import IntegrityError, transaction
    from django.db.models import Count, F, ProtectedError, Sum
    from tests.clients.shelf.models import Item, Topic

    alias, name = ALIASES[engine], f"django: {engine}"
    items, topics = Item.objects.using(alias), Topic.objects.using(alias)

    user = User.objects.db_manager(alias).create_user("ann", "ann@localhost", "secret")
    user.user_permissions.set(Permission.objects.using(alias).filter(codename="add_item"))
    user = User.objects.using(alias).get(username="ann")
    checks.check(
        f"{name}: a user and her permissions", user.check_password("secret") and user.has_perm("shelf.add_item")
    )

    topic = topics.create(name="first")
    wanted = values(topic, user, 1)
    item = items.get(pk=items.create(**wanted).pk)
    checks.same(f"{name}: every field", {field: getattr(item, field) for field in wanted}, wanted)
    checks.same(f"{name}: generated field", item.twice, 2 * (2**31 - 1))
    empty = items.get(pk=items.create(slug="empty").pk)
    checks.check(f"{name}: NULLs", empty.document is None and empty.moment is None and empty.topic is None)
    item.topics.add(topic, topics.create(name="second"))
    checks.same(f"{name}: many to many", sorted(item.topics.values_list("name", flat=True)), ["first", "second"])

    items.bulk_create([Item(slug=f"bulk-{n}", char=f"c{n}", integer=n, topic=topic) for n in range(500)])
    items.bulk_create([Item(slug="bulk-7", char="replaced", integer=7)], update_conflicts=True, update_fields=["char"])
    checks.same(f"{name}: bulk_create and upsert", (items.count(), items.get(slug="bulk-7").char), (502, "replaced"))
    items.filter(integer__range=(10, 19), slug__startswith="bulk").update(small=F("integer") * 2)
    checks.same(
        f"{name}: aggregates",
        (
            items.aggregate(total=Sum("small", filter=~django.db.models.Q(small=-32768)))["total"],
            topics.annotate(n=Count("items")).get(name="first").n,
        ),
        (290, 501),
    )
    checks.same(f"{name}: JSON lookup", items.filter(document__a__1=2.5).count(), 1)
    checks.same(f"{name}: iterator", sum(1 for _ in items.order_by("pk").iterator(chunk_size=100)), 502)
    try:
        with transaction.atomic(using=alias):
            items.filter(slug="bulk-1").update(integer=-1)
            try:
                with transaction.atomic(using=alias):
                    items.create(slug="bulk-1")
            except IntegrityError:
                items.filter(slug="bulk-2").update(integer=-2)
            checks.same(
                f"{name}: atomic within atomic",
                sorted(items.filter(integer__lt=0).values_list("integer", flat=True)),
                [-2, -1],
            )
            raise KeyError
    except KeyError:
        checks.same(f"{name}: atomic rolls back", items.filter(integer__lt=0).count(), 0)
    with transaction.atomic(using=alias):
        checks.same(f"{name}: select_for_update", items.select_for_update().get(slug="empty").pk, empty.pk)
    for what, change in (("unique", {"slug": "empty"}), ("check", {"slug": "x", "integer": -101})):
        try:
            with transaction.atomic(using=alias):
                items.create(**change)
            checks.check(f"{name}: {what} constraint", False, "not refused")
        except (IntegrityError, django.db.OperationalError):
            checks.check(f"{name}: {what} constraint", True)
    try:
        user.delete()
        checks.check(f"{name}: on_delete=PROTECT", False, "deleted")
    except ProtectedError:
        checks.check(f"{name}: on_delete=PROTECT", True)
    text = serializers.serialize("json", items.filter(pk__lte=empty.pk))
    first = topic.pk
    topic.delete()
    checks.same(f"{name}: on_delete=CASCADE", (items.count(), Item.topics.through.objects.using(alias).count()), (1, 0))
    topics.create(pk=first, name="again")
    for found in serializers.deserialize("json", text, using=alias, ignorenonexistent=True):
        found.m2m_data = {}
        found.save(using=alias)
    checks.same(f"{name}: serialized and loaded", getattr(items.get(pk=item.pk), "document"), wanted["document"])


def change_columns(checks, name, connection, model):
    """Adds a column, widens and renames it, and removes it."""
    from django.db import models

    def field(title, length, **options):
        made = models.CharField(max_length=length, default="new", **options)
        made.set_attributes_from_name(title)
        made.model = model
        return made

    added, wider = field("added", 20), field("added", 300, null=True)
    renamed = field("renamed", 300, null=True)
    table = model._meta.db_table
    with connection.schema_editor() as editor:
        editor.add_field(model, added)
        editor.alter_field(model, added, wider)
        editor.alter_field(model, wider, renamed)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT COUNT(*), MIN(renamed) FROM {table}")
        checks.same(f"{name}: {table}: column added, altered, renamed", cursor.fetchone(), (2, "new"))
    with connection.schema_editor() as editor:
        editor.remove_field(model, renamed)


def changes(checks, engine):
    """The changes that migrations make, through the schema editor."""
    from django.db import connections, models
    from tests.clients.shelf.models import Item, Topic

    alias, name = ALIASES[engine], f"django: {engine}"
    change_columns(checks, name, connections[alias], Topic)
    if engine == "TEAK":
        # InnoDB of 10.11.18 rejects the change in a table with a stored generated column and a FOREIGN KEY that was
        # added later (error 1832).
        change_columns(checks, name, connections[alias], Item)
    index = models.Index(fields=["small", "positive"], name="shelf_small_positive")
    with connections[alias].schema_editor() as editor:
        editor.add_index(Item, index)
        editor.remove_index(Item, index)
        editor.alter_db_table(Item, "shelf_item", "shelf_thing")
        editor.alter_db_table(Item, "shelf_thing", "shelf_item")
    checks.same(f"{name}: rows after the changes", Item.objects.using(alias).count(), 2)


def refused(checks):
    """Django's own backend creates a constraint for every relation, unless db_constraint=False is set. Teak rejects
    these constraints."""
    from django.core.management import call_command
    from django.db import connections, models
    from tests.clients.shelf.models import Topic

    class Loose(models.Model):
        topic = models.ForeignKey(Topic, on_delete=models.CASCADE, db_constraint=False)

        class Meta:
            app_label = "shelf"

    with connections["plain"].schema_editor() as editor:
        editor.create_model(Loose)
    with connections["plain"].cursor() as cursor:
        keys = connections["plain"].introspection.get_constraints(cursor, "shelf_loose").values()
    checks.same(
        "django: TEAK: db_constraint=False",
        sorted((key["columns"], key["primary_key"], bool(key["foreign_key"])) for key in keys),
        [(["id"], True, False), (["topic_id"], False, False)],
    )
    checks.raises(
        "django: TEAK: Django's own backend is refused its FOREIGN KEY",
        REFUSED,
        lambda: call_command("migrate", database="plain", verbosity=0),
    )


def main():
    checks = Checks()
    print(f"-- Django {django.get_version()}, PyMySQL {pymysql.VERSION_STRING}")
    configure()
    found = {}
    with Connection(SOCKET) as connection:
        names = [*NAMES.values(), "clients_plain_django"]
        for name in names:
            connection.run(f"DROP DATABASE IF EXISTS {name}")
            connection.run(f"CREATE DATABASE {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci")
        for engine in NAMES:
            with checks.part(f"django: {engine}: migrate"):
                found[engine] = migrate(checks, engine, connection)
            with checks.part(f"django: {engine}: ORM"):
                orm(checks, engine)
            with checks.part(f"django: {engine}: changes"):
                changes(checks, engine)
        with checks.part("django: introspection"):
            for what, teak, innodb in zip(("tables", "keys", "sequences"), found["TEAK"], found["InnoDB"]):
                checks.same(f"django: introspection of {what}", teak, innodb)
        with checks.part("django: FOREIGN KEY"):
            refused(checks)
        for name in names:
            connection.run(f"DROP DATABASE {name}")
    checks.end()


if __name__ == "__main__":
    main()
