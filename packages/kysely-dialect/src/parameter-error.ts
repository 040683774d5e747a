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
 * Adds the column to the error of a parameter that cannot be stored. Core begins its message with `statement N, parameter M: `.
 * Returns the error unchanged if it is another, or if several columns have the value.
 * @param queries the queries of a batch, or a single one
 */
export function withColumn(error: unknown, queries: readonly CompiledQuery[]): unknown {
  const isRange = error instanceof RangeError
  if (!isRange && !(error instanceof TypeError)) return error
  const [prefix, index = 0, position] =
    /^(?:statement (\d+), )?parameter (\d+)(?=: )/.exec(error.message) ?? []
  const query = prefix === undefined ? undefined : queries[Number(index)]
  if (prefix === undefined || query === undefined) return error
  const columns = new Set<string | null>()
  addColumns(query.query, query.parameters[Number(position) - 1], columns)
  const [column = null] = columns
  if (columns.size > 1 || column === null) return error
  const message = `${prefix} (column ${column})${error.message.slice(prefix.length)}`
  return isRange ? new RangeError(message, { cause: error }) : new TypeError(message, { cause: error })
}

/** Adds the columns that a value is stored in or compared with. */
function addColumns(node: unknown, value: unknown, columns: Set<string | null>): void {
  if (typeof node !== 'object' || node === null) return
  const operation = node as OperationNode
  // values of the user, which may refer to themselves
  if (ValueNode.is(operation) || PrimitiveValueListNode.is(operation)) return
  if (ColumnUpdateNode.is(operation) && holds(operation.value, value))
    columns.add(columnName(operation.column))
  if (BinaryOperationNode.is(operation) && holds(operation.rightOperand, value))
    columns.add(columnName(operation.leftOperand))
  if (InsertQueryNode.is(operation) && operation.values && ValuesNode.is(operation.values))
    for (const row of operation.values.values)
      for (const [index, item] of row.values.entries()) {
        const isValue = PrimitiveValueListNode.is(row)
          ? Object.is(item, value)
          : holds(item as OperationNode, value)
        if (isValue) columns.add(operation.columns?.[index]?.column.name ?? null)
      }
  for (const child of Object.values(node)) addColumns(child, value, columns)
}

/** Whether a node is a value, or a list that contains it. */
function holds(node: OperationNode, value: unknown): boolean {
  if (ValueNode.is(node)) return Object.is(node.value, value)
  if (PrimitiveValueListNode.is(node)) return node.values.some((item) => Object.is(item, value))
  return ValueListNode.is(node) && node.values.some((item) => holds(item, value))
}
