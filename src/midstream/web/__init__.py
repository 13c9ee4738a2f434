"""The page: one conversation as each wire sees it, live traffic, a chat box, the doctor. Served by `midstream web` and the gateway.

`app.py` is the ASGI application, `guard.py` who may see it, `static/` what a browser loads: plain ES modules and CSS, no build.
"""
