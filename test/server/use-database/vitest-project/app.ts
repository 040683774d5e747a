import { createClient } from '@batonsql/core'

// An application whose client is in module scope.
const db = createClient({ url: process.env['DATABASE_URL']! })

export const addNote = (text: string): Promise<unknown> => db.execute('insert into note values (?)', [text])
export const readNotes = async (): Promise<unknown> => (await db.execute('select text from note')).rows
