import type { TableAction, TablePermission } from '@batonsql/server-common/hrana'

const CREATE_INDEX = 1
const DELETE = 9
const INSERT = 18
const PRAGMA = 19
const READ = 20
const UPDATE = 23
const REINDEX = 27
const DROP_ACTIONS: ReadonlySet<number> = new Set([11, 17, 30])
/** SELECT, TRANSACTION, FUNCTION, SAVEPOINT, RECURSIVE: covered by other checks. */
const UNCHECKED_ACTIONS: ReadonlySet<number> = new Set([21, 22, 31, 32, 33])
/** SQLite's codes for actions on tables: which permission they need, and which object of the action is the table. */
const ACTIONS: ReadonlyMap<number, { readonly action: TableAction; readonly table: 'first' | 'second' }> =
  new Map([
    [READ, { action: 'data_read', table: 'first' }],
    [INSERT, { action: 'data_add', table: 'first' }],
    [UPDATE, { action: 'data_update', table: 'first' }],
    [DELETE, { action: 'data_delete', table: 'first' }],
    [2, { action: 'schema_add', table: 'first' }], // CREATE TABLE
    [8, { action: 'schema_add', table: 'first' }], // CREATE VIEW
    [29, { action: 'schema_add', table: 'first' }], // CREATE VIRTUAL TABLE
    [CREATE_INDEX, { action: 'schema_add', table: 'second' }],
    [7, { action: 'schema_add', table: 'second' }], // CREATE TRIGGER
    [26, { action: 'schema_update', table: 'second' }], // ALTER TABLE
    [REINDEX, { action: 'schema_update', table: 'second' }], // names no table: needs the permission for all
    [11, { action: 'schema_delete', table: 'first' }], // DROP TABLE
    [17, { action: 'schema_delete', table: 'first' }], // DROP VIEW
    [30, { action: 'schema_delete', table: 'first' }], // DROP VIRTUAL TABLE
    [10, { action: 'schema_delete', table: 'second' }], // DROP INDEX
    [16, { action: 'schema_delete', table: 'second' }], // DROP TRIGGER
  ])
/** Pragmas whose argument names an object; the argument of any other pragma is a new value. */
const NAMING_PRAGMAS =
  /^(?:table_list|index_list|(?:table|index)_x?info|foreign_key_(?:list|check)|integrity_check|quick_check)$/i
/** Schema tables, which allowed statements write to. SQLite rejects statements that write to them directly. */
const SCHEMA_TABLES: ReadonlySet<string> = new Set([
  'sqlite_master',
  'sqlite_schema',
  'sqlite_temp_master',
  'sqlite_temp_schema',
])
/** Table functions, which contain no data of the database. */
const TABLE_FUNCTIONS = /^(?:json_each|json_tree|generate_series|pragma_\w+)$/

/** Checks a statement against a token's permissions for tables. */
export class TableAuthorizer {
  readonly #permissions: readonly TablePermission[]
  /** The object that the statement drops: SQLite also checks the deletion of its rows. */
  #droppedObject = ''
  /** The index that the statement creates: SQLite also checks its rebuilding. */
  #createdIndex = ''
  readonly #replaces: boolean

  /** @param replaces whether the statement may delete conflicting rows, which SQLite does not check */
  constructor(permissions: readonly TablePermission[], replaces = false) {
    this.#permissions = permissions
    this.#replaces = replaces
  }

  get mayReadAll(): boolean {
    return this.#allows('data_read', null)
  }

  /** Whether an action of a statement is allowed. @param code SQLite's code @param first @param second the objects of the action */
  permits(code: number, first: string, second: string): boolean {
    if (UNCHECKED_ACTIONS.has(code)) return true
    // settings do not belong to a table
    if (code === PRAGMA) return second === '' || NAMING_PRAGMAS.test(first)
    const rule = ACTIONS.get(code)
    if (rule === undefined) return false
    const name = foldCase(rule.table === 'first' ? first : second)
    if (SCHEMA_TABLES.has(name)) return true
    if (code === READ && TABLE_FUNCTIONS.test(name)) return true
    if (code === DELETE && name === this.#droppedObject) return true
    if (code === REINDEX) return first === this.#createdIndex || this.#allows(rule.action, null)
    const deletes = this.#replaces && (code === INSERT || code === UPDATE)
    const isAllowed = this.#allows(rule.action, name) && (!deletes || this.#allows('data_delete', name))
    if (isAllowed && DROP_ACTIONS.has(code)) this.#droppedObject = name
    if (isAllowed && code === CREATE_INDEX) this.#createdIndex = first
    return isAllowed
  }

  /** Called when another statement is compiled. */
  reset(): void {
    this.#droppedObject = ''
    this.#createdIndex = ''
  }

  allows(action: TableAction, table: string): boolean {
    return this.#allows(action, foldCase(table))
  }

  #allows(action: TableAction, name: string | null): boolean {
    return this.#permissions.some(
      ({ tables, actions }) =>
        actions.includes(action) &&
        (tables === null || (name !== null && tables.some((table) => foldCase(table) === name))),
    )
  }
}

/** Converts the letters that SQLite compares regardless of case; to JavaScript, the Kelvin sign is a capital K, too. */
function foldCase(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase())
}
