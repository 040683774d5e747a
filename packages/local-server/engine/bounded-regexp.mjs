/** What is changed in SQLite's `regexp.c`: how deep it calls itself, and how large a program it makes of a pattern. */
const CHANGES = [
  ['struct ReCompiled {\n', 'struct ReCompiled {\n  int groups;\n'],
  [
    '  iStart = p->nState;\n  zErr = re_subcompile_string(p);\n',
    '  if( ++p->groups>200 ) return "too many brackets";\n  iStart = p->nState;\n  zErr = re_subcompile_string(p);\n',
  ],
  [
    '  char *aOp;\n  int *aArg;\n  aOp = sqlite3_realloc64(',
    '  char *aOp;\n  int *aArg;\n  if( N>4000 ){ p->zErr = "the pattern is too large"; return 1; }\n  aOp = sqlite3_realloc64(',
  ],
  [
    "{ m = m*10 + c - '0'; p->sIn.i++; }",
    "{ m = m*10 + c - '0'; p->sIn.i++; if( m>2000 ) return \"the pattern is too large\"; }",
  ],
  [
    "{ n = n*10 + c-'0'; p->sIn.i++; }",
    "{ n = n*10 + c-'0'; p->sIn.i++; if( n>2000 ) return \"the pattern is too large\"; }",
  ],
]

/** The source of `regexp.c` with its limits. @throws when it is not the source this was written for */
export function boundRegexp(source) {
  return CHANGES.reduce((text, [from, to]) => {
    if (text.split(from).length !== 2) throw new Error(`regexp.c has not exactly one ${from}`)
    return text.replace(from, () => to)
  }, source)
}
