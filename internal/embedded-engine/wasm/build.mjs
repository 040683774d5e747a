// Builds libsql.wasm from the sources of libSQL as published on crates.io, and the C files next to this one. Requires cargo,
// clang, lld, wasi-libc and libclang-rt-dev-wasm32 (Debian's packages) and binaryen. The result is kept in the repository, so
// using or testing it requires none of them. `--verify` writes nothing, and fails unless the result is identical to the file in
// the repository (`npm run engine:verify`).
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { ALLOWED_FUNCTIONS } from '@batonsql/server-common/sql'
import { changeSource } from './source-changes.mjs'

// the release with exactly the same SQLite (same commit) as libsql-server 0.24.32
const CRATE = 'libsql-ffi'
const CRATE_VERSION = '0.9.30'

// the options that libsql-server is compiled with, as far as the host supports them
const OPTIONS = [
  'SQLITE_CORE',
  'SQLITE_OS_OTHER=1',
  'SQLITE_THREADSAFE=0',
  'SQLITE_DEFAULT_FOREIGN_KEYS=1',
  'SQLITE_DQS=0',
  'SQLITE_ENABLE_COLUMN_METADATA',
  'SQLITE_ENABLE_DBPAGE_VTAB',
  'SQLITE_ENABLE_DBSTAT_VTAB',
  'SQLITE_ENABLE_FTS3',
  'SQLITE_ENABLE_FTS3_PARENTHESIS',
  'SQLITE_ENABLE_FTS4',
  'SQLITE_ENABLE_FTS5',
  'SQLITE_ENABLE_GEOPOLY',
  'SQLITE_ENABLE_RTREE',
  'SQLITE_ENABLE_STMTVTAB',
  'SQLITE_SOUNDEX',
  'SQLITE_TEMP_STORE=2',
  'SQLITE_MAX_MMAP_SIZE=0',
  'SQLITE_OMIT_LOAD_EXTENSION',
]
// extensions of SQLite3 Multiple Ciphers, which libsql-server is built with, except those that access files or raw memory
const EXTENSIONS = ['series', 'shathree', 'uuid']
// additional functions that are allowed here: those before `load_extension` are safe with the changes in
// `source-changes.mjs`, `load_extension` is our own, and only SQLite itself can call the others
const ALLOWED_HERE = [
  'vector8',
  'vector16',
  'vectorb16',
  'vector1bit',
  'regexp',
  'regexpi',
  'load_extension',
  'libsql_alter_column',
  'sqlite_drop_column',
  'sqlite_rename_column',
  'sqlite_rename_quotefix',
  'sqlite_rename_table',
  'sqlite_rename_test',
]

const EXPORTS =
  `malloc free baton_open baton_reset baton_grant baton_was_denied baton_rows baton_output baton_output_length
  baton_row_count baton_result_size baton_dump_rows baton_watch baton_bad_text_index baton_bad_text_length baton_shrink_output baton_bind_text baton_bind_blob
  sqlite3_close_v2 sqlite3_prepare_v3 sqlite3_step sqlite3_reset sqlite3_finalize sqlite3_clear_bindings sqlite3_errmsg
  sqlite3_extended_errcode sqlite3_error_offset sqlite3_changes64 sqlite3_total_changes64 sqlite3_last_insert_rowid
  sqlite3_get_autocommit sqlite3_column_count sqlite3_column_name sqlite3_column_decltype sqlite3_column_int64
  sqlite3_stmt_readonly sqlite3_stmt_isexplain sqlite3_stmt_status sqlite3_bind_parameter_count
  sqlite3_bind_parameter_name sqlite3_bind_null sqlite3_bind_int64 sqlite3_bind_double sqlite3_limit
  sqlite3_interrupt sqlite3_keyword_check sqlite3_libversion`.split(/\s+/)

const here = import.meta.dirname
const work = mkdtempSync(join(tmpdir(), 'libsql-wasm-'))
process.on('exit', () => rmSync(work, { recursive: true, force: true }))
const isVerifying = process.argv[2] === '--verify'
const sources = fetchSources()
const includes = [`-I${sources}/src`, `-I${here}`, `-I${work}`]
const flags = [
  '--target=wasm32-wasi',
  '-O2',
  '-fno-strict-aliasing',
  '-msign-ext',
  '-mnontrapping-fptoint',
  ...OPTIONS.map((option) => `-D${option}`),
]

// the extensions use private names of SQLite, so they are compiled in one file with it
const amalgamation = join(work, 'amalgamation.c')
const extensionSource = (name) => join(sources, `SQLite3MultipleCiphers/src/${name}.c`)
const regexp = copyWithChanges(extensionSource('regexp'))
const allowedFunctions = [...ALLOWED_FUNCTIONS, ...ALLOWED_HERE].sort()
writeFileSync(
  join(work, 'allowed-functions.h'),
  `static const char *const ALLOWED[] = {\n${allowedFunctions.map((name) => `  "${name}",\n`).join('')}};\n`,
)
const includedFiles = [
  copyWithChanges(join(sources, 'src/sqlite3.c')),
  join(here, 'reset.c'),
  join(here, 'changes.c'),
  join(here, 'functions.c'),
  regexp,
  ...EXTENSIONS.map(extensionSource),
  // last, because it redefines mathematical functions
  join(here, 'math-errors.h'),
  extensionSource('extensionfunctions'),
]
writeFileSync(amalgamation, includedFiles.map((path) => `#include "${path}"\n`).join(''))
const files = [
  [amalgamation, ['-w']],
  ...['vfs', 'output', 'rows', 'dump', 'connection', 'memory'].map((name) => [
    join(here, `${name}.c`),
    // bulk memory only in `memory.c`: in the other files, the compiler would use its instructions instead of calling `memory.c`
    [
      '-Wall',
      '-Wextra',
      '-Werror',
      ...(name === 'memory' ? ['-mbulk-memory'] : []),
      ...(name === 'rows' ? ['-msimd128'] : []),
    ],
  ]),
]
if (process.argv[2] === '--sanitize') {
  buildSanitized(process.argv[3])
  process.exit()
}
const objects = files.map(([file, warnings], index) => {
  const object = join(work, `${index}.o`)
  run('clang', [...flags, ...warnings, ...includes, '-c', file, '-o', object])
  return object
})
const linkedFile = join(work, 'linked.wasm')
run('clang', [
  '--target=wasm32-wasi',
  '-mexec-model=reactor',
  ...objects,
  '-lm',
  '-o',
  linkedFile,
  '-Wl,--strip-all',
  // puts the stack below the data, so that an overflow traps instead of overwriting it
  '-Wl,--stack-first',
  '-Wl,-z,stack-size=8388608',
  '-Wl,--max-memory=1073741824',
  ...EXPORTS.map((name) => `-Wl,--export=${name}`),
])
const committedFile = join(here, '../src/libsql.wasm')
const target = isVerifying ? join(work, 'libsql.wasm') : committedFile
run('wasm-opt', [
  '-O3',
  '--enable-bulk-memory',
  '--enable-simd',
  '--enable-sign-ext',
  '--enable-nontrapping-float-to-int',
  linkedFile,
  '-o',
  target,
])
const bytes = readFileSync(target)
const digest = createHash('sha256').update(bytes).digest('hex')
console.log(`libsql.wasm: ${bytes.length} bytes, SHA-256 ${digest}`)
if (!isVerifying) writeFileSync(`${target}.sha256`, `${digest}  libsql.wasm\n`)
else if (
  !bytes.equals(readFileSync(committedFile)) ||
  !readFileSync(`${committedFile}.sha256`, 'utf8').startsWith(digest)
) {
  console.error('libsql.wasm in the repository was built from other sources, or with other compilers:')
  for (const command of ['clang', 'wasm-ld', 'wasm-opt']) run(command, ['--version'])
  process.exitCode = 1
}

/** Copies a source with our changes. @returns the path of the copy */
function copyWithChanges(path) {
  const copy = join(work, basename(path))
  writeFileSync(copy, changeSource(basename(path), readFileSync(path, 'utf8')))
  return copy
}

/** Builds a native program that runs statements, and aborts on an invalid memory access. */
function buildSanitized(target) {
  const checks = [
    '-fsanitize=address,undefined',
    '-fno-sanitize=alignment,function,pointer-overflow,shift,float-cast-overflow,nonnull-attribute,signed-integer-overflow',
  ]
  const sourceNames = ['vfs', 'output', 'rows', 'dump', 'connection', 'sanitized-host']
  const sources = [amalgamation, ...sourceNames.map((name) => join(here, `${name}.c`))]
  const native = [
    '-O1',
    '-g',
    '-fno-strict-aliasing',
    '-w',
    ...checks,
    ...OPTIONS.map((option) => `-D${option}`),
  ]
  run('clang', [...native, ...includes, ...sources, '-lm', '-o', target])
}

/** Fetches the crate with cargo. @returns its folder `bundled` */
function fetchSources() {
  mkdirSync(join(work, 'src'))
  writeFileSync(join(work, 'src/lib.rs'), '')
  const manifest = `[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\n${CRATE} = "=${CRATE_VERSION}"\n`
  writeFileSync(join(work, 'Cargo.toml'), manifest)
  run('cargo', ['fetch', '--manifest-path', join(work, 'Cargo.toml')])
  const registry = join(process.env.CARGO_HOME ?? join(homedir(), '.cargo'), 'registry/src')
  for (const index of readdirSync(registry)) {
    const crate = join(registry, index, `${CRATE}-${CRATE_VERSION}`, 'bundled')
    try {
      readdirSync(crate)
      return crate
    } catch {
      // another registry's folder
    }
  }
  throw new Error(`cargo did not fetch ${CRATE} ${CRATE_VERSION}`)
}

function run(command, args) {
  execFileSync(command, args, { stdio: ['ignore', 'inherit', 'inherit'] })
}
