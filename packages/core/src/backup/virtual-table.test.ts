import { expect, test } from 'vitest'
import { readVirtualTable } from './virtual-table.ts'

const schemaInsert = (definition: string): string =>
  `INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql) VALUES('table','f','f',0,'${definition}')`

test.each([
  "CREATE VIRTUAL TABLE f USING fts5(body, content='doc', content_rowid='id')",
  "CREATE VIRTUAL TABLE f USING fts5(body, prefix='2 3')",
  `CREATE VIRTUAL TABLE f USING fts5(body, tokenize="porter 'unicode61'")`,
  "CREATE VIRTUAL TABLE f USING fts5(body, content='')",
  "CREATE VIRTUAL TABLE f USING fts5vocab(x,'row')",
  'CREATE VIRTUAL TABLE f USING rtree(id, a, b)',
])('the definition %s is read, whether or not its quotes are doubled', (definition) => {
  expect(readVirtualTable(schemaInsert(definition))).toEqual({ name: 'f', definition })
  expect(readVirtualTable(schemaInsert(definition.replaceAll("'", "''")))).toEqual({ name: 'f', definition })
})
