/**
 * The functions of SQL that statements may call, in lower case; what is not here is refused, on both back ends.
 *
 * Made from `pragma_function_list` of libsql-server 0.24.32 and of the embedded engine, by reading the source of each.
 * What is missing, and why:
 *
 * - `replicate`, `padl`, `padr`, `padc`, `strfilter`, `leftstr`, `rightstr`, `reverse`, `proper`, `charindex`,
 *   `difference`: they write or read outside of their memory, or never look whether there was any;
 * - `mode`, `median`, `lower_quartile`, `upper_quartile`: they call themselves once for each row of an ordered list, and so
 *   use up the stack;
 * - `regexp`, `regexpi`: they call themselves for each bracket of the pattern, and `a{2000000000}` needs as much memory. The
 *   embedded engine has them with limits, see `engine/source-changes.mjs`;
 * - `vector8`, `vector16`, `vectorb16`, `vector1bit`: of a text with a NUL in it they answer memory of others. The embedded
 *   engine has them mended;
 * - `fts3_tokenizer`, `fts5` (pointers), `sha3_query` (runs its argument), `optimize` (writes), `geopoly_debug`,
 *   `sqlite_log`, `load_extension`, `readfile`, `writefile`, `lsmode`, `sqlite_crypt`, `sqlite3mc_*`.
 *
 * `libsql_vector_idx` stands in definitions of indexes only, with one argument: without arguments, in a SELECT for instance, it
 * reads a pointer from anywhere, and libsql-server ends. The embedded engine looks.
 *
 * `vector_top_k` of a broken blob writes outside of its memory: `vector_top_k('i', x'000004', 1)` with the type of eight or one
 * bits. On libsql-server its vector should be a text, or a blob that has been looked at. The embedded engine looks.
 *
 * For some numbers of rows both engines break: `vector-search.ts` puts a bound around the number.
 *
 * Of tables that are called like functions only those of `ALLOWED_TABLE_FUNCTIONS`, and the pragmas.
 */
export const ALLOWED_FUNCTIONS: ReadonlySet<string> = new Set(
  `
  -> ->> abs avg changes char coalesce concat concat_ws count cume_dist current_date current_time current_timestamp
  date datetime dense_rank first_value format glob group_concat hex ifnull iif instr julianday lag last_insert_rowid
  last_value lead length like likelihood likely lower ltrim max min nth_value ntile nullif octet_length percent_rank
  printf quote random randomblob rank replace round row_number rtrim sign soundex sqlite_compileoption_get
  sqlite_compileoption_used sqlite_source_id sqlite_version strftime string_agg substr substring subtype sum time
  timediff total total_changes trim typeof unhex unicode unixepoch unlikely upper zeroblob

  json json_array json_array_length json_error_position json_extract json_group_array json_group_object json_insert
  json_object json_patch json_quote json_remove json_replace json_set json_type json_valid jsonb jsonb_array
  jsonb_extract jsonb_group_array jsonb_group_object jsonb_insert jsonb_object jsonb_patch jsonb_remove jsonb_replace
  jsonb_set

  acos acosh asin asinh atan atan2 atanh atn2 ceil ceiling cos cosh cot coth degrees exp floor last_rows_affected ln log
  log10 pi power radians sin sinh sqrt square stdev tan tanh variance

  sha3 uuid uuid_blob uuid_str

  libsql_server_database_name libsql_vector_idx vector vector32 vector64 vector_distance_cos
  vector_distance_l2 vector_extract

  bm25 fts5_source_id highlight match matchinfo offsets snippet

  geopoly_area geopoly_bbox geopoly_blob geopoly_ccw geopoly_contains_point geopoly_group_bbox geopoly_json
  geopoly_overlap geopoly_regular geopoly_svg geopoly_within geopoly_xform rtreecheck rtreedepth rtreenode
  `
    .trim()
    .split(/\s+/),
)

/** The tables that are called like functions, besides those of pragmas (`pragma_…`), in lower case. */
export const ALLOWED_TABLE_FUNCTIONS: ReadonlySet<string> = new Set([
  'dbstat',
  'fts3tokenize',
  'generate_series',
  'json_each',
  'json_tree',
  'sqlite_stmt',
  'vector_top_k',
])
