import { NotBegunError } from '@batonsql/embedded-engine'
import { PipelineFailure } from '@batonsql/server-common/hrana'

/** How often a call is tried if the engine fails, because of other calls, before this one begins. */
const MAX_ATTEMPTS = 5

/**
 * Retries a call if another call made the engine fail before this one began. A call with a baton is not retried, because the
 * failure has closed its stream.
 */
export async function retryUnlessBegun<T>(baton: string | null, call: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await call()
    } catch (error) {
      if (!(error instanceof NotBegunError)) throw error
      if (baton !== null) throw PipelineFailure.invalidBaton()
      if (attempt === MAX_ATTEMPTS) throw PipelineFailure.service(500, `Internal Error: \`${error.message}\``)
    }
  }
}
