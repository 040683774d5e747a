import { join } from 'node:path'
import type { DatabaseId, ReplicaConditions } from '@batonsql/server-common/backend'
import { InternalRequests } from '../process/internal-requests.ts'
import { Upstream, type UpstreamCallbacks, type UpstreamOptions } from '../process/upstream.ts'
import type { IdentifiedSettings } from '../settings-table.ts'
import { StreamRequests } from '../stream-requests.ts'
import type { WriteService } from '../writes/write-service.ts'
import { GrpcProxy } from './grpc-proxy.ts'

export interface ReplicaOptions extends Omit<UpstreamOptions, 'remote' | 'primary' | 'servesReplicas'> {
  readonly primary: Upstream
  /** The primary's write gates; forwarded writes also pass through them. */
  readonly writes: WriteService
  readonly filterAttachable: UpstreamCallbacks['filterAttachable']
  readonly conditions: ReplicaConditions
}

/** How long the server may take to respond to a health check. */
const RESPONSE_TIMEOUT_MS = 3_000

/**
 * A libsql-server that replicates the primary of its group. It serves reads, and forwards writes to the primary. Its data is
 * removed at each start.
 */
export class Replica implements AsyncDisposable {
  readonly streams: StreamRequests
  readonly upstream: Upstream
  readonly #proxy: GrpcProxy
  /** Databases that the server may still block or block later, because it receives settings with a delay. */
  readonly #unblockedIds = new Set<DatabaseId>()
  #isClosed = false

  private constructor(upstream: Upstream, proxy: GrpcProxy, writes: WriteService) {
    this.upstream = upstream
    this.#proxy = proxy
    this.streams = new StreamRequests(upstream, new InternalRequests(upstream), writes, true)
  }

  static async start(location: string, options: ReplicaOptions): Promise<Replica> {
    const { primary, writes, filterAttachable, conditions, ...shared } = options
    const keys = await primary.replicationKeys()
    const proxy = await GrpcProxy.start({ primaryPort: () => primary.grpcPort(), keys, conditions, location })
    const upstream = new Upstream(
      {
        ...shared,
        directory: replicaFolder(location, options.directory),
        remote: undefined,
        primary: { grpcUrl: proxy.url, keys, exists: (id: DatabaseId) => primary.exists(id) },
      },
      { onStart: () => {}, filterAttachable },
    )
    const replica = new Replica(upstream, proxy, writes)
    try {
      // the server connects to it when it starts
      await primary.grpcPort()
      await upstream.start()
      return replica
    } catch (error) {
      await replica[Symbol.asyncDispose]()
      throw error
    }
  }

  /** Describes what is wrong with the server; null if it is healthy. */
  async findHealthProblem(): Promise<string | null> {
    if (!this.upstream.isRunning) return 'is not running'
    return (await this.upstream.responds(RESPONSE_TIMEOUT_MS)) ? null : 'does not respond'
  }

  /** Called when reads of a database are no longer blocked. */
  onUnblock(id: DatabaseId): void {
    this.#unblockedIds.add(id)
  }

  /** Whether the server may block reads that are allowed again, because it has not received the latest settings. */
  async mayBlock(id: DatabaseId, getSettings: () => IdentifiedSettings): Promise<boolean> {
    if (!this.#unblockedIds.has(id)) return false
    const config = await this.upstream.withAdmin((admin) => admin.readConfig(id))
    // a database that it has not loaded yet is loaded with the settings of the primary, which may not be the latest ones yet
    if (config === null) return false
    // while writes are blocked, the latest settings have no mark
    if (config.block_reason !== getSettings().changeId) return true
    this.#unblockedIds.delete(id)
    return false
  }

  /** Removes its copy of a database that the primary has removed. */
  async remove(id: DatabaseId): Promise<void> {
    this.#unblockedIds.delete(id)
    // a stopped replica loses all data at its next start
    if (!this.upstream.isRunning) return
    await this.upstream
      .withAdmin((admin) => admin.remove(id))
      .catch((error: unknown) => {
        if (!this.#isClosed) throw error
      })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true
    await this.upstream.close()
    await this.#proxy[Symbol.asyncDispose]()
  }
}

/** Returns the folder of a replica in the folder of its group. */
export function replicaFolder(location: string, directory: string): string {
  return join(directory, 'replicas', location)
}
