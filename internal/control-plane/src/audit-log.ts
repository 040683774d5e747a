import type { Registry } from './registry/registry.ts'

export interface AuditEntry {
  /** Kind of the action, as named by the service: `db-create`. */
  readonly code: string
  readonly message: string
  readonly data: Readonly<Record<string, unknown>>
}

export interface StoredAuditEntry extends AuditEntry {
  /** `cli` for the vendor's CLI, otherwise `web`. */
  readonly origin: string
  readonly author: string
  /** In ms since the Unix epoch. */
  readonly createdAt: number
}

/** The user and the API token of an action. */
export interface AuditAuthor {
  readonly username: string
  readonly origin: string
  readonly token: string
}

export class AuditLog {
  readonly #registry: Registry

  constructor(registry: Registry) {
    this.#registry = registry
  }

  /** Adds an entry. If the caller has a transaction open, the entry is committed or rolled back with it. */
  add(
    organization: string,
    { username, origin, token }: AuditAuthor,
    { code, message, data }: AuditEntry,
  ): void {
    this.#registry.file.run(
      `INSERT INTO audit_log (organization, code, message, origin, author, data, created_at)
       VALUES (?, ?, ?, ?, ?, ?, ?)`,
      [
        organization,
        code,
        message,
        origin,
        username,
        JSON.stringify({ ...data, acting_token: token }),
        Date.now(),
      ],
    )
  }

  count(organization: string): number {
    const sql = 'SELECT count(*) AS count FROM audit_log WHERE organization = ?'
    return this.#registry.file.all<{ count: number }>(sql, [organization])[0]?.count ?? 0
  }

  /** Returns a page of the log, newest entries first. @param page from 1 */
  getPage(organization: string, page: number, pageSize: number): readonly StoredAuditEntry[] {
    const rows = this.#registry.file.all<Omit<StoredAuditEntry, 'data'> & { readonly data: string }>(
      `SELECT code, message, origin, author, data, created_at AS createdAt FROM audit_log
       WHERE organization = ? ORDER BY id DESC LIMIT ? OFFSET ?`,
      [organization, pageSize, (page - 1) * pageSize],
    )
    return rows.map((row) => ({ ...row, data: JSON.parse(row.data) as AuditEntry['data'] }))
  }
}
