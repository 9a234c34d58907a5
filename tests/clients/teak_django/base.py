"""Django's own backend for MariaDB, told that tables have no FOREIGN KEY constraints: ENGINE = "teak_django". With it
migrations make the columns and their indexes but no constraint, in Django's own applications too."""

from django.db.backends.mysql import base, features


class DatabaseFeatures(features.DatabaseFeatures):
    supports_foreign_keys = False


class DatabaseWrapper(base.DatabaseWrapper):
    features_class = DatabaseFeatures
