import type { Registry } from './registry/registry.ts'

/** What was done, in the service's words. */
export type AuditCode =
  | 'db-create'
  | 'db-delete'
  | 'db-protect'
  | 'db-unprotect'
  | 'db-token-create'
  | 'group-create'
  | 'group-delete'
  | 'group-protect'
  | 'group-unprotect'
  | 'group-token-create'
  | 'group-unarchive'
  | 'org-create'
  | 'org-delete'
  | 'org-member-add'
  | 'org-member-leave'
  | 'org-member-rm'
  | 'org-plan-update'
  | 'org-set-overages'
  | 'user-token-create'

/** One entry of the log. */
export interface AuditEntry {
  readonly code: AuditCode
  readonly message: string
  readonly data: Readonly<Record<string, unknown>>
}

export interface WrittenAuditEntry extends AuditEntry {
  /** `cli`, or `web` for everybody else. */
  readonly origin: string
  readonly author: string
  /** In ms since 1970. */
  readonly createdAt: number
}

/** Who has done it, and with which API token. */
export interface AuditAuthor {
  readonly username: string
  readonly origin: string
  /** Name of the API token. */
  readonly token: string
}

/** What was done in organizations, newest first. */
export class AuditLog {
  readonly #registry: Registry

  constructor(registry: Registry) {
    this.#registry = registry
  }

  /** Adds an entry; in a transaction of the caller's it stands or falls with what it tells of. */
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

  /** A page of the log; pages begin with 1. */
  page(organization: string, page: number, pageSize: number): readonly WrittenAuditEntry[] {
    const rows = this.#registry.file.all<Omit<WrittenAuditEntry, 'data'> & { readonly data: string }>(
      `SELECT code, message, origin, author, data, created_at AS createdAt FROM audit_log
       WHERE organization = ? ORDER BY id DESC LIMIT ? OFFSET ?`,
      [organization, pageSize, (page - 1) * pageSize],
    )
    return rows.map((row) => ({ ...row, data: JSON.parse(row.data) as AuditEntry['data'] }))
  }
}
