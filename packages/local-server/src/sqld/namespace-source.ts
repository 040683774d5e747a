import { BackendRefusal, type DatabaseSource } from '../backend/backend.ts'
import type { SqldNamespaceSource } from './admin.ts'

/** What the admin API gets for the source of a database. @throws BackendRefusal for what it does not take */
export function namespaceSource(source: Exclude<DatabaseSource, { type: 'fork' }>): SqldNamespaceSource {
  switch (source.type) {
    case 'empty':
    case 'dump':
      return {}
    case 'file':
      throw new BackendRefusal('a database is made from an SQLite file by the back end "embedded" only')
    case 'schema':
      return { shared_schema: true }
    case 'schema-child':
      return { shared_schema_name: source.parent }
    default:
      return source satisfies never
  }
}
