import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseAst } from 'vite'

/** A small mistake of a kind that developers make. */
export interface Mutation {
  /** Path relative to the package. */
  readonly file: string
  readonly line: number
  readonly description: string
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

/**
 * Returns all mutations of a package.
 * @param root its folder @param files a pattern for the paths of its sources, relative to `src`
 */
export function findMutations(root: string, files: RegExp): Mutation[] {
  const source = join(root, 'src')
  const names = readdirSync(source, { recursive: true, encoding: 'utf8' }).toSorted()
  return names
    .filter((name) => name.endsWith('.ts') && !/\.(test|d)\.ts$|\.test-d\.ts$/.test(name))
    .filter((name) => files.test(name.replaceAll('\\', '/')))
    .flatMap((name) => findFileMutations(join('src', name), readFileSync(join(source, name), 'utf8')))
}

function findFileMutations(file: string, text: string): Mutation[] {
  const mutations: Mutation[] = []
  const add = (node: Node, description: string, replacement: string): void => {
    const line = text.slice(0, node.start).split('\n').length
    mutations.push({ file, line, description, start: node.start, end: node.end, replacement })
  }
  const getText = ({ start, end }: Node): string => text.slice(start, end)
  const visit = (value: unknown): void => {
    if (Array.isArray(value)) return value.forEach(visit)
    const node = value as Node | null
    if (typeof node !== 'object' || node === null) return
    if (typeof node.type === 'string') mutate(node, getText, add)
    for (const [key, child] of Object.entries(node))
      if (typeof child === 'object' && !/typeAnnotation|typeParameters|typeArguments|returnType/.test(key))
        visit(child)
  }
  visit(parseAst(text, { lang: 'ts' }))
  return mutations
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
  '+': '-',
  '-': '+',
  '+=': '-=',
  '-=': '+=',
}
/** Operators whose opposite is the negation of a condition. */
const NEGATED_BY_OPPOSITE = ['!', '===', '!==', '==', '!=']
/** Arguments that can be swapped by mistake. */
const isVariable = ({ type }: Node): boolean => /^(Identifier|MemberExpression)$/.test(type)

function mutate(
  node: Node,
  getText: (node: Node) => string,
  add: (node: Node, description: string, replacement: string) => void,
): void {
  const { test, left, right, operator, expression, argument } = node as unknown as Record<string, Node> & {
    operator?: string
  }
  switch (node.type) {
    case 'IfStatement':
    case 'ConditionalExpression':
    case 'WhileStatement':
      if (test && !NEGATED_BY_OPPOSITE.includes(test['operator'] as string))
        add(test, `condition negated: ${getText(test)}`, `!(${getText(test)})`)
      return
    case 'LogicalExpression':
    case 'BinaryExpression': {
      const opposite = OPPOSITES[operator ?? '']
      if (left && operator === '??') add(node, `?? removed: ${getText(node)}`, `(${getText(left)})`)
      if (left && right && opposite)
        add(
          node,
          `${operator} replaced with ${opposite}: ${getText(node)}`,
          // the text of an operand has no parentheses around it
          `((${getText(left)}) ${opposite} (${getText(right)}))`,
        )
      return
    }
    case 'UnaryExpression':
      if (argument && operator === '!') add(node, `! removed: ${getText(node)}`, `(${getText(argument)})`)
      return
    case 'AwaitExpression':
      if (argument) add(node, `await removed: ${getText(node)}`, getText(argument))
      return
    case 'ReturnStatement':
      if (argument && argument.type !== 'Literal' && getText(argument) !== 'undefined')
        add(argument, `undefined returned: ${getText(argument)}`, 'undefined')
      return
    case 'CallExpression':
    case 'NewExpression': {
      const [first, second] = node['arguments'] as Node[]
      if (first && second && isVariable(first) && isVariable(second))
        add(
          { ...first, end: second.end },
          `arguments swapped: ${getText(node)}`,
          `${getText(second)}, ${getText(first)}`,
        )
      return
    }
    case 'ExpressionStatement':
      if (
        expression &&
        /^(Assignment|Call|Await|Update)Expression$/.test(expression.type) &&
        !getText(expression).startsWith('super(')
      )
        add(node, `removed: ${getText(node)}`, ';')
      return
    case 'Literal':
      if (typeof node['value'] === 'boolean')
        add(node, `${node['value']} replaced with ${!node['value']}`, String(!node['value']))
      return
    default:
  }
}
