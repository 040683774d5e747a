import { CALL_OPTIONS, checkOptions } from '@batonsql/options'
import { asNotApplied } from '../base/errors.ts'
import { withCallerStack } from '../base/with-caller-stack.ts'
import { type Http, unwrap } from '../http/http.ts'
import { READ } from '../http/policies.ts'
import type { CallOptions } from '../options.ts'

/**
 * Sends a GET request to the database.
 * @param isContinuation whether it is the rest of a call that began before the client was closed
 * @returns the text of the response
 * @throws HttpError for a status other than 2xx
 */
export async function get(
  http: Http,
  path: string,
  options: CallOptions = {},
  isContinuation = false,
): Promise<string> {
  checkOptions(options, CALL_OPTIONS)
  const { signal, timeoutMs } = options
  const rules = { signal, deadline: http.deadline(timeoutMs), limiter: http.reads, policy: READ }
  http.lifetime.begin(isContinuation)
  try {
    return unwrap(await http.exchange(path, null, rules, (text) => text))
  } catch (error) {
    throw withCallerStack(asNotApplied(error))
  } finally {
    http.lifetime.end()
  }
}
