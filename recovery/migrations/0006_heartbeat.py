"""A row for each worker and beat that lives."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('recovery', '0005_audit'),
    ]

    operations = [
        migrations.CreateModel(
            name='Heartbeat',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('part', models.CharField(max_length=20)),
                ('process', models.CharField(max_length=200, unique=True)),
                ('at', models.DateTimeField()),
            ],
        ),
    ]
