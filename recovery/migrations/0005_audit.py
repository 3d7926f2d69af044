"""What an entry says beside who and what; signed anchors; checks; the review queue; indexes for the log page."""

from importlib import import_module

import django.db.models.deletion
from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from recovery.audit import guard


def take_off(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """SQLite adds a column by making the table anew, which loses its triggers: they are put back at the end."""
    guard.remove_triggers(schema_editor.connection)


def put_first_on(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    import_module("recovery.migrations.0002_audit_guard").install(apps, schema_editor)


def put_on(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    guard.install_triggers(schema_editor.connection)


class Migration(migrations.Migration):

    dependencies = [
        ('recovery', '0004_notify'),
    ]

    operations = [
        migrations.RunPython(take_off, put_first_on),
        migrations.CreateModel(
            name='AuditAnchor',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=10)),
                ('seq', models.PositiveBigIntegerField()),
                ('hash', models.CharField(max_length=64)),
                ('at', models.DateTimeField()),
                ('detail', models.JSONField(default=dict)),
                ('key_id', models.CharField(max_length=16)),
                ('signature', models.CharField(max_length=128)),
            ],
            options={
                'verbose_name': 'audit anchor',
                'ordering': ['seq', 'pk'],
            },
        ),
        migrations.CreateModel(
            name='AuditCheck',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField()),
                ('seconds', models.FloatField()),
                ('by', models.CharField(max_length=150)),
                ('ok', models.BooleanField()),
                ('entries', models.PositiveBigIntegerField()),
                ('last', models.PositiveBigIntegerField()),
                ('problems', models.JSONField(default=list)),
            ],
            options={
                'ordering': ['-pk'],
            },
        ),
        migrations.CreateModel(
            name='ReviewItem',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('seq', models.PositiveBigIntegerField(unique=True)),
                ('why', models.CharField(max_length=30)),
                ('at', models.DateTimeField()),
            ],
            options={
                'verbose_name': 'item to review',
                'ordering': ['seq'],
            },
        ),
        migrations.CreateModel(
            name='SignOff',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('by', models.CharField(max_length=150)),
                ('note', models.TextField()),
                ('at', models.DateTimeField()),
            ],
            options={
                'verbose_name': 'sign-off',
            },
        ),
        migrations.CreateModel(
            name='TokenSighting',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('token_id', models.BigIntegerField()),
                ('hour', models.DateTimeField()),
                ('address', models.CharField(blank=True, max_length=45)),
            ],
        ),
        migrations.AlterModelOptions(
            name='auditentry',
            options={'ordering': ['-seq'], 'verbose_name': 'audit entry'},
        ),
        migrations.AddField(
            model_name='auditentry',
            name='address',
            field=models.CharField(blank=True, default='', max_length=45),
        ),
        migrations.AddField(
            model_name='auditentry',
            name='behalf',
            field=models.CharField(blank=True, default='', max_length=150),
        ),
        migrations.AddField(
            model_name='auditentry',
            name='environment',
            field=models.CharField(blank=True, default='', max_length=20),
        ),
        migrations.AddField(
            model_name='auditentry',
            name='format',
            field=models.PositiveSmallIntegerField(default=1),
        ),
        migrations.AddField(
            model_name='auditentry',
            name='reason',
            field=models.TextField(blank=True, default=''),
        ),
        migrations.AddField(
            model_name='auditentry',
            name='session',
            field=models.CharField(blank=True, default='', max_length=16),
        ),
        migrations.AddField(
            model_name='auditentry',
            name='task_id',
            field=models.CharField(blank=True, default='', max_length=64),
        ),
        migrations.AddIndex(
            model_name='auditentry',
            index=models.Index(fields=['actor', 'seq'], name='audit_by_actor'),
        ),
        migrations.AddIndex(
            model_name='auditentry',
            index=models.Index(fields=['behalf', 'seq'], name='audit_by_behalf'),
        ),
        migrations.AddIndex(
            model_name='auditentry',
            index=models.Index(fields=['action', 'seq'], name='audit_by_action'),
        ),
        migrations.AddIndex(
            model_name='auditentry',
            index=models.Index(fields=['outcome', 'seq'], name='audit_by_outcome'),
        ),
        migrations.AddIndex(
            model_name='auditentry',
            index=models.Index(fields=['recovery', 'seq'], name='audit_by_recovery'),
        ),
        migrations.AddIndex(
            model_name='auditentry',
            index=models.Index(fields=['environment', 'seq'], name='audit_by_environment'),
        ),
        migrations.AddIndex(
            model_name='auditentry',
            index=models.Index(fields=['request_id', 'seq'], name='audit_by_request'),
        ),
        migrations.AddIndex(
            model_name='auditentry',
            index=models.Index(fields=['at', 'seq'], name='audit_by_time'),
        ),
        migrations.AddIndex(
            model_name='auditanchor',
            index=models.Index(fields=['kind', 'seq'], name='anchor_by_kind'),
        ),
        migrations.AddField(
            model_name='signoff',
            name='item',
            field=models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='sign_off', to='recovery.reviewitem'),
        ),
        migrations.AddConstraint(
            model_name='tokensighting',
            constraint=models.UniqueConstraint(fields=('token_id', 'hour', 'address'), name='one_sighting_per_hour'),
        ),
        migrations.RunPython(put_on, take_off),
    ]
