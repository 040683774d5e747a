import { createClient } from '@batonsql/core'
import { INSERT, SELECT, type Subject, TRANSACTION, toId } from '../../lib/subject.ts'

/** Opens the baseline for the ORMs: their statements, written by hand. */
export function open(url: string): Subject {
  const db = createClient({ url })
  return {
    operations: {
      ormSelect: (index) => db.execute(SELECT, [toId(index)]),
      ormInsert: (index) => db.execute(`${INSERT} returning *`, [toId(index), 'text']),
      ormRelational: (index) =>
        db.execute(
          `select id, name, (select json_group_array(json_array(id, item_id, title)) from post
           where item_id = item.id) as posts from item where id = ?`,
          [toId(index)],
        ),
      ormTransaction: (index) =>
        db.transaction(async (tx) => {
          for (const sql of TRANSACTION) await tx.execute(sql, [toId(index)])
        }),
      ormMigrate: () => db.execute('select name from kysely_migration order by name'),
    },
    close: () => db.close(),
  }
}
