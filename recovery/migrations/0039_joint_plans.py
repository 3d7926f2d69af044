"""Plans of several flows of one pipeline can be sealed together, by a hash over theirs."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('recovery', '0038_table_doubt'),
    ]

    operations = [
        migrations.AddField(
            model_name='plan',
            name='joint_ordinal',
            field=models.PositiveSmallIntegerField(null=True),
        ),
        migrations.CreateModel(
            name='JointPlan',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('hash', models.CharField(max_length=64, unique=True)),
                ('body', models.JSONField()),
                ('sealed_by', models.CharField(max_length=150)),
                ('sealed_at', models.DateTimeField(auto_now_add=True)),
                ('voided_at', models.DateTimeField(null=True)),
                ('pipeline', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='joint_plans', to='recovery.pipeline')),
            ],
            options={
                'ordering': ['-pk'],
            },
        ),
        migrations.AddField(
            model_name='plan',
            name='joint',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='plans', to='recovery.jointplan'),
        ),
        migrations.AddConstraint(
            model_name='plan',
            constraint=models.UniqueConstraint(condition=models.Q(('joint__isnull', False)), fields=('joint', 'joint_ordinal'), name='one_place_in_joint_plan'),
        ),
        migrations.AddConstraint(
            model_name='plan',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('joint__isnull', True), ('joint_ordinal__isnull', True)), models.Q(('joint__isnull', False), ('joint_ordinal__isnull', False)), _connector='OR'), name='joined_has_place'),
        ),
    ]
