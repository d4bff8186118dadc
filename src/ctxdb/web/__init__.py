"""The web interface: our pages inside Datasette, and the facts that Datasette's own pages show.

::

    a request ──► safety ──► plugin ──► routes ──► pages/NAME ──► templating ──► an answer
                  Host,      Datasette  which      (Question)     base.html and
                  Origin,    hooks      page       -> Page        the page's own
                  token, CSP                                      template

A page is a function that gets a Question (the path, the query string, a way to ask the database)
and returns a Page (the name of a template, and what it shows). It knows nothing of Datasette. To
add one: a module in `pages/`, a template, a line in `routes.py`.
"""
