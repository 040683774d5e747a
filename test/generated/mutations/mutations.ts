import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseAst } from 'vite'

/** A small mistake of a kind that developers make. */
export interface Mutation {
  /** Relative to the package. */
  readonly file: string
  readonly line: number
  readonly what: string
  readonly start: number
  readonly end: number
  readonly replacement: string
}

interface Node {
  readonly type: string
  readonly start: number
  readonly end: number
  readonly [name: string]: unknown
}

/** All mutations of a package. @param root its folder @param files which of its sources, relative to `src` */
export function mutationsOf(root: string, files: RegExp): Mutation[] {
  const source = join(root, 'src')
  const names = readdirSync(source, { recursive: true, encoding: 'utf8' }).toSorted()
  return names
    .filter((name) => name.endsWith('.ts') && !/\.(test|d)\.ts$|\.test-d\.ts$/.test(name))
    .filter((name) => files.test(name.replaceAll('\\', '/')))
    .flatMap((name) => mutationsIn(join('src', name), readFileSync(join(source, name), 'utf8')))
}

function mutationsIn(file: string, text: string): Mutation[] {
  const found: Mutation[] = []
  const add = (node: Node, what: string, replacement: string): void => {
    const line = text.slice(0, node.start).split('\n').length
    found.push({ file, line, what, start: node.start, end: node.end, replacement })
  }
  const textOf = ({ start, end }: Node): string => text.slice(start, end)
  const visit = (value: unknown): void => {
    if (Array.isArray(value)) return value.forEach(visit)
    const node = value as Node | null
    if (typeof node !== 'object' || node === null) return
    if (typeof node.type === 'string') mutate(node, textOf, add)
    for (const [key, child] of Object.entries(node))
      if (typeof child === 'object' && !/typeAnnotation|typeParameters|typeArguments|returnType/.test(key))
        visit(child)
  }
  visit(parseAst(text, { lang: 'ts' }))
  return found
}

const OPPOSITES: Readonly<Record<string, string>> = {
  '&&': '||',
  '||': '&&',
  '===': '!==',
  '!==': '===',
  '==': '!=',
  '!=': '==',
  '<': '<=',
  '<=': '<',
  '>': '>=',
  '>=': '>',
  '+=': '-=',
}

function mutate(
  node: Node,
  textOf: (node: Node) => string,
  add: (node: Node, what: string, by: string) => void,
): void {
  const { test, left, right, operator, expression, argument } = node as unknown as Record<string, Node> & {
    operator?: string
  }
  switch (node.type) {
    case 'IfStatement':
    case 'ConditionalExpression':
    case 'WhileStatement':
      if (test) add(test, `condition negated: ${textOf(test)}`, `!(${textOf(test)})`)
      return
    case 'LogicalExpression':
    case 'BinaryExpression': {
      const other = OPPOSITES[operator ?? '']
      if (left && right && other)
        add(node, `${operator} is ${other}: ${textOf(node)}`, `(${textOf(left)} ${other} ${textOf(right)})`)
      return
    }
    case 'AwaitExpression':
      if (argument) add(node, `await removed: ${textOf(node)}`, textOf(argument))
      return
    case 'ExpressionStatement':
      if (expression && /^(Assignment|Call|Await|Update)Expression$/.test(expression.type))
        add(node, `removed: ${textOf(node)}`, ';')
      return
    case 'Literal':
      if (typeof node['value'] === 'boolean')
        add(node, `${node['value']} is ${!node['value']}`, String(!node['value']))
      return
    default:
  }
}
