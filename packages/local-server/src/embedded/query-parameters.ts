import { PipelineFailure } from '@batonsql/server-common/hrana'
import { ACTIONS, type Action, type Subscription } from './change-feed.ts'

/** Parses the query of `GET /dump`. @throws PipelineFailure with 400, as worded by the service */
export function readDumpQuery(query: string): { readonly preserveRowIds: boolean } {
  const value = readSingle(new URLSearchParams(query), 'preserve_row_ids')
  if (value !== null && value !== 'true' && value !== 'false') {
    throw PipelineFailure.query('provided string was not `true` or `false`')
  }
  return { preserveRowIds: value === 'true' }
}

/** Parses the subscription of `GET /beta/listen`. @throws PipelineFailure with 400, as worded by the service */
export function readListenQuery(query: string): Subscription {
  const parameters = new URLSearchParams(query)
  const actions = parameters.getAll('action').map((name) => {
    const action = ACTIONS.find((candidate) => candidate === name)
    if (action === undefined) {
      const variants = ACTIONS.map((variant) => `\`${variant}\``).join(', ')
      throw PipelineFailure.query(`unknown variant \`${name}\`, expected one of ${variants}`)
    }
    return action
  })
  const table = readSingle(parameters, 'table')
  if (table === null) throw PipelineFailure.query('missing field `table`')
  // the service documents `action` as required, but libsql-server does not require it
  return { table, actions: new Set<Action>(actions.length === 0 ? ACTIONS : actions) }
}

/** Returns the value of a parameter; null if it is absent. @throws PipelineFailure with 400 if it occurs more than once */
function readSingle(parameters: URLSearchParams, name: string): string | null {
  const values = parameters.getAll(name)
  if (values.length > 1) throw PipelineFailure.query(`duplicate field \`${name}\``)
  return values[0] ?? null
}
