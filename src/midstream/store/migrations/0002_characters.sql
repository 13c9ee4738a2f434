-- Words that begin with a character of a script without spaces between words: there nearly every character is one, and in
-- `search` each cost more than a letter, twice over in the index of prefixes. Here a turn has each of them once, without its
-- places: what is found is looked at again (store/sqlite.py: search). Turns stored before have all their words in `search`,
-- later ones those of spaced scripts alone.
CREATE VIRTUAL TABLE characters USING fts5 (
    words,
    tokenize = "unicode61 remove_diacritics 0 categories 'L* M* N* P* S* C*'",
    columnsize = 0,
    detail = none
);
