import { createClient } from '@batonsql/core'
import { INSERT, SELECT, type Subject, TRANSACTION, toId } from '../../lib/subject.ts'

/** The baseline for the ORMs: their statements, written by hand. */
export function open(url: string): Subject {
  const db = createClient({ url })
  return {
    operations: {
      ormSelect: (at) => db.execute(SELECT, [toId(at)]),
      ormInsert: (at) => db.execute(`${INSERT} returning *`, [toId(at), 'text']),
      ormRelational: (at) =>
        db.execute(
          `select id, name, (select json_group_array(json_array(id, item_id, title)) from post
           where item_id = item.id) as posts from item where id = ?`,
          [toId(at)],
        ),
      ormTransaction: (at) =>
        db.transaction(async (tx) => {
          for (const sql of TRANSACTION) await tx.execute(sql, [toId(at)])
        }),
      ormMigrate: () => db.execute('select name from kysely_migration order by name'),
    },
    close: () => db.close(),
  }
}
