"""`headrace pipeline views`: the SQL that makes views of a store in any session of Spark."""

from typing import Annotated

import typer

from headrace.cli.options import AppName, Json, Url
from headrace.cli.output import Output
from headrace.cli.pipeline.options import ALL, Queues, Tenants, spark_url
from headrace.cli.pipeline.session import check_store
from headrace.model.errors import BadConfig
from headrace.pipeline.packages import needing_spark

Target = Annotated[
    str | None,
    typer.Argument(
        metavar="[APP]", help="Your app as module:name, such as app:app; or give --app.", show_default=False
    ),
]


def views(
    target: Target = None,
    app: AppName = None,
    url: Url = None,
    tenant: Tenants = ALL,
    queue: Queues = ALL,
    json: Json = False,
) -> None:
    """Print SQL that creates typed views of a store.

    Payloads and results are structs with the types of the app's annotations. Run the SQL with spark-sql, in a notebook
    or over JDBC: it needs Headrace where Spark runs. A URL with a password is not printed: the session takes it from
    HEADRACE_URL.

    Example: headrace pipeline views app:app > views.sql
    """
    output, name = Output(json=json), target or app
    if name is None:
        raise BadConfig(
            "views need an app, whose annotations give the types; name it as in: headrace pipeline views app:app"
        )
    with needing_spark():
        from headrace.pipeline.sql_views import app_types, shown_options, view_statements
    store = spark_url(url)
    check_store(store, new=False)
    statements = dict(view_statements(shown_options(store, tenant, queue), app_types(name)))
    output.document({"views": [{"name": view, "sql": sql} for view, sql in statements.items()]})
    for sql in statements.values():
        output.say(f"{sql};")
