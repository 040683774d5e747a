import { readFile } from 'node:fs/promises'

/** The folder of the page, next to the file that this module is bundled into. */
const PAGE_FOLDER = new URL('page/', import.meta.url)

export const readPageFile = (name: string): Promise<string> => readFile(new URL(name, PAGE_FOLDER), 'utf8')
