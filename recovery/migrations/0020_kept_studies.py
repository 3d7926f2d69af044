"""What Spark said of a flow is kept for the minutes in which it is asked the same again."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('recovery', '0019_flow_code'),
    ]

    operations = [
        migrations.CreateModel(
            name='KeptStudy',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=64)),
                ('answer', models.TextField()),
                ('at', models.DateTimeField()),
                ('flow', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='kept_studies', to='recovery.flow')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('flow', 'key'), name='one_answer_for_each_key')],
            },
        ),
    ]
