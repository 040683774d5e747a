/*
 * Another SQLite program. Each line of its input opens the database file, runs a statement or closes the file, and the program
 * responds with one line.
 */
import { createInterface } from 'node:readline'
import { DatabaseSync } from 'node:sqlite'

const [path = ''] = process.argv.slice(2)
let database: DatabaseSync | null = null

function run(line: string): void {
  if (line === 'open') database ??= new DatabaseSync(path, { timeout: 0 })
  else if (line === 'close') {
    database?.close()
    database = null
  } else if (database === null) throw new Error('not open')
  else database.exec(line)
}

for await (const line of createInterface({ input: process.stdin })) {
  try {
    run(line)
    console.log('ok')
  } catch (error) {
    console.log((error as Error).message)
  }
}
