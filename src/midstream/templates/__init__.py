"""Conversation -> raw prompt, for wires that send one text. Start with `registry.get_template(name)`.

Law: a template writes two kinds of text. Its own (markers, role names, headings) is written as it is; everything else, from
people, tools, models and schemas, is foreign and passes `prompt.Specials`, which breaks every marker in it, so that foreign
text cannot open, close or forge a turn. Only `PromptWriter.own` skips that, and only literals are passed to it.
"""
