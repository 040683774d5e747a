import { createClient } from '@batonsql/core'
import { type Config, LibsqlError } from '@libsql/core/api'
import { type ExpandedConfig, expandConfig } from '@libsql/core/config'

/** Configuration of a client. An undefined option counts as absent, even with `exactOptionalPropertyTypes`. */
export type ClientConfig = Pick<Config, 'url'> & { [Name in keyof Config]: Config[Name] | undefined }

/** A URL that is not set, was copied with its quotes or a line break, or has no scheme: core names the remedy. */
const MISTAKE = /^$|^["'\s]|^(?!file:).*["'\s]$|^[\w.-]+:\d+(?:\/|$)/i

/** Checks a configuration and adds the defaults, as the original does. @throws LibsqlError for an invalid URL or option */
export function expand(config: ClientConfig, preferHttp: boolean): ExpandedConfig {
  if (typeof config === 'object' && MISTAKE.test(config.url ?? '')) rejectUrl(config.url)
  return expandConfig(config as Config, preferHttp)
}

function rejectUrl(url: string): void {
  try {
    createClient({ url })
  } catch (cause) {
    throw new LibsqlError((cause as Error).message, 'URL_INVALID', undefined, undefined, cause as Error)
  }
}
