import type * as ours from '@batonsql/libsql-client'
import type * as oursHttp from '@batonsql/libsql-client/http'
import type * as oursNode from '@batonsql/libsql-client/node'
import type * as oursSqlite3 from '@batonsql/libsql-client/sqlite3'
import type * as oursWeb from '@batonsql/libsql-client/web'
import type * as oursWs from '@batonsql/libsql-client/ws'
import type * as theirs from '@libsql/client'
import type * as theirsHttp from '@libsql/client/http'
import type * as theirsNode from '@libsql/client/node'
import type * as theirsSqlite3 from '@libsql/client/sqlite3'
import type * as theirsWeb from '@libsql/client/web'
import type * as theirsWs from '@libsql/client/ws'
import { expectTypeOf } from 'vitest'

// Everything that a program can import from the original also exists here, with a compatible type. Classes with private constructors
// are compared by the members of their instances.
type PrivateName = '_createClient' | `${'Http' | 'Ws'}${'Client' | 'Transaction'}`
type PublicEntry<Entry> = Omit<Entry, PrivateName>

expectTypeOf<typeof ours>().toExtend<PublicEntry<typeof theirs>>()
expectTypeOf<typeof oursNode>().toExtend<PublicEntry<typeof theirsNode>>()
expectTypeOf<typeof oursWeb>().toExtend<PublicEntry<typeof theirsWeb>>()
expectTypeOf<typeof oursHttp>().toExtend<PublicEntry<typeof theirsHttp>>()
expectTypeOf<Omit<typeof oursWs, 'createClient'>>().toExtend<
  Omit<PublicEntry<typeof theirsWs>, 'createClient'>
>()
expectTypeOf<typeof oursSqlite3>().toExtend<PublicEntry<typeof theirsSqlite3>>()
expectTypeOf<oursHttp.HttpClient>().toExtend<theirs.Client>()
expectTypeOf<oursHttp.HttpTransaction>().toExtend<theirs.Transaction>()
expectTypeOf<ReturnType<typeof oursWs.createClient>>().toEqualTypeOf<oursWs.WsClient>()
expectTypeOf<Parameters<theirsHttp.HttpClient['batch']>>().toEqualTypeOf<
  Parameters<oursHttp.HttpClient['batch']>
>()
expectTypeOf<keyof theirsHttp.HttpTransaction>().toExtend<
  keyof oursHttp.HttpTransaction | '_getStream' | '_getSqlCache'
>()

// as in `process.env`, under `exactOptionalPropertyTypes`
declare const authToken: string | undefined
declare const createClient: typeof ours.createClient
createClient({ url: 'http://localhost', authToken })
// @ts-expect-error the URL is required
createClient({ url: undefined })
