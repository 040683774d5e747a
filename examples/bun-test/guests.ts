import { type Client, isUniqueViolation } from '@batonsql/core'

export interface Guest {
  readonly id: number
  readonly name: string
}

/** The code under test, which receives its client. */
export async function addGuest(db: Client, name: string): Promise<Guest | null> {
  try {
    const { rows } = await db.execute<Guest>('insert into guest (name) values (?) returning id, name', [name])
    return rows[0] ?? null
  } catch (error) {
    if (isUniqueViolation(error)) return null
    throw error
  }
}
