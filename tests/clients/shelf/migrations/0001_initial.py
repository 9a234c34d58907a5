# As `makemigrations` wrote it.

import django.db.models.deletion
import django.db.models.expressions
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [migrations.swappable_dependency(settings.AUTH_USER_MODEL)]

    operations = [
        migrations.CreateModel(
            name="Topic",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=50, unique=True)),
                (
                    "about",
                    models.OneToOneField(null=True, on_delete=django.db.models.deletion.SET_NULL, to="shelf.topic"),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Item",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("big", models.BigIntegerField(null=True)),
                ("binary", models.BinaryField(null=True)),
                ("boolean", models.BooleanField(default=False)),
                ("char", models.CharField(default="", max_length=100)),
                ("date", models.DateField(null=True)),
                ("moment", models.DateTimeField(db_index=True, null=True)),
                ("money", models.DecimalField(decimal_places=4, max_digits=20, null=True)),
                ("duration", models.DurationField(null=True)),
                ("email", models.EmailField(blank=True, max_length=254)),
                ("file", models.FileField(null=True, upload_to="files")),
                ("path", models.FilePathField(null=True)),
                ("number", models.FloatField(null=True)),
                ("address", models.GenericIPAddressField(null=True)),
                ("integer", models.IntegerField(default=0)),
                ("document", models.JSONField(null=True)),
                ("positive", models.PositiveIntegerField(null=True)),
                ("positive_big", models.PositiveBigIntegerField(null=True)),
                ("positive_small", models.PositiveSmallIntegerField(null=True)),
                ("slug", models.SlugField(unique=True)),
                ("small", models.SmallIntegerField(null=True)),
                ("text", models.TextField(default="")),
                ("time", models.TimeField(null=True)),
                ("url", models.URLField(null=True)),
                ("key", models.UUIDField(default=uuid.uuid4)),
                (
                    "twice",
                    models.GeneratedField(
                        db_persist=True,
                        expression=django.db.models.expressions.CombinedExpression(
                            models.F("integer"), "*", models.Value(2)
                        ),
                        output_field=models.BigIntegerField(),
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.PROTECT, to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "topic",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.CASCADE, related_name="items", to="shelf.topic"
                    ),
                ),
                ("topics", models.ManyToManyField(related_name="tagged", to="shelf.topic")),
            ],
            options={
                "indexes": [models.Index(fields=["-moment", "char"], name="shelf_moment_char")],
                "constraints": [
                    models.UniqueConstraint(fields=("char", "integer"), name="shelf_char_integer"),
                    models.CheckConstraint(condition=models.Q(("integer__gte", -100)), name="shelf_integer"),
                ],
            },
        ),
    ]
