import { call, type Deleted, type RemoveOptions, type Request, remove } from './call.ts'
import { CALL_OPTIONS, checkOptions, FROM_1, type Rules, type RulesOf } from './check-options.ts'
import type { PlatformCallOptions, ResolvedConfig } from './config.ts'
import { type Page, Pages } from './pages.ts'
import { fillPath, type Query } from './path.ts'
import type { PlatformCall } from './platform-call.ts'
import type { Reader } from './readers.ts'
import { bodyOf } from './view.ts'

// A method of the client is a row of a table: `GET /path/{name}`, what its answer holds, and what it takes besides the parts
// of its path. The types of its arguments and of its result follow from these.

/** What the parts of a path are called as arguments. That of the organization comes from the client. */
interface Labels {
  organization: []
  name: [name: string]
  instance: [instance: string]
  location: [location: string]
  username: [username: string]
  email: [email: string]
  id: [id: string]
}

type ParametersOf<P> = P extends `${string}{${infer Name extends keyof Labels}}${infer Rest}`
  ? [...Labels[Name], ...ParametersOf<Rest>]
  : []

/** What a method takes: an argument that makes the body, and options, which may make a query or a body. */
interface Takes<I extends readonly unknown[], O> {
  readonly body?: ((...input: I) => object) | undefined
  readonly rules?: RulesOf<Omit<O, keyof PlatformCallOptions>> | undefined
  readonly send?: ((options: O) => Pick<Request, 'query' | 'body'>) | undefined
  readonly isRepeatable?: boolean | undefined
}

/** A row; `Method` is the type of what it makes. */
export interface Row<Method> {
  readonly pattern: `${Request['method']} /${string}`
  // oxlint-disable-next-line typescript/no-explicit-any -- each row has its own
  readonly takes: Takes<any, any>
  readonly start: (config: ResolvedConfig, request: Request, options: object) => unknown
  /** Only a type: there is no such property. */
  readonly method?: Method
}
type RowOf<P, I extends readonly unknown[], O, R> = Row<
  (...args: [...ParametersOf<P>, ...I, options?: O]) => R
>

/** The methods of a table. */
export type Methods<T> = { readonly [K in keyof T]: T[K] extends Row<infer Method> ? Method : never }

/** A row whose method sends one request. */
export const route = <
  const P extends Row<never>['pattern'],
  T,
  I extends readonly unknown[] = [],
  O extends PlatformCallOptions = PlatformCallOptions,
>(
  pattern: P,
  read: Reader<T>,
  takes: Takes<I, O> = {},
): RowOf<P, I, O, PlatformCall<T>> => ({
  pattern,
  takes,
  start: (config, request, options) => call(config, request, options, read),
})

/** A row whose method deletes what its path names. */
export const removal = <const P extends `DELETE /${string}`>(
  pattern: P,
): RowOf<P, [], RemoveOptions, PlatformCall<Deleted>> => ({
  pattern,
  takes: { rules: { missingOk: 'boolean' } },
  start: remove,
})

export interface PagedOptions extends PlatformCallOptions {
  /** How many at a time. @default 100 */
  readonly pageSize?: number | undefined
}

/** A row whose method gives a list in pages. @param queryOf asks for a page of a size, the one that `at` names */
export const pages = <const P extends `GET /${string}`, T, O extends PagedOptions = PagedOptions>(
  pattern: P,
  queryOf: (at: string | null, size: number) => Query,
  read: (at: string | null) => Reader<Page<T>>,
  takes: Pick<Takes<[], O>, 'send'> & { readonly rules?: Rules } = {},
): RowOf<P, [], O, Pages<T>> => ({
  pattern,
  takes: { ...takes, rules: { ...takes.rules, pageSize: FROM_1 } },
  start: (config, request, { pageSize = 100, ...options }: PagedOptions) =>
    new Pages((at) => {
      const query = { ...request.query, ...queryOf(at, pageSize) }
      return call(config, { ...request, query }, options, read(at))
    }),
})

/** A body of an object's fields. @param rules names by what they take @throws TypeError for any other field or value */
export function checkedBody<T extends object>(
  input: T,
  rules: { readonly [Rule in string]: readonly (keyof T & string)[] },
): object {
  const entries = Object.entries(rules).flatMap(([rule, names]) => names.map((name) => [name, rule] as const))
  checkOptions(input, Object.fromEntries(entries))
  return bodyOf(input)
}

/** Makes the methods of a table. They throw a TypeError for a mistake of the caller, before anything is sent. */
export const methodsOf = <T extends object>(table: T, config: ResolvedConfig): Methods<T> =>
  Object.fromEntries(
    Object.entries(table).map(([name, row]) => [
      name,
      (...args: unknown[]) => perform(row as Row<unknown>, config, args),
    ]),
  ) as Methods<T>

function perform({ pattern, takes, start }: Row<unknown>, config: ResolvedConfig, args: unknown[]): unknown {
  const [method, path] = pattern.split(' ') as [Request['method'], string]
  const filled = pathOf(path, config, args)
  const body = takes.body?.(args.shift()) as object | undefined
  const options = (args.shift() ?? {}) as PlatformCallOptions
  checkOptions(options, { ...CALL_OPTIONS, ...takes.rules })
  const { isRepeatable } = takes
  return start(config, { method, path: filled, body, isRepeatable, ...takes.send?.(options) }, options)
}

/** Fills a path. @param args the values of its parts, which are taken off @throws TypeError when there is no organization */
export const pathOf = (pattern: string, { organization }: ResolvedConfig, args: unknown[]): string =>
  fillPath(pattern, (name) => {
    if (name !== 'organization') return args.shift()
    if (organization !== undefined) return organization
    throw new TypeError('this call needs an organization: createPlatformClient({ organization, … })')
  })
