import assert from 'node:assert/strict'
import { type BatonDatabase, drizzle, isUniqueViolation } from '@batonsql/drizzle-driver'
import { migrate } from '@batonsql/drizzle-driver/migrator'
import { eq, relations, sql } from 'drizzle-orm'
import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'

// A small application that installs only the driver and Drizzle.

const band = sqliteTable('band', { id: integer().primaryKey(), name: text().notNull().unique() })
const song = sqliteTable('song', {
  id: integer().primaryKey(),
  bandId: integer('band_id')
    .notNull()
    .references(() => band.id),
  title: text().notNull(),
})
const bandSongs = relations(band, ({ many }) => ({ songs: many(song) }))
const songBand = relations(song, ({ one }) => ({
  band: one(band, { fields: [song.bandId], references: [band.id] }),
}))
const schema = { band, song, bandSongs, songBand }

const MIGRATION = `create table band (id integer primary key, name text not null unique);
--> statement-breakpoint
create table song (id integer primary key, band_id integer not null references band (id), title text not null);`

async function main(): Promise<void> {
  const { DATABASE_URL: url = '', DATABASE_TOKEN: authToken } = process.env
  const db: BatonDatabase<typeof schema> = drizzle({ connection: { url, authToken }, schema })
  for (const table of ['song', 'band', '__music']) await db.run(sql.raw(`drop table if exists ${table}`))
  const migrations = [{ tag: '0000_music', sql: MIGRATION, when: 1_700_000_000_000 }]
  await migrate(db, { migrations, migrationsTable: '__music' })

  await db.transaction(async (tx) => {
    const [created] = await tx.insert(band).values({ name: 'The Kinks' }).returning()
    assert(created)
    await tx.insert(song).values({ bandId: created.id, title: 'Lola' })
  })
  await assert.rejects(db.insert(band).values({ name: 'The Kinks' }), isUniqueViolation)
  await assert.rejects(
    db.transaction(async (tx) => {
      await tx.delete(song)
      throw new RangeError('on purpose')
    }),
    RangeError,
  )
  const [foundBand, update] = await db.batch([
    db.query.band.findFirst({ with: { songs: true } }),
    db.update(song).set({ title: 'Waterloo Sunset' }).where(eq(song.title, 'Lola')),
  ])
  assert.equal(foundBand?.songs[0]?.title, 'Lola')
  assert.equal(update.rowsAffected, 1)
  await db.$client.close()
  console.log('drizzle: ok')
}

void main()
