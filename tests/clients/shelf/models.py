"""A model with almost all field types of Django, and relations of each kind."""

import uuid

from django.conf import settings
from django.db import models


class Topic(models.Model):
    name = models.CharField(max_length=50, unique=True)
    about = models.OneToOneField("self", null=True, on_delete=models.SET_NULL)


class Item(models.Model):
    big = models.BigIntegerField(null=True)
    binary = models.BinaryField(null=True)
    boolean = models.BooleanField(default=False)
    char = models.CharField(max_length=100, default="")
    date = models.DateField(null=True)
    moment = models.DateTimeField(null=True, db_index=True)
    money = models.DecimalField(max_digits=20, decimal_places=4, null=True)
    duration = models.DurationField(null=True)
    email = models.EmailField(blank=True)
    file = models.FileField(upload_to="files", null=True)
    path = models.FilePathField(null=True)
    number = models.FloatField(null=True)
    address = models.GenericIPAddressField(null=True)
    integer = models.IntegerField(default=0)
    document = models.JSONField(null=True)
    positive = models.PositiveIntegerField(null=True)
    positive_big = models.PositiveBigIntegerField(null=True)
    positive_small = models.PositiveSmallIntegerField(null=True)
    slug = models.SlugField(unique=True)
    small = models.SmallIntegerField(null=True)
    text = models.TextField(default="")
    time = models.TimeField(null=True)
    url = models.URLField(null=True)
    key = models.UUIDField(default=uuid.uuid4)
    twice = models.GeneratedField(
        expression=models.F("integer") * 2, output_field=models.BigIntegerField(), db_persist=True
    )
    topic = models.ForeignKey(Topic, null=True, on_delete=models.CASCADE, related_name="items")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT)
    topics = models.ManyToManyField(Topic, related_name="tagged")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["char", "integer"], name="shelf_char_integer"),
            models.CheckConstraint(condition=models.Q(integer__gte=-100), name="shelf_integer"),
        ]
        indexes = [models.Index(fields=["-moment", "char"], name="shelf_moment_char")]
