import {
  BinaryOperationNode,
  ColumnUpdateNode,
  type CompiledQuery,
  InsertQueryNode,
  type OperationNode,
  PrimitiveValueListNode,
  ValueListNode,
  ValueNode,
  ValuesNode,
} from 'kysely'
import { columnName } from './column-name.ts'

/**
 * Adds the column to the error of a parameter that cannot be stored. Returns other errors unchanged.
 * @param queries the queries of a batch, or a single one
 */
export function withColumn(error: unknown, queries: readonly CompiledQuery[]): unknown {
  const isRange = error instanceof RangeError
  if (!isRange && !(error instanceof TypeError)) return error
  const [start, index = 0, position] =
    /^(?:statement (\d+), )?parameter (\d+)(?=: )/.exec(error.message) ?? []
  const query = start === undefined ? undefined : queries[Number(index)]
  const column = query ? findColumn(query.query, query.parameters[Number(position) - 1]) : null
  if (start === undefined || column === null) return error
  const message = `${start} (column ${column})${error.message.slice(start.length)}`
  return isRange ? new RangeError(message, { cause: error }) : new TypeError(message, { cause: error })
}

/** Returns the column that a value is stored in or compared with; null if it cannot be found. */
function findColumn(node: unknown, value: unknown): string | null {
  if (typeof node !== 'object' || node === null) return null
  const column = ownColumn(node as OperationNode, value)
  if (column !== null) return column
  for (const child of Object.values(node)) {
    const found = findColumn(child, value)
    if (found !== null) return found
  }
  return null
}

function ownColumn(node: OperationNode, value: unknown): string | null {
  if (ColumnUpdateNode.is(node)) return holds(node.value, value) ? columnName(node.column) : null
  if (BinaryOperationNode.is(node))
    return holds(node.rightOperand, value) ? columnName(node.leftOperand) : null
  if (!InsertQueryNode.is(node) || !node.values || !ValuesNode.is(node.values)) return null
  for (const row of node.values.values) {
    const index = row.values.findIndex((item) =>
      PrimitiveValueListNode.is(row) ? Object.is(item, value) : holds(item as OperationNode, value),
    )
    const column = node.columns?.[index]
    if (column) return column.column.name
  }
  return null
}

const holds = (node: OperationNode, value: unknown): boolean =>
  ValueNode.is(node)
    ? Object.is(node.value, value)
    : PrimitiveValueListNode.is(node)
      ? node.values.some((item) => Object.is(item, value))
      : ValueListNode.is(node) && node.values.some((item) => holds(item, value))
