import type { DatabaseBackend, DatabaseId, DatabaseSettings } from '../backend.ts'
import type { ServiceRequest, ServiceResponse } from '../exchange.ts'

export interface SqldBackendOptions {
  readonly directory: string
  readonly publicKeyPem: string | null
  readonly sqldPath: string | undefined
}

export class SqldBackend implements DatabaseBackend {
  readonly kind = 'sqld' as const
  constructor(_: SqldBackendOptions) {}
  async start(): Promise<string> {
    throw new Error('todo')
  }
  async create(_: DatabaseId, __: DatabaseSettings): Promise<void> {}
  async applySettings(_: DatabaseId, __: DatabaseSettings): Promise<void> {}
  async remove(_: DatabaseId): Promise<void> {}
  async handle(_: DatabaseId, __: ServiceRequest): Promise<ServiceResponse> {
    throw new Error('todo')
  }
  async [Symbol.asyncDispose](): Promise<void> {}
}
