/**
 * SQL functions that statements may call, in lower case; both back ends reject all others.
 *
 * Derived from `pragma_function_list` of libsql-server 0.24.32 and of the embedded engine, by reading the source of each function.
 * Excluded functions, and why:
 *
 * - `replicate`, `padl`, `padr`, `padc`, `strfilter`, `leftstr`, `rightstr`, `reverse`, `proper`, `charindex`,
 *   `difference`: they access memory out of bounds, or do not check allocations;
 * - `mode`, `median`, `lower_quartile`, `upper_quartile`: they recurse for each row of an ordered list, and overflow the stack;
 * - `regexp`, `regexpi`: they recurse for each parenthesis of the pattern, and `a{2000000000}` allocates memory for each
 *   repetition. The embedded engine has them with limits, see `embedded-engine/wasm/source-changes.mjs`;
 * - `vector8`, `vector16`, `vectorb16`, `vector1bit`: for text that contains NUL, they return unrelated memory. Fixed in
 *   the embedded engine;
 * - `fts3_tokenizer`, `fts5` (pointers), `sha3_query` (executes its argument), `optimize` (writes), `geopoly_debug`,
 *   `sqlite_log`, `load_extension`, `readfile`, `writefile`, `lsmode`, `sqlite_crypt`, `sqlite3mc_*`.
 *
 * `libsql_vector_idx` is allowed only in definitions of indexes, with one argument: without arguments, for example in a SELECT, it
 * reads an arbitrary pointer, and libsql-server crashes. The embedded engine checks this.
 *
 * `vector_top_k` writes out of bounds for a malformed blob of the 8-bit or 1-bit type, as in `vector_top_k('i', x'000004', 1)`. On
 * libsql-server, pass the vector as text or as a validated blob. The embedded engine checks this.
 *
 * Both engines crash for some row counts; `vector-search.ts` limits the count.
 *
 * The only table-valued functions allowed are those in `ALLOWED_TABLE_FUNCTIONS` and the pragmas.
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

/** Table-valued functions, in addition to those of pragmas (`pragma_…`), in lower case. */
export const ALLOWED_TABLE_FUNCTIONS: ReadonlySet<string> = new Set([
  'dbstat',
  'fts3tokenize',
  'generate_series',
  'json_each',
  'json_tree',
  'sqlite_stmt',
  'vector_top_k',
])
