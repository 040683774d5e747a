import { CALL_OPTIONS, COUNT, checkOption, checkOptions, type RulesOf } from '@batonsql/options'
import { call, type Request } from './call.ts'
import type { PlatformCallOptions, ResolvedConfig } from './config.ts'
import { type Page, Pages } from './pages.ts'
import { fillPath, type Query } from './path.ts'
import { type PlatformCall, rejectCall } from './platform-call.ts'
import { isNotFound } from './platform-error.ts'
import type { Reader } from './readers.ts'
import { toBody } from './view.ts'

// Each method of the client is one entry in a table: the pattern `GET /path/{name}`, a function that reads the response, and the
// arguments that are not in the path. The types of the method's arguments and result are derived from its entry.

/**
 * The argument of each path parameter. The organization is no argument, because the client has it. A method whose path has any
 * other parameter cannot be called.
 */
interface Labels {
  organization: []
  name: [name: string]
  instance: [instance: string]
  snapshot: [snapshot: string]
  location: [location: string]
  username: [username: string]
  email: [email: string]
  id: [id: string]
}

type ParametersOf<P> = P extends `${string}{${infer Name}}${infer Rest}`
  ? [...(Name extends keyof Labels ? Labels[Name] : [unknownParameter: never]), ...ParametersOf<Rest>]
  : []

/** The argument between those of the path and the options, which only the body uses; empty if a method has none. */
type BodyArgument = readonly [input?: unknown]

/** Arguments of a method besides those in its path. */
interface MethodInput<I extends BodyArgument, O> {
  /** Returns the body for an argument before the options. If omitted, the method has no such argument. */
  readonly body?: ((...input: I) => object | undefined) | undefined
  /** Rules for options besides those of every call. */
  readonly rules?: RulesOf<Omit<O, keyof PlatformCallOptions>> | undefined
  /** Returns the query or body for the options. */
  readonly send?: ((options: O) => Pick<Request, 'query' | 'body'>) | undefined
  /** As in `Request`. */
  readonly isIdempotent?: boolean | undefined
}

/** Used as `send` by a method whose own options, such as `wait`, only steer the client: declares their type, and sends none of them. */
export const sendNothing =
  <O>(): ((options: O) => object) =>
  () => ({})

type Pattern<Verb extends Request['method'] = Request['method']> = `${Verb} /${string}`

/** The outcome of a deletion. */
export interface Deleted {
  /** False if the resource did not exist, which is an error without `missingOk`. */
  readonly deleted: boolean
  /** Body of the response; undefined if it was empty. */
  readonly raw: unknown
}

/** Options of a deletion. */
export interface DeleteOptions extends PlatformCallOptions {
  /** Whether a missing resource is not an error. @default false */
  readonly missingOk?: boolean | undefined
}

/** Options of a paginated list. */
export interface PagedOptions extends PlatformCallOptions {
  /** Number of items per page. @default 100 */
  readonly pageSize?: number | undefined
}

/**
 * Functions that create the methods of a client. For invalid arguments, the methods send nothing and reject with a TypeError; those
 * that return `Pages` do so when they are read.
 */
export type Routes = ReturnType<typeof buildRoutes>

export function buildRoutes(config: ResolvedConfig) {
  /** Creates a method that sends one request. */
  const route = <
    const P extends Pattern,
    T,
    I extends BodyArgument = [],
    O extends PlatformCallOptions = PlatformCallOptions,
  >(
    pattern: P,
    read: Reader<T>,
    input: MethodInput<I, O> = {},
  ): ((...args: [...ParametersOf<P>, ...I, options?: O]) => PlatformCall<T>) =>
    method(config, pattern, input, (request, options) => call(config, request, options, read), rejectCall)

  /**
   * Creates a method that deletes the resource of its path. A missing resource is an error, unless `missingOk` is set. If the response
   * to an earlier attempt was lost, a missing resource counts as deleted by that attempt.
   */
  const removal = <const P extends Pattern<'DELETE'>>(
    pattern: P,
  ): ((...args: [...ParametersOf<P>, options?: DeleteOptions]) => PlatformCall<Deleted>) => {
    const read: Reader<Deleted> = ({ body }) => ({ deleted: true, raw: body })
    const start = (
      request: Request,
      { missingOk = false, ...options }: DeleteOptions,
    ): PlatformCall<Deleted> =>
      call(config, request, options, read, (error, mayHaveRun) =>
        isNotFound(error) && (missingOk || mayHaveRun) ? { deleted: mayHaveRun, raw: undefined } : null,
      )
    return method(config, pattern, { rules: { missingOk: 'boolean' } }, start, rejectCall)
  }

  /** Creates a method for a paginated list. @param toQuery returns the query for a position and a page size */
  const pages = <const P extends Pattern<'GET'>, T, O extends PagedOptions = PagedOptions>(
    pattern: P,
    toQuery: (at: string | null, size: number) => Query,
    read: (at: string | null) => Reader<Page<T>>,
    {
      rules,
      send,
    }: Pick<MethodInput<[], O>, 'send'> & { readonly rules?: RulesOf<Omit<O, keyof PagedOptions>> } = {},
  ): ((...args: [...ParametersOf<P>, options?: O]) => Pages<T>) =>
    method(
      config,
      pattern,
      { rules: { ...rules, pageSize: COUNT }, send },
      (request, { pageSize = 100, ...options }: PagedOptions) =>
        new Pages((at) => {
          const query = { ...request.query, ...toQuery(at, pageSize) }
          return call(config, { ...request, query }, options, read(at))
        }),
      (error) => new Pages(() => rejectCall(error)),
    )
  return { route, removal, pages }
}

/** @param start sends the request of the method @param reject returns the method's result if its arguments are invalid */
// oxlint-disable-next-line max-params
function method<R>(
  config: ResolvedConfig,
  pattern: Pattern,
  // oxlint-disable-next-line typescript/no-explicit-any -- differs between methods
  { body, rules, send, isIdempotent }: MethodInput<any, any>,
  start: (request: Request, options: PlatformCallOptions) => R,
  reject: (error: unknown) => R,
): (...args: unknown[]) => R {
  const [verb, path] = pattern.split(' ') as [Request['method'], string]
  return (...args) => {
    try {
      // removes the arguments of the path, so that the next one is that of the body
      const request = { method: verb, path: buildPath(path, config, args), isIdempotent }
      const bodyPart = body && { body: body(args.shift()) }
      const [options = {}] = args as [PlatformCallOptions?]
      checkOptions(options, { ...CALL_OPTIONS, ...(rules as object) })
      return start({ ...request, ...bodyPart, ...send?.(options) }, options)
    } catch (error) {
      return reject(error)
    }
  }
}

/** Returns a body with an object's fields. @throws TypeError for a field without a rule, or a value that breaks its rule */
export function checkedBody<T extends object>(input: T, rules: RulesOf<T>): object {
  checkOptions(input, rules)
  return toBody(input)
}

/** Returns a body with a single text. @throws TypeError for any other value */
export function textBody(name: string, text: string): object {
  checkOption(name, text, 'string')
  return { [name]: text }
}

/**
 * Fills the pattern of a path with the organization of the client and with arguments.
 * @param args values of its parameters, which are removed
 * @throws TypeError for an invalid argument, and if the path has an organization but the client has none
 */
export const buildPath = (pattern: string, { organization }: ResolvedConfig, args: unknown[]): string =>
  fillPath(pattern, (name) => {
    if (name !== 'organization') return args.shift()
    if (organization !== undefined) return organization
    throw new TypeError('this call needs an organization: createPlatformClient({ organization, … })')
  })
