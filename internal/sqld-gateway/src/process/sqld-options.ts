/** Options of {@link startSqld}. */
export interface SqldOptions {
  /** Path of the program; by default found by `findSqld`. */
  readonly sqldPath?: string
  /** Data directory. By default, a temporary one that `close()` removes. */
  readonly dataDirectory?: string
  /** Port on 127.0.0.1. @default a free port */
  readonly port?: number
  /**
   * Whether the server has several databases. If false, there is only `default`, at the bare URL; if true, a request names its
   * database in the `x-namespace-bin` header or in the first label of the host name.
   * @default false
   */
  readonly namespaces?: boolean
  /** Ed25519 public key (PEM) for verifying tokens. Without it, everyone has full access. */
  readonly publicKeyPem?: string
  /** Maximum number of open databases with `namespaces`; beyond it the server responds with false 404s. @default 1000 */
  readonly maxOpenDatabases?: number
  /** Additional arguments of the program, such as those of a replica. */
  readonly serverArguments?: readonly string[]
}
