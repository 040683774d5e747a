import { createClient } from '@batonsql/core'
import { type Config, LibsqlError } from '@libsql/core/api'
import { type ExpandedConfig, expandConfig } from '@libsql/core/config'

/** Configuration of a client. An undefined option counts as absent, even with `exactOptionalPropertyTypes`. */
export type ClientConfig = Pick<Config, 'url'> & { [Name in keyof Config]: Config[Name] | undefined }

/**
 * Matches a URL that is empty, was copied with its quotes or a line break, is `host:port` without a scheme, or has a user name. After
 * `file:`, a path may end with such a character and contain a port.
 */
const MISTAKE = /^$|^["'\s]|^(?!file:)(?:.*["'\s]$|[\w.-]+:\d+(?:\/|$)|\w+:\/\/[^/?#]*@)/i

/** Checks a configuration and adds the defaults, as the original does. @throws LibsqlError for an invalid URL or option */
export function expand(config: ClientConfig, preferHttp: boolean): ExpandedConfig {
  if (typeof config === 'object' && MISTAKE.test(config.url ?? '')) rejectUrl(config.url)
  return expandConfig(config as Config, preferHttp)
}

/** Throws core's error for a URL, as a LibsqlError: it says what to do, unlike the error of `expandConfig`. */
function rejectUrl(url: string): void {
  try {
    createClient({ url })
  } catch (cause) {
    throw new LibsqlError((cause as Error).message, 'URL_INVALID', undefined, undefined, cause as Error)
  }
}
