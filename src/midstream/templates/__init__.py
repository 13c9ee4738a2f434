"""Conversation -> raw prompt, for wires that take one text. `registry.get_template(name)` is the way in.

Law: a template writes two kinds of text. Its own (markers, role names, headings) goes in as it is; everything else - what
people, tools, models and schemas said - is foreign and passes `specials.Specials`, which breaks every marker in it, so
that nothing foreign can open, close or forge a turn. Only `PromptWriter.own` skips that, and only literals go there.
"""
