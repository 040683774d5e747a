import type { BatonDatabase } from '@batonsql/drizzle-driver'
import { eq, sql } from 'drizzle-orm'
import type { Kysely } from 'kysely'
import type * as schema from './drizzle-schema.ts'
import { athlete, nation } from './drizzle-schema.ts'
import type { Database } from './kysely-database.ts'

export interface Transfer {
  readonly athleteId: number
  readonly from: string
  readonly to: string
  /** The number to add to one nation's count and subtract from the other's. If it is too large, it violates a CHECK. */
  readonly count: number
}

/** Moves an athlete to another nation and updates both nations' counts in one transaction. */
export async function transferWithKysely(
  db: Kysely<Database>,
  { athleteId, from, to, count }: Transfer,
): Promise<void> {
  await db.transaction().execute(async (trx) => {
    await trx.updateTable('athlete').set({ nation: to }).where('id', '=', athleteId).execute()
    await trx
      .updateTable('nation')
      .set(({ eb }) => ({ athletes: eb('athletes', '+', count) }))
      .where('code', '=', to)
      .execute()
    await trx
      .updateTable('nation')
      .set(({ eb }) => ({ athletes: eb('athletes', '-', count) }))
      .where('code', '=', from)
      .execute()
  })
}

/** Like {@link transferWithKysely}, with Drizzle. */
export async function transferWithDrizzle(
  db: BatonDatabase<typeof schema>,
  { athleteId, from, to, count }: Transfer,
): Promise<void> {
  await db.transaction(async (tx) => {
    await tx.update(athlete).set({ nation: to }).where(eq(athlete.id, athleteId))
    await tx
      .update(nation)
      .set({ athletes: sql`${nation.athletes} + ${count}` })
      .where(eq(nation.code, to))
    await tx
      .update(nation)
      .set({ athletes: sql`${nation.athletes} - ${count}` })
      .where(eq(nation.code, from))
  })
}
