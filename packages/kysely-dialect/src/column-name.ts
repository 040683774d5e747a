import { ColumnNode, type OperationNode, ReferenceNode } from 'kysely'

/** Returns the name of the column that a node refers to; null if it is not a reference to a single column. */
export function columnName(node: OperationNode): string | null {
  const column = ReferenceNode.is(node) ? node.column : node
  return ColumnNode.is(column) ? column.column.name : null
}
