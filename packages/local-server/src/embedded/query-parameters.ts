import { PipelineFailure } from '../hrana/pipeline-failure.ts'
import { ACTIONS, type Action, type Subscription } from './change-feed.ts'

/** Whether `GET /dump` is to write row ids. @throws PipelineFailure with 400, in the words of the service */
export function readDumpQuery(query: string): { readonly preserveRowIds: boolean } {
  const value = single(new URLSearchParams(query), 'preserve_row_ids')
  if (value !== null && value !== 'true' && value !== 'false') {
    throw PipelineFailure.query('provided string was not `true` or `false`')
  }
  return { preserveRowIds: value === 'true' }
}

/** What `GET /beta/listen` listens to. @throws PipelineFailure with 400, in the words of the service */
export function readListenQuery(query: string): Subscription {
  const parameters = new URLSearchParams(query)
  const actions = parameters.getAll('action').map((name) => {
    const action = ACTIONS.find((known) => known === name)
    if (action === undefined) {
      const known = ACTIONS.map((each) => `\`${each}\``).join(', ')
      throw PipelineFailure.query(`unknown variant \`${name}\`, expected one of ${known}`)
    }
    return action
  })
  const table = single(parameters, 'table')
  if (table === null) throw PipelineFailure.query('missing field `table`')
  return { table, actions: new Set<Action>(actions.length === 0 ? ACTIONS : actions) }
}

function single(parameters: URLSearchParams, name: string): string | null {
  const values = parameters.getAll(name)
  if (values.length > 1) throw PipelineFailure.query(`duplicate field \`${name}\``)
  return values[0] ?? null
}
