import { readFile } from 'node:fs/promises'

/** Next to the file that this one is bundled into. */
const FOLDER = new URL('page/', import.meta.url)

/** Returns a file of the built page. */
export const readPageFile = (name: string): Promise<string> => readFile(new URL(name, FOLDER), 'utf8')
