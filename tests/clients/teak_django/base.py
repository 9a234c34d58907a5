"""Django's own backend for MariaDB, for tables without FOREIGN KEY constraints: ENGINE = "tests.clients.teak_django".
With it, migrations create the columns and their indexes but no constraint, even in Django's own applications."""

from django.db.backends.mysql import base, features


class DatabaseFeatures(features.DatabaseFeatures):
    supports_foreign_keys = False


class DatabaseWrapper(base.DatabaseWrapper):
    features_class = DatabaseFeatures
