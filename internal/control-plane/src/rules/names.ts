import { ApiError } from '../api-error.ts'

const MAX_LABEL_LENGTH = 63
const NAME = /^[a-z0-9-]+$/
/** A slug is the last part of the first label of a host name, so it cannot end with a dash. */
const SLUG = /^[a-z0-9](?:[a-z0-9-]{0,37}[a-z0-9])?$/
const TOKEN_NAME = /^[\w.@ -]{1,64}$/

/** Truncates a requested name for an error message. */
export const shorten = (name: string): string => name.slice(0, 80)

/** Returns the first label of a database's host name. */
export function buildHostLabel(database: string, slug: string): string {
  return `${database}-${slug}`
}

/** Returns how long the name of a database of an organization can be. */
export function getMaxNameLength(slug: string): number {
  return MAX_LABEL_LENGTH - buildHostLabel('', slug).length
}

/** Checks the name of a database, which shares the first label of a host name with the organization's slug. @throws ApiError */
export function checkDatabaseName(name: string, slug: string): void {
  const maxLength = getMaxNameLength(slug)
  if (name.length < 1 || name.length > maxLength)
    throw new ApiError(400, `invalid database name: name must contain between 1 and ${maxLength} characters`)
  if (!NAME.test(name) || name.startsWith('-') || name.endsWith('-')) {
    throw new ApiError(
      400,
      'invalid database name: name can only contain lowercase letters, numbers and dashes, and cannot begin or end with a dash',
    )
  }
}

/** Checks the name of a group. @throws ApiError */
export function checkGroupName(name: string): void {
  if (name.length < 1 || name.length > MAX_LABEL_LENGTH)
    throw new ApiError(
      400,
      `invalid group name: name must contain between 1 and ${MAX_LABEL_LENGTH} characters`,
    )
  if (!/^[a-z0-9][a-z0-9_-]*$/.test(name)) {
    throw new ApiError(
      400,
      'invalid group name: name can only contain lowercase letters, numbers, dashes and underscores',
    )
  }
}

export const isSlug = (text: string): boolean => SLUG.test(text)

/** Returns the slug of a new organization. @throws ApiError if the name is not suitable */
export function toSlug(name: string): string {
  const slug = name
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-|-$/g, '')
  if (!isSlug(slug)) throw new ApiError(400, 'invalid organization name')
  return slug
}

/** Checks the name of a token or a key set. @param kind names it in the error @throws ApiError */
export function checkTokenName(name: string, kind = 'token'): void {
  if (!TOKEN_NAME.test(name))
    throw new ApiError(
      400,
      `invalid ${kind} name: use 1 to 64 letters, digits, spaces and the characters . _ @ -`,
    )
}
