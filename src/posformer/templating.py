"""Jinja2 templates of the HTML reports."""

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined


def render_template(package: str, name: str, **context: object) -> str:
    """Render `templates/NAME` of a package; values are escaped unless they are `Markup`."""
    return _environment(package).get_template(name).render(context)


@cache
def _environment(package: str) -> Environment:
    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
