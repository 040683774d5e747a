import { checkOptions } from '../../base/check-options.ts'
import type { Instance, QueryStatistics } from '../models.ts'
import type { PlatformCall } from '../platform-call.ts'
import type { PlatformCallOptions } from '../platform-config.ts'
import { CALL, type Deleted, type PlatformHttp, REMOVE, type RemoveOptions } from '../platform-http.ts'
import { path } from '../platform-path.ts'
import { usageQuery } from '../resources/usage.ts'

export class UnstableDatabases {
  readonly #http: PlatformHttp

  constructor(http: PlatformHttp) {
    this.#http = http
  }

  /** Adds an instance in a location. */
  addInstance(name: string, location: string, options: PlatformCallOptions = {}): PlatformCall<Instance> {
    const http = this.#http
    return http.call(
      {
        method: 'POST',
        path: path`/v1/organizations/${http.organization}/databases/${name}/instances`,
        body: { location },
      },
      options,
      (answer) => answer.object<Instance>('instance', 'name'),
    )
  }

  removeInstance(name: string, instance: string, options: RemoveOptions = {}): PlatformCall<Deleted> {
    checkOptions(options, REMOVE)
    const http = this.#http
    return http.remove(
      {
        method: 'DELETE',
        path: path`/v1/organizations/${http.organization}/databases/${name}/instances/${instance}`,
      },
      options,
    )
  }

  /** Waits until an instance is ready: the service answers when it is. */
  waitForInstance(name: string, instance: string, options: PlatformCallOptions = {}): PlatformCall<void> {
    const http = this.#http
    return http.command(
      {
        method: 'GET',
        path: path`/v1/organizations/${http.organization}/databases/${name}/instances/${instance}/wait`,
      },
      options,
    )
  }

  /** Fills a database from a dump. */
  seed(name: string, file: Blob, options: PlatformCallOptions = {}): PlatformCall<void> {
    const http = this.#http
    return http.command(
      {
        method: 'POST',
        path: path`/v1/organizations/${http.organization}/databases/${name}/seed`,
        body: formOf(file),
      },
      options,
    )
  }

  /** Uploads a dump. @returns a URL of it, for `databases.create({ seed: { type: 'dump', url } })` */
  uploadDump(file: Blob, options: PlatformCallOptions = {}): PlatformCall<string> {
    const http = this.#http
    return http.call(
      {
        method: 'POST',
        path: path`/v1/organizations/${http.organization}/databases/dumps`,
        body: formOf(file),
      },
      options,
      (answer) => answer.text('dump_url'),
    )
  }

  /** The queries that read and wrote most since a time. */
  queryUsage(
    name: string,
    options: PlatformCallOptions & { readonly from?: Date | string | undefined } = {},
  ): PlatformCall<QueryStatistics[]> {
    checkOptions(options, { ...CALL, from: 'string or object' })
    const { from, ...callOptions } = options
    const http = this.#http
    return http.call(
      {
        method: 'GET',
        path: path`/v1/organizations/${http.organization}/databases/${name}/usage/queries`,
        query: usageQuery({ from }),
      },
      callOptions,
      (answer) => answer.list<QueryStatistics>('queries'),
    )
  }

  /** Gives a database to another organization. @param organization slug of its new owner */
  transfer(name: string, organization: string, options: PlatformCallOptions = {}): PlatformCall<void> {
    const http = this.#http
    return http.command(
      {
        method: 'POST',
        path: path`/v1/organizations/${http.organization}/databases/${name}/transfer`,
        body: { org: organization },
      },
      options,
    )
  }

  /** Wakes a database that sleeps because nobody used it. One in a group is woken by `groups.unarchive`. */
  wakeUp(name: string, options: PlatformCallOptions = {}): PlatformCall<void> {
    const http = this.#http
    return http.command(
      { method: 'POST', path: path`/v1/organizations/${http.organization}/databases/${name}/wakeup` },
      options,
    )
  }

  /** Brings a database to the newest version. Withdrawn by the service in 2026. @param options `group`: all of its group */
  update(
    name: string,
    options: PlatformCallOptions & { readonly group?: boolean | undefined } = {},
  ): PlatformCall<void> {
    checkOptions(options, { ...CALL, group: 'boolean' })
    const { group, ...callOptions } = options
    const http = this.#http
    return http.command(
      {
        method: 'POST',
        path: path`/v1/organizations/${http.organization}/databases/${name}/update`,
        query: { group },
      },
      callOptions,
    )
  }
}

function formOf(file: Blob): FormData {
  const form = new FormData()
  form.append('file', file)
  return form
}
