import { CALL_OPTIONS, checkOptions } from '../base/check-options.ts'
import { asNotApplied } from '../base/errors.ts'
import { withCallerStack } from '../base/with-caller-stack.ts'
import { type Http, unwrap } from '../http/http.ts'
import { READ } from '../http/policies.ts'
import type { CallOptions } from '../options.ts'

/**
 * Sends a GET request to the database.
 * @param hasBegun whether a call that began before `close` sends the request; if so, it runs while the client is closing
 * @returns the text of the response @throws HttpError for a status other than 2xx
 */
export async function get(
  http: Http,
  path: string,
  options: CallOptions = {},
  hasBegun = false,
): Promise<string> {
  checkOptions(options, CALL_OPTIONS)
  const { signal, timeoutMs } = options
  const rules = { signal, deadline: http.deadline(timeoutMs), limiter: http.reads, policy: READ }
  http.lifetime.begin(hasBegun)
  try {
    return unwrap(await http.exchange(path, null, rules, (text) => text))
  } catch (error) {
    throw withCallerStack(asNotApplied(error))
  } finally {
    http.lifetime.end()
  }
}
