import { call, type Request } from './call.ts'
import { CALL_OPTIONS, checkOptions, FROM_1, type Rules, type RulesOf } from './check-options.ts'
import type { PlatformCallOptions, ResolvedConfig } from './config.ts'
import { type Page, Pages } from './pages.ts'
import { fillPath, type Query } from './path.ts'
import type { PlatformCall } from './platform-call.ts'
import { isNotFound } from './platform-error.ts'
import type { Reader } from './readers.ts'
import { bodyOf } from './view.ts'

// A method of the client is a line of a table: `GET /path/{name}`, what its answer holds, and what it takes besides the parts
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

/** For options that put nothing into the request. */
export const unsent =
  <O>(): ((options: O) => object) =>
  () => ({})

type Pattern<Verb extends Request['method'] = Request['method']> = `${Verb} /${string}`

/** Whether something was deleted. */
export interface Deleted {
  /** False when there was none, which only `missingOk` lets pass. */
  readonly deleted: boolean
  /** Body of the answer; undefined when there was none. */
  readonly raw: unknown
}

export interface RemoveOptions extends PlatformCallOptions {
  /** That it is no error when there is nothing of that name. @default false */
  readonly missingOk?: boolean | undefined
}

export interface PagedOptions extends PlatformCallOptions {
  /** How many at a time. @default 100 */
  readonly pageSize?: number | undefined
}

/** What makes the methods of a client. They throw a TypeError for a mistake of the caller, before anything is sent. */
export type Routes = ReturnType<typeof routesOf>

export function routesOf(config: ResolvedConfig) {
  /** A method that sends one request. */
  const route = <
    const P extends Pattern,
    T,
    I extends readonly unknown[] = [],
    O extends PlatformCallOptions = PlatformCallOptions,
  >(
    pattern: P,
    read: Reader<T>,
    takes: Takes<I, O> = {},
  ): ((...args: [...ParametersOf<P>, ...I, options?: O]) => PlatformCall<T>) =>
    method(config, pattern, takes, (request, options) => call(config, request, options, read))

  /**
   * A method that deletes what its path names. When an answer was lost and there is nothing to delete any more afterwards, it
   * is done; otherwise that is an error, unless `missingOk`.
   */
  const removal = <const P extends Pattern<'DELETE'>>(
    pattern: P,
  ): ((...args: [...ParametersOf<P>, options?: RemoveOptions]) => PlatformCall<Deleted>) => {
    const read: Reader<Deleted> = ({ body }) => ({ deleted: true, raw: body })
    const start = (
      request: Request,
      { missingOk = false, ...options }: RemoveOptions,
    ): PlatformCall<Deleted> =>
      call(config, request, options, read, (error, mayHaveRun) =>
        isNotFound(error) && (missingOk || mayHaveRun) ? { deleted: mayHaveRun, raw: undefined } : null,
      )
    return method(config, pattern, { rules: { missingOk: 'boolean' } }, start)
  }

  /** A method that gives a list in pages. @param queryOf asks for a page of a size, the one that `at` names */
  const pages = <const P extends Pattern<'GET'>, T, O extends PagedOptions = PagedOptions>(
    pattern: P,
    queryOf: (at: string | null, size: number) => Query,
    read: (at: string | null) => Reader<Page<T>>,
    { rules, send }: Pick<Takes<[], O>, 'send'> & { readonly rules?: Rules } = {},
  ): ((...args: [...ParametersOf<P>, options?: O]) => Pages<T>) =>
    method(
      config,
      pattern,
      { rules: { ...rules, pageSize: FROM_1 }, send },
      (request, { pageSize = 100, ...options }: PagedOptions) =>
        new Pages((at) => {
          const query = { ...request.query, ...queryOf(at, pageSize) }
          return call(config, { ...request, query }, options, read(at))
        }),
    )
  return { route, removal, pages }
}

function method<R>(
  config: ResolvedConfig,
  pattern: Pattern,
  // oxlint-disable-next-line typescript/no-explicit-any -- each method has its own
  { body, rules, send, isRepeatable }: Takes<any, any>,
  start: (request: Request, options: PlatformCallOptions) => R,
): (...args: unknown[]) => R {
  const [verb, path] = pattern.split(' ') as [Request['method'], string]
  return (...args) => {
    const request = { method: verb, path: pathOf(path, config, args), isRepeatable }
    const sent = body && { body: body(args.shift()) }
    const options = (args.shift() ?? {}) as PlatformCallOptions
    checkOptions(options, { ...CALL_OPTIONS, ...(rules as Rules) })
    return start({ ...request, ...sent, ...send?.(options) }, options)
  }
}

/** A body of an object's fields. @param rules names by what they take @throws TypeError for any other field or value */
export function checkedBody<T extends object>(
  input: T,
  rules: { readonly [Rule in string]: readonly (keyof T & string)[] },
): object {
  const entries = Object.entries(rules).flatMap(([rule, names]) => names.map((name) => [name, rule] as const))
  checkOptions(input, Object.fromEntries(entries))
  return bodyOf(input)
}

/** Fills a path. @param args the values of its parts, which are taken off @throws TypeError when there is no organization */
export const pathOf = (pattern: string, { organization }: ResolvedConfig, args: unknown[]): string =>
  fillPath(pattern, (name) => {
    if (name !== 'organization') return args.shift()
    if (organization !== undefined) return organization
    throw new TypeError('this call needs an organization: createPlatformClient({ organization, … })')
  })
