import { type Client, isUniqueViolation } from '@batonsql/core'

export interface Guest {
  readonly id: number
  readonly name: string
}

/** What is tested: it gets the client that it uses. */
export async function addGuest(db: Client, name: string): Promise<Guest | null> {
  try {
    const { rows } = await db.execute<Guest>('insert into guest (name) values (?) returning id, name', [name])
    return rows[0] ?? null
  } catch (error) {
    if (isUniqueViolation(error)) return null
    throw error
  }
}
